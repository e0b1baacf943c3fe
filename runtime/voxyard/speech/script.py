"""Script of a document: its chunks, and the requests to the pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from voxyard.speech.errors import SpeechError
from voxyard.speech.frontend import Frontend
from voxyard.speech.requests import Request
from voxyard.speech.text.chunks import TextChunk, split


@dataclass(frozen=True)
class Script:
    """The chunks of a document with their requests, in text order."""

    chunks: tuple[TextChunk, ...]
    requests: tuple[Request, ...]

    @property
    def estimated_seconds(self) -> float:
        """Estimated duration of the audio."""
        return sum(chunk.estimated_seconds for chunk in self.chunks)


def prepare(
    text: str,
    frontend: Frontend,
    *,
    voice: str | None,
    seed: int,
    language: str | None = None,
    chapters: Sequence[int] = (),
) -> Script:
    """The script of a text in one voice: the engine's default for the language, where none is named.

    The language is the voice's where none is given. No chunk crosses one of the positions where `chapters` begin.

    Raises:
        SpeechError: the text is empty or invalid.
        Exception: with `exit_code`, where the engine has no such voice.
    """
    voice = voice or frontend.default_voice(language)
    if voice is not None:
        frontend.check_voice(voice)
    chunks = split(
        text,
        frontend.count_tokens,
        max_tokens=frontend.max_tokens,
        max_seconds=frontend.max_seconds,
        language=language or frontend.language(voice),
        chapters=chapters,
    )
    # characters without a token, as a lone zero-width space, are silent
    spoken = (chunk for chunk in chunks if chunk.tokens)
    chunks = tuple(replace(chunk, index=index) for index, chunk in enumerate(spoken))
    if not any(letter.isalnum() for chunk in chunks for letter in chunk.text):
        raise SpeechError("there is nothing to say: the text has no letter and no digit")
    return Script(
        chunks,
        tuple(
            Request(chunk.index, chunk.text, voice=voice, seed=seed, seconds=chunk.estimated_seconds)
            for chunk in chunks
        ),
    )
