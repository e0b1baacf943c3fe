"""Spoken text of a document: without its tags, with its lexicon, in words; parted at pauses and changes of voice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import get_args

from voxyard.speech.errors import SpeechError
from voxyard.speech.reading.edits import Edit, EditedText, Span
from voxyard.speech.reading.lexicon import Lexicon
from voxyard.speech.reading.markup import MarkedText
from voxyard.speech.reading.reader import readings
from voxyard.speech.reading.rules import KINDS, Kind
from voxyard.speech.text.boundaries import ends_paragraph

_MOST_TIMES, _MOST_MORE = 20, 1000  # the spoken text may be so many times as long, and so many characters


@dataclass(frozen=True)
class ReadingOptions:
    """Reading of a text: the kinds of figures and short forms that become words, and lexicons, the first first."""

    kinds: tuple[Kind, ...] = KINDS
    lexicons: tuple[Lexicon, ...] = ()
    gutenberg_licence: bool = True  # whether what Project Gutenberg adds to a book is spoken too

    def changed(self, read: str | None = None, lexicon: Lexicon | None = None) -> ReadingOptions:
        """With the kinds that `read` names, and with a lexicon that goes before those here. Raises SpeechError."""
        kinds = self.kinds if read is None else read_kinds(read)
        return replace(self, kinds=kinds, lexicons=self.lexicons if lexicon is None else (lexicon, *self.lexicons))


READING = ReadingOptions()
"""Every kind, no lexicon: how a text is read where nothing else is said."""


def read_kinds(names: str) -> tuple[Kind, ...]:
    """The kinds of a list with commas, of `all` or `none`; emoji are named in a list only. Raises SpeechError."""
    if names == "none":
        return ()
    asked = [name.strip() for name in names.split(",")]
    if "all" in asked:
        asked = [*KINDS, *(name for name in asked if name != "all")]
    if unknown := [name for name in asked if name not in get_args(Kind)]:
        raise SpeechError(
            f"cannot read {unknown[0]!r}: expected all, none, or a list with commas of {', '.join(get_args(Kind))}"
        )
    return tuple(kind for kind in get_args(Kind) if kind in asked)


@dataclass(frozen=True)
class Passage:
    """A part of a document up to a pause tag, a change of the voice or the end; `pause` seconds are silent after it.

    `text` is spoken by the voice that the document names `speaker`, None where no tag names one. `turn` tells that the
    voice changes after it, and `paragraph` that it does so between two paragraphs. `units` are its spans that stand in
    place of others or whose words the author has chosen, in text order.
    """

    text: str
    pause: float | None
    speaker: str | None
    turn: bool
    paragraph: bool
    units: tuple[Span, ...]
    _marked: EditedText
    _begin: int  # of this passage in the text without tags
    _edited: EditedText
    _end: int
    _written: str  # without tags, before it was read

    def readings(self, start: int, end: int) -> Iterator[tuple[str, str]]:
        """What was read of these characters: how it is written, and its words; those of signs that are silent too."""
        for edit, first, last in self._edited.within(start, end):
            yield self._written[edit.start : edit.end], self.text[first:last]

    def source(self, start: int, end: int) -> Span:
        """Characters of the document from which these of the passage came."""
        first, last = self._edited.span(start, end)
        return self._marked.span(self._begin + first, self._begin + last)

    def position(self, at: int) -> int | None:
        """Position in the passage of a character of the document; None where it is before or after it."""
        marked = self._marked.position(at)
        if not self._begin <= marked < self._end:
            return None
        return self._edited.position(marked - self._begin)


_MARK = r"\*\*\*\s?{} OF TH(?:E|IS) PROJECT GUTENBERG EBOOK\b"
_BOOK_BEGINS = re.compile(_MARK.format("START") + r"[^*]{0,500}\*\*\*\s*", re.IGNORECASE)
_BOOK_ENDS = re.compile(_MARK.format("END"), re.IGNORECASE)
_END_OF_BOOK = re.compile(r"^[^\S\n]*End of (?:the )?Project Gutenberg[^\n]*\n\s*\Z", re.IGNORECASE | re.MULTILINE)
_NEAR_END = 400  # characters


def _around_the_book(text: str) -> list[Span]:
    """What stands before and after the text of a book from Project Gutenberg; nothing of another text."""
    begins = _BOOK_BEGINS.search(text)
    ends = _BOOK_ENDS.search(text, begins.end() if begins else 0)
    found = [] if begins is None else [(0, begins.end())]
    if ends is None:
        return found
    above = max(begins.end() if begins else 0, ends.start() - _NEAR_END)
    line = _END_OF_BOOK.search(text[above : ends.start()])
    return [*found, (ends.start() if line is None else above + line.start(), len(text))]


def passages(
    marked: MarkedText, language: str | None, reading: ReadingOptions, languages: Mapping[str, str | None] | None = None
) -> Iterator[Passage]:
    """The passages of a document, in text order, blank ones too; `languages` are those of what speakers say.

    Raises:
        SpeechError: its spoken form is too long.
    """
    left, length = marked.edited.text, len(marked.edited.original)
    pauses = [(pause.at, pause.seconds, None) for pause in marked.pauses]
    turns = [(tag.at, None, tag) for tag in marked.voices]
    marks = sorted([*pauses, *turns], key=lambda mark: mark[0])
    silent = [] if reading.gutenberg_licence else _around_the_book(left)
    most, spoken, begin, speaker = _MOST_TIMES * length + _MOST_MORE, 0, 0, None
    for end, pause, turn in [*marks, (len(left), None, None)]:
        piece = left[begin:end]
        spoken_in = language if speaker is None else (languages or {}).get(speaker, language)
        chosen = [(start - begin, last - begin) for start, last in marked.chosen if begin <= start < end]
        edits = [
            Edit(max(first, begin) - begin, min(last, end) - begin, "")
            for first, last in silent
            if max(first, begin) < min(last, end)
        ]
        chosen = [span for span in chosen if not any(edit.start < span[1] and span[0] < edit.end for edit in edits)]
        for lexicon in reading.lexicons:
            edits += lexicon.edits(piece, spoken_in, [*chosen, *((edit.start, edit.end) for edit in edits)])
        taken = [*chosen, *((edit.start, edit.end) for edit in edits)]
        edited = EditedText(piece, [*edits, *readings(piece, spoken_in, reading.kinds, taken)])
        spoken += len(edited.text)
        if spoken > most:
            raise SpeechError(
                f"the spoken text has more than {most:,} characters, {_MOST_TIMES} times those of the document: use "
                "shorter words in the lexicon"
            )
        own = [(edited.position(start), edited.position(last)) for start, last in chosen]
        units = tuple(sorted({*own, *(span for span in edited.replaced() if span[0] < span[1])}))
        ends = (turn is not None, turn is not None and ends_paragraph(left, end))
        yield Passage(edited.text, pause, speaker, *ends, units, marked.edited, begin, edited, end, piece)
        begin, speaker = end, speaker if turn is None else turn.name
