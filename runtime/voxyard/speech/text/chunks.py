"""Splits a document into chunks for an engine: whole sentences where they fit, no text lost; estimated lengths."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from voxyard.speech.errors import SpeechError, check_wanted
from voxyard.speech.requests import Boundary
from voxyard.speech.text import boundaries
from voxyard.speech.text.boundaries import lacks_mark, opening_cut, paragraphs, trim, with_full_stops
from voxyard.speech.text.sentences import language_code, sentence_ends

WORDS_PER_MINUTE = 160  # an even reading pace; where languages differ, their words differ in length
LETTERS_PER_WORD = {
    "ar": 4.0,
    "de": 5.8,
    "en": 4.7,
    "es": 5.0,
    "fa": 4.0,
    "fr": 6.0,  # many are silent
    "hi": 4.4,
    "it": 5.2,
    "pl": 6.0,
    "pt": 5.0,
    "ru": 5.8,
    "tr": 5.4,
}
DEFAULT_LETTERS_PER_WORD = 4.7

# Milliseconds of one character.
HAN = 220  # one syllable in Chinese
HAN_IN_JAPANESE = 300  # about two morae
HANGUL = 180  # one syllable
KANA = 150  # one mora
DIGIT = 350  # a short word: "seven", or a part of a longer number word
SYMBOL = 350  # €, %, & and the like are read as a word; a picture may be passed over
CLAUSE_PAUSE = 150
SENTENCE_PAUSE = 350

_CLAUSE = frozenset(",;:—–、，；：،؛")
_SENTENCE = frozenset(".!?…。！？．｡।॥؟۔")
_STOPS = _CLAUSE | _SENTENCE


def milliseconds(text: str, language: str | None = None) -> list[int]:
    """Running sums: [i] is the estimate for text[:i] in milliseconds, so that any slice costs one subtraction.

    Whole milliseconds keep the sums exact, and stops in a row make one pause. `language` is a code of two or three
    letters; None goes by the script.
    """
    table = _table(language)
    return [
        0,
        *itertools.accumulate(table.after(*pair) for pair in zip(itertools.chain(" ", text), text, strict=False)),
    ]


class _Table(dict[str, int]):
    """Milliseconds by character, computed on first use."""

    def __init__(self, language: str | None) -> None:
        super().__init__()
        words = LETTERS_PER_WORD.get(language or "", DEFAULT_LETTERS_PER_WORD)
        self._letter = round(60_000 / (WORDS_PER_MINUTE * words))
        self._han = HAN_IN_JAPANESE if language == "ja" else HAN

    def after(self, before: str, character: str) -> int:
        """Milliseconds of a character that follows `before`."""
        return 0 if character in _STOPS and before in _STOPS else self[character]

    def __missing__(self, character: str) -> int:
        self[character] = found = self._of(character)
        return found

    def _of(self, character: str) -> int:
        if character in _SENTENCE:
            return SENTENCE_PAUSE
        if character in _CLAUSE:
            return CLAUSE_PAUSE
        category = unicodedata.category(character)
        if category[0] in "ZCP" or unicodedata.combining(character):
            return 0  # blanks, controls, brackets and quotes are silent; an accent belongs to its letter
        if category[0] == "N":
            return DIGIT
        if category[0] == "S":
            return SYMBOL
        return self._letter_of(ord(character))

    def _letter_of(self, code: int) -> int:
        if 0x3040 <= code <= 0x30FF or 0xFF66 <= code <= 0xFF9F:
            return KANA
        if 0xAC00 <= code <= 0xD7A3:
            return HANGUL
        if 0x3400 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF or 0x20000 <= code <= 0x3FFFF:
            return self._han
        return self._letter


@functools.cache
def _table(language: str | None) -> _Table:
    return _Table(language)


MAX_TOKENS = 256  # Bark silently drops further tokens
MAX_SECONDS = 13.0  # Bark speaks at most 15.4 s at a time; the margin is for estimates that are too low
SHORT = 1000  # milliseconds; engines speak a lone "Yes." badly, so it is joined with a neighbor where that fits
VERY_SHORT = 700  # worse than a neighbor cut between two words
CHARACTERS_PER_TOKEN = 20  # limit of a chunk's length, so that a megabyte of silent characters is not tokenized at once

Span = tuple[int, int]

_SURROGATE = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True)
class TextChunk:
    """A piece of a document: `text` is its characters [start, end), without blanks at either end.

    Between two chunks stand blanks only. `estimated_seconds` is a guess, `tokens`
    is what the given counter says. `ending` is the boundary after it: of a chapter, a paragraph (or the document), a
    sentence, or a part of a long one. `pause` is the silence after it in seconds, where the document has a pause tag.
    `speaker` is who speaks it by the document's tags.

    What is spoken for it may differ from its text (see `voxyard.speech.script`).
    """

    index: int
    text: str
    start: int
    end: int
    ending: Boundary
    estimated_seconds: float
    tokens: int
    pause: float | None = None
    speaker: str | None = None

    @property
    def joint(self) -> Boundary | float:
        """Cause of the silence after it: the pause tag's seconds, else the boundary."""
        return self.ending if self.pause is None else self.pause


