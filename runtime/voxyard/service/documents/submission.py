"""Submission: from texts and files to documents, with their scripts; reading of an upload in a child process."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from voxyard.extraction.document import CodeBlocks, TextChapter
from voxyard.extraction.errors import (
    ExtractionError,
    ReaderUnavailableError,
    TextTooLongError,
    UnsupportedFileError,
)
from voxyard.extraction.extract import extract
from voxyard.service.audiobook import chapters
from voxyard.service.config import ServiceSection
from voxyard.service.documents.records import Document, NewChunk, NewDocument, Size, Upload, new_id
from voxyard.service.errors import (
    ServiceError,
    TooLargeError,
    UnavailableError,
    UnreadableDocumentError,
    UnsupportedDocumentError,
)
from voxyard.service.fairness import NO_LIMITS, KeyLimits, LimitsOf, no_limits
from voxyard.service.names import VoiceNames
from voxyard.service.texts import changed, check_language, script
from voxyard.service.voices.table import shown_name
from voxyard.speech.cast import Cast
from voxyard.speech.frontend import Frontend
from voxyard.speech.pool.job import OnFailure
from voxyard.speech.reading.lexicon import Lexicon
from voxyard.speech.reading.markup import is_ssml, untagged
from voxyard.speech.reading.options import READING, ReadingOptions
from voxyard.speech.script import document_language, script_note

LARGEST_SEED = 2**63 - 1  # as in `voxyard speak`
LONGEST_TITLE = LONGEST_AUTHOR = 200  # characters
_TITLE_FROM_TEXT = 60
_BEGIN = 2000  # characters in which a text's first words are looked for
_SHORTEST_LETTER = 0.03  # s: half of the shortest estimate of a letter, for letters of markup are not spoken
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True)
class DocumentRequest:
    """Document as requested by a client."""

    text: str
    title: str | None = None
    voice: str | None = None
    seed: int | None = None
    language: str | None = None
    on_failure: OnFailure = "fail"
    webhook: str | None = None
    idempotency_key: str | None = None
    read: str | None = None  # kinds that become words; None: the host's
    lexicon: Mapping[str, str] | None = None
    cast: Mapping[str, str] | None = None  # names in the text → voices
    headings: tuple[TextChapter, ...] = ()  # of the text
    cover: bytes | None = None  # JPEG or PNG
    upload: Upload | None = None  # in place of the text
    author: str | None = None
    note: str | None = None  # on what its file has and the document lacks
    languages: tuple[tuple[int, str | None], ...] = ()  # positions from which on the text declares another
    declared: str | None = None  # language that the file declares, which a named voice of another one goes before


def new_document(
    asked: NewDocument,
    request: DocumentRequest,
    frontend: Frontend,
    voices: VoiceNames,
    *,
    section: ServiceSection,
    limits: KeyLimits = NO_LIMITS,
    lexicon: Lexicon | None = None,
    reading: ReadingOptions = READING,
) -> NewDocument:
    """Document to store: `asked`, the unprepared one of the request, with its voice, and its chunks where it is a text.

    Blocks for a long text: not for the event loop. `limits` are its key's, and so is `lexicon`, which goes after the
    request's and before those of `reading`, the host's.

    Raises:
        ServiceError: the text is empty or too long, or an option is invalid.
    """
    most = limits.characters_of(section.max_characters)
    if len(request.text) > most:
        raise TooLargeError(
            f"the text has {len(request.text):,} characters, expected at most {most:,}: split it",
            parameter="text",
        )
    cast = voices.cast(request.cast, asked.owner)
    voice = cast.narrator or (None if request.voice is None else voices.resolve(request.voice, asked.owner))
    new = replace(asked, voice=voice)
    if request.upload is None:
        return _with_text(new, request, frontend, reading.changed(lexicon=lexicon), cast)
    own = changed(ReadingOptions().changed(lexicon=lexicon), request.read, request.lexicon)  # what is wrong is refused
    if request.language is not None:
        check_language(request.language)
    return replace(new, upload=replace(request.upload, lexicons=own.lexicons, cast=cast.members))


def least_size(request: DocumentRequest, frontend: Frontend) -> Size:
    """Size that the document has at the least, told without preparing it: the spoken words may make it larger."""
    seconds = _SHORTEST_LETTER * sum(map(str.isalpha, request.text))
    uploaded = 0 if request.upload is None else len(request.upload.content)
    return Size(max(1, int(seconds / frontend.max_seconds)), seconds, uploaded)


def unprepared(request: DocumentRequest, *, owner: str, now: float, instance: str) -> NewDocument:
    """The document before its voice is found and its text is split: enough to find an earlier one of the same request.

    Raises:
        ServiceError: the idempotency key is invalid.
    """
    if request.idempotency_key is not None and not _KEY.fullmatch(request.idempotency_key):
        raise ServiceError(
            "invalid Idempotency-Key: expected 1 to 255 visible ASCII characters without spaces, such as a UUID",
            parameter="Idempotency-Key",
        )
    return NewDocument(
        id=new_id(instance),
        owner=owner,
        title=_title(request),
        author=_author(request),
        text="",
        chunks=(),
        created=now,
        voice=None,
        seed=0 if request.seed is None else request.seed,
        language=request.language,
        on_failure=request.on_failure,
        webhook=request.webhook,
        idempotency_key=request.idempotency_key,
        fingerprint=fingerprint(request),
        upload=request.upload,
    )


def extracted_document(
    document: Document, request: DocumentRequest, frontend: Frontend, reading: ReadingOptions, cast: Cast
) -> NewDocument:
    """An accepted document with the text that was extracted for it. Raises ServiceError."""
    new = NewDocument(
        id=document.id,
        owner=document.owner,
        title=_title(request),
        author=_author(request),
        text="",
        chunks=(),
        created=document.created,
        voice=request.voice,
        seed=document.seed,
        language=request.language,
        on_failure=document.on_failure,
    )
    return _with_text(new, request, frontend, reading, cast)


def _with_text(
    new: NewDocument, request: DocumentRequest, frontend: Frontend, reading: ReadingOptions, cast: Cast
) -> NewDocument:
    """The document with its text, the chunks and their words, and the chapters. Raises ServiceError."""
    starts = tuple(heading.start for heading in request.headings)
    reading = changed(reading, request.read, request.lexicon)
    prepared = script(
        request.text, frontend, new.voice, new.seed, new.language,
        chapters=starts, reading=reading, on_failure=new.on_failure, cast=cast,
        languages=request.languages,
    )  # fmt: skip
    spoken_note = script_note(prepared, new.language or request.declared, frontend, shown_name)
    voice = prepared.voice  # the engine's default voice is stored with the document
    return replace(
        new,
        text=request.text,
        chunks=tuple(
            NewChunk(
                chunk.index,
                chunk.start,
                chunk.end,
                chunk.ending,
                chunk.estimated_seconds,
                chunk.pause,
                spoken=None if asked.text == chunk.text else asked.text,
                voice=None if asked.voice == voice else asked.voice,
                speaker=chunk.speaker,
            )
            for chunk, asked in zip(prepared.chunks, prepared.requests, strict=True)
        ),
        voice=voice,
        note="; ".join(filter(None, (request.note, spoken_note))) or None,
        language=prepared.language,
        chapters=chapters.of_headings(_without_tags(request), [chunk.start for chunk in prepared.chunks], new.title),
        cover=request.cover,
    )


def fingerprint(request: DocumentRequest) -> str:
    """SHA-256 of the request without its idempotency key; equal for equal requests. A text has the same headings."""
    left_out = {"idempotency_key", "headings", "cover", "upload", "declared", "note", "languages"}
    left_out |= {
        name for name in ("read", "lexicon", "author", "cast") if getattr(request, name) is None
    }  # as before there were these
    asked = {name: value for name, value in vars(request).items() if name not in left_out}
    if (upload := request.upload) is not None:
        asked["upload"] = [upload.name, upload.media_type, hashlib.sha256(upload.content).hexdigest()]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _title(request: DocumentRequest) -> str:
    title = untagged(request.title or "")
    if not title.strip():
        begin = untagged(request.text[:_BEGIN], ssml=is_ssml(request.text))
        title = _line(begin.lstrip()[: 4 * _TITLE_FROM_TEXT].partition("\n")[0])
        if len(title) > _TITLE_FROM_TEXT:
            title = title[: _TITLE_FROM_TEXT - 1].rsplit(" ", 1)[0] + "…"
    return _line(title)[:LONGEST_TITLE].rstrip() or "Untitled"


def _without_tags(request: DocumentRequest) -> list[TextChapter]:
    """The headings of a text as titles of chapters; one of tags alone is none."""
    ssml = is_ssml(request.text)
    titles = [_line(untagged(each.title, ssml=ssml)) for each in request.headings]
    return [replace(each, title=title) for each, title in zip(request.headings, titles, strict=True) if title]


def _author(request: DocumentRequest) -> str | None:
    return _line(request.author or "")[:LONGEST_AUTHOR].rstrip() or None


def _line(text: str) -> str:
    return " ".join(_INVISIBLE.sub(" ", text).split())


_STATUS: dict[type[ExtractionError], type[ServiceError]] = {  # others: UnreadableDocumentError
    ReaderUnavailableError: UnavailableError,
    TextTooLongError: TooLargeError,
    UnsupportedFileError: UnsupportedDocumentError,
}
ReadUpload = Callable[[Document, Upload, threading.Event], NewDocument]
"""Reads the upload of a document; raises ServiceError, also where the event is set."""


def service_error(error: ExtractionError) -> ServiceError:
    """Service error of an extraction error."""
    kind = _STATUS.get(type(error), UnreadableDocumentError)
    return kind(str(error), parameter="file")


def read_upload(
    document: Document,
    upload: Upload,
    cancelled: threading.Event,
    *,
    frontend: Frontend,
    voices: VoiceNames,
    section: ServiceSection,
    limits: LimitsOf = no_limits,
    reading: ReadingOptions = READING,
    code: CodeBlocks = "skip",
) -> NewDocument:
    """Text and chunks of a document's upload, within the limits of its key. Raises ServiceError."""
    most = limits(document.owner).characters_of(section.max_characters)
    try:
        found = extract(
            upload.content, upload.name, upload.media_type, max_characters=most, code=code, cancelled=cancelled
        )
    except ExtractionError as error:
        raise service_error(error) from error
    request = DocumentRequest(
        text=found.text,
        title=document.title if upload.titled else found.title,
        voice=document.voice,
        seed=document.seed,
        language=document_language(document.language, document.voice, found.language, frontend),
        on_failure=document.on_failure,
        read=upload.read,
        headings=found.chapters,
        cover=found.cover,
        author=document.author or found.author,
        declared=found.language,
        languages=found.languages,
        note="; ".join(filter(None, (found.note, found.damage))) or None,
    )
    own = replace(reading, lexicons=(*upload.lexicons, *reading.lexicons))
    cast = voices.cast_of(upload.cast, document.owner)
    return extracted_document(document, request, frontend, own, cast)
