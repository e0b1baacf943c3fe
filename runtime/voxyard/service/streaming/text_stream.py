"""Text stream: sentences of a text that is still being written, each once it is surely complete."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from voxyard.speech.reading.markup import is_ssml, masked, open_voices
from voxyard.speech.requests import Boundary
from voxyard.speech.text.sentences import sentence_ends

Ends = Callable[[str], list[int]]
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_MAY_END = re.compile(r"[.!?…:;。！？；।؟۔\n]")  # no sentence ends without one of these
_MOST_OPEN = 16  # voices that are kept of a writer who ends none
_NAME = "Smith"  # after `Dr.` it goes on
_NUMBER = re.compile(r"\d\.\s*$")  # 5.50, am 3. Mai
_WORD = re.compile(r"\s*\S+\s|\s*\S{12}")  # a whole word, or as much of a script without blanks


@dataclass(frozen=True)
class Sentence:
    """Text that is spoken in one go, and what ends with it."""

    text: str
    ending: Boundary = "sentence"
    voices: tuple[str, ...] = ()  # that tags before it have begun, the innermost last

    @property
    def marked(self) -> str:
        """The text as it is read alone: with the tags that hold from before it."""
        return "".join(f"[voice:{name}]" for name in self.voices) + self.text


def complete(text: str, language: str | None) -> tuple[list[Sentence], str]:
    """The complete sentences of a text, and the rest of it, which may go on.

    A sentence is complete once the word after it is: `Dr.` and `3.` may go on. SSML is complete where the text ends.

    Raises:
        SpeechError: a tag in it is wrong.
    """
    if is_ssml(text):
        return [], text
    found, start = list[Sentence](), 0
    while (end := _PARAGRAPH.search(text, start)) is not None:
        if text[: end.start()].strip() and not _says(text[: end.start()]):  # a pause between paragraphs
            start = end.end()
            continue
        found += _sentences(text[: end.start()], [*_ends(text[: end.start()], language)], "paragraph")
        text, start = text[end.end() :], 0
    ends = [at for at in _ends(text, language) if _WORD.match(text, at) is not None] if _MAY_END.search(text) else []
    spoken = _sentences(text[: ends[-1]], ends, "sentence") if ends else []
    return found + spoken, text[ends[-1] :] if spoken else text


def paused(text: str, language: str | None) -> tuple[list[Sentence], str]:
    """As `complete`, for a text whose writer pauses: its last word is whole.

    Its end is one of a sentence where even a name would begin a new one.
    """
    going_on = f"{text.rstrip()} {_NAME} "
    found, rest = complete(going_on, language)
    if rest.strip() != _NAME:
        return found, text[len(going_on) - len(rest) :]
    return (found, "") if found and not _NUMBER.search(text) else complete(text, language)


def last(text: str, language: str | None) -> tuple[list[Sentence], str]:
    """As `complete`, for a text that has ended: nothing is left of it."""
    found, rest = complete(text, language)
    ends = [len(rest)] if is_ssml(rest) else _ends(rest, language)
    return found + _sentences(rest, ends, "paragraph"), ""


def voiced(sentences: Iterable[Sentence], voices: tuple[str, ...]) -> Iterator[tuple[Sentence, tuple[str, ...]]]:
    """Sentences with the voices that are open before each, and those that are open after it.

    Raises:
        SpeechError: a tag ends the voice of none.
    """
    for sentence in sentences:
        begun = replace(sentence, voices=voices)
        voices = () if is_ssml(sentence.text) else open_voices(begun.marked)[-_MOST_OPEN:]
        yield begun, voices


def _ends(text: str, language: str | None) -> list[int]:
    return sentence_ends(text, language).sure if text.strip() else []


def _sentences(text: str, ends: list[int], ending: Boundary) -> list[Sentence]:
    """The text cut at its ends. What has no letter and no digit goes with the sentence before it, or else after it."""
    parts, start = list[str](), 0
    for end in ends:
        part = text[start:end]
        start = end
        if parts and not (_says(part) and _says(parts[-1])):
            parts[-1] += part
        else:
            parts.append(part)
    said = [part.strip() for part in parts if _says(part)]
    return [Sentence(part, ending if part is said[-1] else "sentence") for part in said]


def _says(text: str) -> bool:
    return any(character.isalnum() for character in masked(text))