def split(
    text: str,
    count_tokens: Callable[[str], int],
    *,
    max_tokens: int = MAX_TOKENS,
    max_seconds: float = MAX_SECONDS,
    language: str | None = None,
    chapters: Sequence[int] = (),
    opening: bool = True,
    units: Sequence[Span] = (),
) -> tuple[TextChunk, ...]:
    """Chunks in text order; none where the text is blank.

    Sentences are packed up to the limits. One that is too long is cut after a clause, else a word, else a hyphen in a
    word, else a letter; so is a word of more than `boundaries.LONGEST_WORD` characters. Very short chunks are joined
    with a neighbor. A paragraph that ends without a mark, such as a heading, is measured as if it had a full stop, and
    is spoken with one where it is joined with the next (see `voxyard.speech.text.boundaries`).

    The first chunk is the first sentence alone (with those that follow, while that is very short), or its opening
    clause where it is long (see `voxyard.speech.text.boundaries`), and the rest of it the second: a listener hears the
    first before anything else is decoded. It is so for every text, listened to or not: the audio of a chunk depends on
    its text and its number, and one seed gives one sound in files, streams and documents.

    Args:
        text: the document; an empty line ends a paragraph, a single line break does not.
        count_tokens: tokens that the engine makes of a text, before any cutting or padding of its own.
        max_tokens: most tokens in a chunk.
        max_seconds: longest estimate of a chunk.
        language: a code such as `en` or `pt-BR`; without one the script of each paragraph decides.
        chapters: positions in the text where chapters begin, which no chunk crosses.
        opening: the text begins the document; without it the first sentence is packed with others.
        units: spans that the cut of the first sentence leaves whole, in text order, such as the words of a number.

    Raises:
        SpeechError: the text holds half a character (a lone surrogate), the limits are too small for one character,
            or the language is no code.
    """
    check_text(text)
    _check(max_tokens, max_seconds)
    found = paragraphs(text, chapters)
    splitter = _Splitter(text, count_tokens, max_tokens, max_seconds, language_code(language), units)
    splitter.add_pauses(end for _, end in found if lacks_mark(text, end))
    packed = list[list[Span]]()
    for start, end in found:
        packed.append(splitter.pack(start, end, opening=opening))
        opening = opening and splitter.heard(0, end) < SHORT
    paragraph_ends = {spans[-1][1] for spans in packed if spans}
    chapters = sorted(chapters)
    sections = groupby((span for spans in packed for span in spans), lambda span: bisect_right(chapters, span[0]))
    joined_sections = [splitter.join_short(list(spans)) for _, spans in sections]
    chapter_ends = {spans[-1][1] for spans in joined_sections[:-1]}
    joined = [span for spans in joined_sections for span in spans]
    return tuple(
        TextChunk(
            index,
            text[start:end],
            start,
            end,
            "chapter" if end in chapter_ends else "paragraph" if end in paragraph_ends else splitter.ending(end),
            splitter.length(start, end) / 1000,
            splitter.count(start, end),
        )
        for index, (start, end) in enumerate(joined)
    )


def check_text(text: str) -> None:
    """Checks that every character of a text is whole. Raises SpeechError."""
    if (broken := _SURROGATE.search(text)) is not None:
        raise SpeechError(
            f"the text has half a character (U+{ord(broken[0]):04X}) at position {broken.start()}: it was read with "
            "the wrong encoding or cut inside of a character; read it again as what it is, UTF-8 in most cases"
        )


