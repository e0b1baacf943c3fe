"""Texts of requests: from markup and tags to a script, in the reading of a request, its key and its host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from voxyard.extraction.document import CodeBlocks, parsed
from voxyard.extraction.errors import ExtractionError
from voxyard.service.errors import ServiceError, UnspeakableTextError
from voxyard.speech.cast import Cast
from voxyard.speech.errors import SpeechError
from voxyard.speech.frontend import Frontend
from voxyard.speech.pool.job import OnFailure
from voxyard.speech.reading.lexicon import of_mapping
from voxyard.speech.reading.options import READING, ReadingOptions
from voxyard.speech.script import Script, check_speakable, prepare_script
from voxyard.speech.text.sentences import language_code


def script(
    text: str,
    frontend: Frontend,
    voice: str | None,
    seed: int,
    language: str | None = None,
    parameter: str = "text",
    chapters: Sequence[int] = (),
    reading: ReadingOptions = READING,
    on_failure: OnFailure | None = "fail",
    cast: Cast | None = None,
    languages: Sequence[tuple[int, str | None]] = (),
) -> Script:
    """Chunks of a text, ready for the pool. Blocks for a long text: not for the event loop.

    What the engine cannot speak is refused here, where it knows so already; with `on_failure` None, for a text that
    is not spoken, it is not asked.

    Raises:
        ServiceError: the text has no words or is invalid, it names voices that there are not, or the language is
            unknown, to the engine too.
        UnspeakableTextError: the engine cannot speak it.
    """
    if language is not None:
        check_language(language)
    try:
        made = prepare_script(
            text, frontend, voice=voice, seed=seed, language=language, languages=languages,
            chapters=chapters, reading=reading, cast=cast,
        )  # fmt: skip
    except SpeechError as error:
        raise ServiceError(str(error), parameter=parameter) from error
    if on_failure is None:
        return made
    if language is not None and (reason := frontend.refusal("a", language)) is not None:
        raise ServiceError(reason, parameter="language")
    try:
        check_speakable(made, frontend, on_failure)
    except SpeechError as error:
        raise UnspeakableTextError(str(error), parameter=parameter) from error
    return made


def changed(reading: ReadingOptions, read: str | None, lexicon: Mapping[str, str] | None) -> ReadingOptions:
    """The reading of a request: its kinds, where it names some, and its lexicon first. Raises ServiceError."""
    try:
        reading = reading.changed(read)
    except SpeechError as error:
        raise ServiceError(str(error), parameter="read") from error
    try:
        return reading.changed(lexicon=None if lexicon is None else of_mapping(lexicon))
    except SpeechError as error:
        raise ServiceError(str(error), parameter="lexicon") from error


def check_language(language: str) -> None:
    """Raises ServiceError where this is no language."""
    try:
        language_code(language)
    except SpeechError as error:
        raise ServiceError(str(error), parameter="language") from error


def plain(text: str, format: Literal["text", "markdown"], code_blocks: CodeBlocks, parameter: str = "input") -> str:
    """What is spoken of a text. It is as short as an input may be: no process of its own limits its reading.

    Raises ServiceError.
    """
    if format == "text":
        return text
    from voxyard.extraction.markdown import markdown_blocks

    try:
        return parsed(None, markdown_blocks(text), code_blocks).text
    except ExtractionError as error:
        raise ServiceError(str(error), parameter=parameter) from error
