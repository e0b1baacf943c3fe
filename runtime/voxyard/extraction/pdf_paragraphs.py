"""Paragraphs of a PDF's lines: removes running heads and page numbers, joins broken words, finds headings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise

from voxyard.extraction.document import Block, HeadingBlock, Paragraph
from voxyard.extraction.epub_contents import is_same, levelled
from voxyard.extraction.lines import COMPOUND
from voxyard.extraction.pdf_notes import NotedPage, TextLine, noted_pages
from voxyard.extraction.pdf_outline import OutlineEntry, with_outline
from voxyard.extraction.silent import contents_lines, without_marks

_NUMBERED = re.compile(
    r"(?:page|seite|p\.|s\.)?\s*[-–—|\[(]?\s*(\d{1,5})\s*[-–—|\])]?(?:\s*(?:of|von|/)\s*\d{1,5})?", re.IGNORECASE
)
_NUMBERS_AT_ENDS = re.compile(r"^[\W\d_]+|[\W\d_]+$|(?<=\s)[ivxlc]+$|^[ivxlc]+(?=\s)", re.IGNORECASE)
_PAGES_TO_BE_CERTAIN = 3
_TWO = 2
_FEWEST_LINES = 3
_APART = 1.5  # times the usual distance of lines
_MOSTLY = 0.8  # of the pages that have a line at a place
_SAME_AS_TEXT = 1.05  # times the size of most of the text
_LEAST_KEPT = 0.75  # of the text, without its running heads
_SAME_PLACE = 4.0  # points
_LARGER = 1.1  # times the size of most of the text
_LONGEST_HEADING = 200  # characters
_LOWEST_LEVEL = 6
_BULLET = re.compile(r"[•‣◦▪■●–—*·]\s|\(?\w{1,3}[.)]\s")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LAST_WORD = re.compile(r"([^\W\d_]+(?:-[^\W\d_]+)*)-$")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_ENDS = re.compile(r"""[.!?…:。！？]["'”’»)\]]*$""")
_NO_BLANK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u303f]")
_COMPOUND = re.compile(COMPOUND)
_SAME_SIZE = 0.1
_INDENT = 0.8  # of the font's size
_MORE_THAN_USUAL = 1.2  # times the usual distance of lines
_USUAL_DISTANCES = (0.5, 2.6)  # of the font size; lines further apart are not in one paragraph
_FULL_LINE = 0.75  # of the characters in a long line of this size


def blocks(
    pages: Sequence[Sequence[TextLine]], outline: Mapping[int, Sequence[OutlineEntry]] | None = None
) -> list[Block]:
    """Headings and paragraphs of the pages' lines; `outline` has the entries of pages by their indexes.

    A paragraph ends at a larger distance, at another font size, or after a line that ends a sentence and is short or
    followed by an indent or a bullet. Across pages it continues where the sentence does. A heading is a short
    paragraph in a larger font than most of the text; the largest one is of level 1. Notes follow the paragraph that
    goes on over the end of their page. The document's outline tells chapters where it names most of them.
    """
    texts = _without_contents(_without_page_numbers(_without_running_heads(pages)))
    named = [with_outline(page, (outline or {}).get(index, ())) for index, page in enumerate(texts)]
    found = _paragraphs(noted_pages(named))
    sizes: Counter[int] = Counter()
    for text, size, _ in found:
        sizes[round(size)] += len(text)
    body = sizes.most_common(1)[0][0] if sizes else 0
    larger = sorted({round(size) for text, size, _ in found if _is_heading(text, size, body)}, reverse=True)
    levels = {size: min(level, _LOWEST_LEVEL) for level, size in enumerate(larger, 1)}
    return list(
        levelled(
            [
                HeadingBlock(text, levels[round(size)], None if chapter is None else chapter.entry)
                if _is_heading(text, size, body)
                else Paragraph(text, chapter)
                if chapter is None or not is_same(chapter.text, text)
                else replace(chapter, text=text)
                for text, size, chapter in found
            ]
        )
    )