def _check(max_tokens: int, max_seconds: float) -> None:
    if max_tokens < 1:
        raise SpeechError(f"max_tokens is {max_tokens}, a chunk needs room for at least 1 token")
    if not max_seconds > 0:
        raise SpeechError(f"max_seconds is {max_seconds}, a chunk needs more than 0 s")


class _Splitter:
    """Splits one document within its limits."""

    def __init__(
        self,
        text: str,
        count_tokens: Callable[[str], int],
        max_tokens: int,
        max_seconds: float,
        language: str | None,
        units: Sequence[Span],
    ) -> None:
        self._text = text
        self._count_tokens = count_tokens
        self._max_tokens = max_tokens
        self._limit = min(max_seconds * 1000, 1e15)
        self._language = language
        self._units = units
        self._sums = milliseconds(text, language)
        self._unmarked: frozenset[int] = frozenset()  # ends of paragraphs without a mark
        self._sentence_ends: list[int] = []  # of the paragraphs packed so far
        self._long_words = boundaries.long_words(text)
        self._levels: tuple[Callable[[str, int, int], list[int]], ...] = (
            boundaries.clauses,
            boundaries.words,
            boundaries.joints,
            boundaries.letters,
            lambda _, start, end: boundaries.characters(start, end),
        )

    def add_pauses(self, ends: Iterable[int]) -> None:
        """Count a full stop after the paragraphs with these ends, which have no mark."""
        self._unmarked = frozenset(ends)
        places = sorted(self._unmarked)
        for at, (begin, end) in enumerate(pairwise([*places, len(self._text)]), 1):
            for place in range(begin + 1, end + 1):
                self._sums[place] += at * SENTENCE_PAUSE

    def heard(self, start: int, end: int) -> int:
        """Estimated milliseconds of a span, with the pause at the end of a paragraph that has no mark."""
        return self.length(start, end) + (SENTENCE_PAUSE if end in self._unmarked else 0)

    def length(self, start: int, end: int) -> int:
        """Estimated milliseconds of a span."""
        return self._sums[end] - self._sums[start]

    def count(self, start: int, end: int) -> int:
        """Tokens of a span, with its full stops between paragraphs."""
        return self._count_tokens(with_full_stops(self._text[start:end]))

    def ending(self, end: int) -> Boundary:
        """Boundary at this position; the next chunk begins after the blanks that follow."""
        while end < len(self._text) and self._text[end].isspace():
            end += 1
        at = bisect_right(self._sentence_ends, end) - 1
        return "sentence" if at >= 0 and not self._text[self._sentence_ends[at] : end].strip() else "clause"

    def pack(self, start: int, end: int, *, opening: bool) -> list[Span]:
        """Chunks of one paragraph; with `opening` the first sentences that are not very short are one, or are cut."""
        ends = sentence_ends(self._text[start:end], self._language)
        sure = [start + at for at in ends.sure]
        doubtful = [start + at for at in ends.doubtful]
        first = 0  # sentences of the opening
        if opening:
            first = next((at for at, each in enumerate(sure, 1) if self.heard(0, each) >= SHORT), 0)
        clause, begin = list[Span](), start
        cut = first and self._opening_cut(start, sure[first - 1])
        if cut:
            clause, begin = [trim(self._text, start, cut)], cut
        spans = self._joined_tails(self._fill(begin, [at for at in sure[:first] if at > begin], doubtful, 0))
        rest = self._joined_tails(self._fill(sure[first - 1] if first else start, sure[first:], doubtful, 0))
        if len(spans) > 1 and rest:  # the opening was too long for one chunk
            spans[-1:] = self._joined_tails([spans[-1], rest.pop(0)])
        self._sentence_ends += sure
        return [*clause, *spans, *rest]

    def _opening_cut(self, start: int, end: int) -> int | None:
        return opening_cut(self._text, (start, end), self.length, self._fits, self._units, self._language)

    def _joined_tails(self, spans: Iterable[Span]) -> list[Span]:
        """The spans, the tail of a sentence that was too long joined with what follows it."""
        joined: list[Span] = []
        for span in spans:
            if joined and self._fits(joined[-1][0], span[1]):
                joined[-1] = (joined[-1][0], span[1])
            else:
                joined.append(span)
        return joined

    def join_short(self, spans: Sequence[Span]) -> list[Span]:
        """Join short chunks with the next one, else with the one before, else with a part of either.

        A short second chunk is left to the third where both fit, so that the first stays a sentence. A short paragraph
        without a mark is left to what follows it: it is a heading.
        """
        joined: list[Span] = []
        for at, (start, end) in enumerate(spans):
            short = joined and min(self.heard(*joined[-1]), self.heard(start, end)) < SHORT
            if short and end in self._unmarked and at + 1 < len(spans):
                short = self.heard(*joined[-1]) < SHORT
            if short and len(joined) == 1 and self.heard(*joined[0]) >= SHORT and at + 1 < len(spans):
                short = not self._fits(start, spans[at + 1][1])
            if short and self._fits(joined[-1][0], end):
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        for at in range(len(joined)):
            before = () if joined[at][1] in self._unmarked and at + 1 < len(joined) else (at - 1,)
            for left in (at, *before):
                if self.heard(*joined[at]) < SHORT and 0 <= left < len(joined) - 1:
                    joined[left : left + 2] = self._share(joined[left], joined[left + 1])
        return joined

    def _fill(self, start: int, ends: list[int], doubtful: list[int], level: int) -> Iterator[Span]:
        """Spans from `start` to the last of `ends`, each as long as fits; where not even one does, a level deeper."""
        at = 0  # the first of `ends` behind `start`
        while at < len(ends):
            check_wanted()
            furthest = self._furthest(start, ends, at)
            if furthest is not None:
                span = trim(self._text, start, ends[furthest])
                if span[0] < span[1]:
                    yield span
                at = furthest
            else:
                yield from self._deeper(start, ends[at], doubtful, level)
            start = ends[at]
            at += 1

    def _deeper(self, start: int, end: int, doubtful: list[int], level: int) -> Iterator[Span]:
        if inside := doubtful[bisect_right(doubtful, start) : bisect_right(doubtful, end - 1)]:
            yield from self._fill(start, [*inside, end], [], level)
            return
        if level == len(self._levels):
            raise SpeechError(
                f"the character {self._text[start:end]!r} at position {start} alone is {self.count(start, end)} tokens "
                f"and about {self.length(start, end) / 1000:.2f} s, the limits are {self._max_tokens} tokens and "
                f"{self._limit / 1000:g} s: raise the limits"
            )
        yield from self._fill(start, self._levels[level](self._text, start, end), [], level + 1)

    def _furthest(self, start: int, ends: list[int], at: int) -> int | None:
        """The index of the last of ends[at:] that a chunk from `start` on may reach; None where none is near enough."""
        reach = bisect_right(self._sums, self._sums[start] + self._limit, lo=start) - 1
        reach = min(reach, start + CHARACTERS_PER_TOKEN * self._max_tokens)
        reach = boundaries.before_long_word(self._long_words, start, reach)
        furthest = bisect_right(ends, reach, lo=at) - 1
        while furthest >= at:
            tokens = self.count(*trim(self._text, start, ends[furthest]))
            if tokens <= self._max_tokens:
                return furthest
            fitting = (furthest - at + 1) * self._max_tokens // tokens  # as many pieces as their share of the tokens
            furthest = min(furthest - 1, max(at, at + fitting - 1)) if furthest > at else at - 1
        return None

    def _fits(self, start: int, end: int) -> bool:
        return (
            self.length(start, end) <= self._limit
            and end - start <= CHARACTERS_PER_TOKEN * self._max_tokens
            and boundaries.before_long_word(self._long_words, start, end) == end
            and self.count(start, end) <= self._max_tokens
        )

    def _share(self, left: Span, right: Span) -> tuple[Span, Span]:
        """Cut two neighbors again so that neither is short: after a sentence, else a clause, at worst a word."""
        start, end = left[0], right[1]
        sentences = self._sentence_ends[
            bisect_right(self._sentence_ends, start) : bisect_right(self._sentence_ends, end - 1)
        ]
        levels = [sentences, boundaries.clauses(self._text, start, end)]
        if min(self.heard(*left), self.heard(*right)) < VERY_SHORT:
            levels.append(boundaries.words(self._text, start, end))
        for places in levels:
            for cut in sorted(places, key=lambda place: abs(place - right[0])):
                one, other = trim(self._text, start, cut), trim(self._text, cut, end)
                if min(self.heard(*one), self.heard(*other)) >= SHORT and self._fits(*one) and self._fits(*other):
                    return one, other
        return left, right
