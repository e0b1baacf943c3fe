"""Turns requests into stored documents: checked, cut into chunks, with a fingerprint."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from dataclasses import dataclass

from voxyard.service.config import ServiceSection
from voxyard.service.documents.records import NewChunk, NewDocument
from voxyard.service.errors import ServiceError, TooLargeError
from voxyard.service.voice_names import Voices
from voxyard.speech.errors import SpeechError
from voxyard.speech.frontend import Frontend
from voxyard.speech.pool.job import OnFailure
from voxyard.speech.script import Script, prepare
from voxyard.speech.text.sentences import language_code

LARGEST_SEED = 2**32 - 1
LONGEST_TITLE = 200  # characters
_TITLE_FROM_TEXT = 60
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True)
class Wish:
    """Document as a client asked for it."""

    text: str
    title: str | None = None
    voice: str | None = None
    seed: int | None = None
    language: str | None = None
    on_failure: OnFailure = "fail"
    webhook: str | None = None
    idempotency_key: str | None = None


def script(
    text: str,
    frontend: Frontend,
    voice: str | None,
    seed: int,
    language: str | None = None,
    parameter: str = "text",
) -> Script:
    """The chunks of a text, ready for the pool. Takes a while for a long one: not for the event loop.

    Raises:
        ServiceError: there is nothing to speak, the text is broken, or the language is no code.
    """
    if language is not None:
        _checked_language(language)
    try:
        return prepare(text, frontend, voice=voice, seed=seed, language=language)
    except SpeechError as error:
        raise ServiceError(str(error), parameter=parameter) from error


def new_document(
    wish: Wish, frontend: Frontend, voices: Voices, *, owner: str, now: float, section: ServiceSection
) -> NewDocument:
    """A document to accept, with a name of its own. Takes a while for a long one: not for the event loop.

    Raises:
        ServiceError: the text is empty or too long, or an option means nothing here.
    """
    if len(wish.text) > section.max_characters:
        raise TooLargeError(
            f"the text has {len(wish.text):,} characters, expected at most {section.max_characters:,}: send parts",
            parameter="text",
        )
    if wish.idempotency_key is not None and not _KEY.fullmatch(wish.idempotency_key):
        raise ServiceError(
            "the Idempotency-Key must be 1 to 255 visible ASCII characters without blanks: a UUID does well",
            parameter="Idempotency-Key",
        )
    voice = None if wish.voice is None else voices.resolve(wish.voice)
    seed = 0 if wish.seed is None else wish.seed
    prepared = script(wish.text, frontend, voice, seed, wish.language)
    voice = prepared.requests[0].voice  # the engine's default is written down: it stays this document's voice
    return NewDocument(
        id=uuid.uuid4().hex,
        owner=owner,
        title=_title(wish),
        text=wish.text,
        chunks=tuple(
            NewChunk(chunk.index, chunk.start, chunk.end, chunk.ending, chunk.estimated_seconds)
            for chunk in prepared.chunks
        ),
        created=now,
        voice=voice,
        seed=seed,
        language=wish.language if wish.language is not None else frontend.language(voice),
        on_failure=wish.on_failure,
        webhook=wish.webhook,
        idempotency_key=wish.idempotency_key,
        fingerprint=fingerprint(wish),
    )


def fingerprint(wish: Wish) -> str:
    """SHA-256 of the whole request but its key: two requests with one fingerprint ask for the same."""
    asked = {name: value for name, value in vars(wish).items() if name != "idempotency_key"}
    return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _title(wish: Wish) -> str:
    title = wish.title
    if title is None or not title.strip():
        title = " ".join(wish.text.lstrip()[: 4 * _TITLE_FROM_TEXT].partition("\n")[0].split())
        if len(title) > _TITLE_FROM_TEXT:
            title = title[: _TITLE_FROM_TEXT - 1].rsplit(" ", 1)[0] + "…"
    return _INVISIBLE.sub(" ", title).strip()[:LONGEST_TITLE] or "Untitled"


def _checked_language(language: str) -> None:
    try:
        language_code(language)
    except SpeechError as error:
        raise ServiceError(str(error), parameter="language") from error