def _is_heading(text: str, size: float, body: int) -> bool:
    return (
        round(size) > body
        and size >= _LARGER * body
        and len(text) <= _LONGEST_HEADING
        and any(letter.isalpha() for letter in text)
    )


def _paragraphs(pages: Sequence[NotedPage]) -> list[tuple[str, float, HeadingBlock | None]]:
    """Text and font size of each paragraph, and the chapter that begins with it."""
    every = [(*page.lines, *page.notes) for page in pages]
    metrics = _LineMetrics(every)
    words = Counter(word for page in every for line in page for word in _WORD.findall(line.text.lower()))
    found: list[tuple[list[str], float, HeadingBlock | None]] = []
    notes: list[TextLine] = []  # below the paragraph that goes on
    previous: TextLine | None = None
    for page in pages:
        new_page = True
        for line in page.lines:
            if previous is None or metrics.starts_paragraph(previous, line, new_page=new_page):
                found += _notes(notes, metrics, words)
                notes = []
                found.append(([line.text], line.size, line.chapter))
            else:
                _join(found[-1][0], line.text, words)
            previous, new_page = line, False
        notes += page.notes
    found += _notes(notes, metrics, words)
    return [(without_marks("".join(parts).replace("\u00ad", "")), size, chapter) for parts, size, chapter in found]


def _notes(
    lines: Sequence[TextLine], metrics: _LineMetrics, words: Counter[str]
) -> list[tuple[list[str], float, HeadingBlock | None]]:
    found: list[tuple[list[str], float, HeadingBlock | None]] = []
    for index, line in enumerate(lines):
        if index == 0 or metrics.starts_paragraph(lines[index - 1], line, new_page=False):
            found.append(([line.text], line.size, None))
        else:
            _join(found[-1][0], line.text, words)
    return found


def _join(text: list[str], following: str, words: Counter[str]) -> None:
    """Appends a line of the same paragraph; removes a hyphen at the line break if it only broke a word.

    A soft hyphen is always removed. Another is kept where the document has the hyphenated word elsewhere and never the
    plain one, and where the next line begins with a capital or a digit.
    """
    last = text[-1]
    if last.endswith("\u00ad"):
        text[-1] = last[:-1]
    elif (broken := _LAST_WORD.search(last)) and (first := _FIRST_WORD.match(following)):
        if following[0].islower() and not _has_hyphen(broken.group(1).lower(), first.group().lower(), words):
            text[-1] = last[:-1]
    elif not (last.endswith("-") and not last.endswith(" -")) and not (
        _NO_BLANK.match(last[-1]) and _NO_BLANK.match(following[0])
    ):
        text.append(" ")
    text.append(following)


def _has_hyphen(before: str, after: str, words: Counter[str]) -> bool:
    part = before.rpartition("-")[2]
    if _COMPOUND.fullmatch(f"{part}-{after}") and words[part + after] == 0:
        return True
    return words[f"{before}-{after}"] > 0 and words[part + after] == 0


class _LineMetrics:
    """Typical line distance and length of a long line, for each font size of a document."""

    def __init__(self, pages: Sequence[Sequence[TextLine]]) -> None:
        distances: dict[int, list[float]] = {}
        lengths: dict[int, list[float]] = {}
        for page in pages:
            for line in page:
                lengths.setdefault(round(line.size), []).append(len(line.text))
            for before, after in pairwise(page):
                distance = after.down - before.down
                if (
                    _same_size(before, after)
                    and _USUAL_DISTANCES[0] < distance / (after.size or 1) < _USUAL_DISTANCES[1]
                ):
                    distances.setdefault(round(after.size), []).append(distance)
        self._usual = {size: _quantile(found, 0.25) for size, found in distances.items()}
        self._long = {size: _quantile(found, 0.9) for size, found in lengths.items()}

    def usual(self, size: float) -> float:
        """Usual distance of two lines of a paragraph in this font size, in points."""
        return self._usual.get(round(size), 1.5 * size)

    def starts_paragraph(self, before: TextLine, after: TextLine, *, new_page: bool) -> bool:
        """True where `after` starts a new paragraph."""
        if after.chapter is not None or (before.chapter is not None and is_same(before.chapter.text, before.text)):
            return True
        ended = _ENDS.search(before.text) is not None
        distance = after.down - before.down
        if not _same_size(before, after):
            return ended or not after.text[0].islower() or not new_page
        if new_page or distance <= 0:  # another page, another column
            return ended or not (after.text[0].islower() or _NO_BLANK.match(after.text[0]) or before.text.endswith("-"))
        if distance > _MORE_THAN_USUAL * self.usual(after.size):
            return True
        short = len(before.text) < _FULL_LINE * self._long[round(before.size)]
        indented = after.along > before.along + _INDENT * after.size
        return ended and (short or indented or _BULLET.match(after.text) is not None)


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def _same_size(before: TextLine, after: TextLine) -> bool:
    return abs(before.size - after.size) <= _SAME_SIZE * max(before.size, after.size)


def _without_running_heads(pages: Sequence[Sequence[TextLine]]) -> list[Sequence[TextLine]]:
    """Pages without the lines that repeat at one place of the top or the bottom of pages, but for their numbers.

    A line is a running head where the same one, without numbers at its ends, is among the first or last two lines of
    at least three pages, at the same distance from the page's edge and in the same size, unless it is as close to the
    text as the lines of a paragraph; or where it stands apart at a place where lines stand apart on most pages,
    whatever they say. A line that ends in a comma, such as the salutation of a letter, is none. Where that would be
    more than a quarter of the text, as in copies of one letter, nothing is a running head.
    """
    apart = _places_apart(pages)
    metrics = _LineMetrics(pages)
    places: Counter[tuple[str, int, int]] = Counter()
    for page in pages:
        places.update({_place(page[at]) for at in _edges(page)})
    heads = {place for place, count in places.items() if count >= _PAGES_TO_BE_CERTAIN and place[0]}
    kept: list[Sequence[TextLine]] = []
    for page in pages:
        repeated = {at for at in _edges(page, least=1) if _place(page[at]) in heads}
        dropped = repeated - _close_to_text(page, repeated, metrics)
        dropped |= {
            at for at, neighbour in _outermost(page) if any(place.has(page[at], page[neighbour]) for place in apart)
        }
        kept.append([line for at, line in enumerate(page) if at not in dropped or line.text.endswith((",", ";"))])
    return kept if _length(kept) >= _LEAST_KEPT * _length(pages) else list(pages)


@dataclass(frozen=True)
class _Place:
    """Range of `down` at which lines stand apart; their least distance from the text and largest size, in points."""

    top: float
    bottom: float
    apart: float
    largest: float

    def has(self, line: TextLine, neighbour: TextLine) -> bool:
        """True for a line at this place that stands apart from its neighbour."""
        return (
            self.top <= line.down <= self.bottom
            and line.size <= self.largest
            and abs(line.down - neighbour.down) > self.apart
        )


def _places_apart(pages: Sequence[Sequence[TextLine]]) -> list[_Place]:
    """Places of the highest or lowest line of most pages, at which that stands apart from the text.

    There lines in the size of the text, or a smaller one, are further from their neighbours than lines of a paragraph.
    Larger ones, such as the titles of slides, belong to the text.
    """
    metrics = _LineMetrics(pages)
    sizes: Counter[float] = Counter()
    for line in (line for page in pages for line in page):
        sizes[round(line.size, 1)] += len(line.text)
    largest = _SAME_AS_TEXT * sizes.most_common(1)[0][0] if sizes else 0.0
    found = sorted(
        (page[at].down, abs(page[at].down - page[neighbour].down), _APART * metrics.usual(page[neighbour].size))
        for page in pages
        for at, neighbour in _outermost(page)
        if page[at].size <= largest
    )
    groups: list[list[tuple[float, float, float]]] = []
    for each in found:
        if groups and each[0] - groups[-1][-1][0] <= _SAME_PLACE:
            groups[-1].append(each)
        else:
            groups.append([each])
    return [
        _Place(group[0][0], group[-1][0], sorted(least for _, _, least in group)[len(group) // 2], largest)
        for group in groups
        if len(group) >= max(_PAGES_TO_BE_CERTAIN + 1, len(pages) / 2)
        and sum(distance > least for _, distance, least in group) >= _MOSTLY * len(group)
    ]


def _close_to_text(page: Sequence[TextLine], repeated: set[int], metrics: _LineMetrics) -> set[int]:
    """Numbers of those of the repeated lines that follow or precede a line of the text as in a paragraph."""
    order = sorted(range(len(page)), key=lambda at: page[at].down)
    close: set[int] = set()
    for inward in (order[::-1], order):  # to the page's top, and to its bottom
        for nearer, at in pairwise(inward):
            text = nearer not in repeated or nearer in close
            distance = abs(page[at].down - page[nearer].down)
            usual = _MORE_THAN_USUAL * metrics.usual(page[nearer].size)
            if text and at in repeated and distance <= usual and _same_size(page[at], page[nearer]):
                close.add(at)
    return close


def _outermost(page: Sequence[TextLine]) -> list[tuple[int, int]]:
    """Numbers of a page's highest and lowest line, each with that of its neighbour."""
    if len(page) < _FEWEST_LINES:
        return []
    order = sorted(range(len(page)), key=lambda at: page[at].down)
    return [(order[0], order[1]), (order[-1], order[-2])]


def _length(pages: Sequence[Sequence[TextLine]]) -> int:
    return sum(len(line.text) for page in pages for line in page)


def _edges(page: Sequence[TextLine], least: int = _FEWEST_LINES) -> set[int]:
    """Numbers of a page's highest and lowest two lines; none of a page with fewer lines than `least`."""
    if len(page) < least:
        return set()
    order = sorted(range(len(page)), key=lambda at: page[at].down)
    return {*order[:2], *order[-2:]}


def _place(line: TextLine) -> tuple[str, int, int]:
    return _NUMBERS_AT_ENDS.sub("", line.text).casefold(), round(line.down / _SAME_PLACE), round(line.size)


def _without_contents(pages: Sequence[Sequence[TextLine]]) -> list[Sequence[TextLine]]:
    """Pages without the lines of a table of contents, which may go on from page to page."""
    left_out = contents_lines([line.text for page in pages for line in page])
    numbers = count()
    return [[line for line in page if next(numbers) not in left_out] for page in pages]


def _without_page_numbers(pages: Sequence[Sequence[TextLine]]) -> list[Sequence[TextLine]]:
    """Pages without the page numbers in their first or last lines.

    A number counts as a page number where it increases with the pages, in the same place on at least three pages and
    on most pages with a bare number there; on both of two, where it stands apart from the text.
    """
    kept: list[Sequence[TextLine]] = list(pages)
    for place in (0, -1):
        numbers = {
            index: int(found.group(1))
            for index, page in enumerate(kept)
            if page and (found := _NUMBERED.fullmatch(page[place].text))
        }
        ahead = Counter(number - index for index, number in numbers.items()).most_common(1)
        certain = _PAGES_TO_BE_CERTAIN if len(pages) != _TWO or not _stand_apart(kept, place) else _TWO
        if not ahead or ahead[0][1] < max(certain, len(numbers) / 2):
            continue
        for index, number in numbers.items():
            if number - index == ahead[0][0]:
                kept[index] = kept[index][1:] if place == 0 else kept[index][:-1]
    return kept


def _stand_apart(pages: Sequence[Sequence[TextLine]], place: int) -> bool:
    """True where the first or last line of all pages is further from the next one than lines of a paragraph are."""
    metrics = _LineMetrics(pages)
    beside = [(page[place], page[1] if place == 0 else page[-2]) for page in pages if len(page) > 1]
    return len(beside) == len(pages) and all(
        abs(one.down - other.down) > _APART * metrics.usual(other.size) for one, other in beside
    )
