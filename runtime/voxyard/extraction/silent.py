"""Parts of a text that print needs and speech does not: tables of contents, marks of notes, places of pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

LEADERS = re.compile(  # a run is searched once, from its beginning
    r"(?<![.…·_])(?<![.…·]\s)(?:(?:\.\s?){4,}|…(?:\s?…)+|(?:·\s?){4,}|_{4,})\s*(?P<page>\d{1,4}|[ivxl]{1,6})$"
)
"""What a line of a table of contents ends with: Methods ..... 5."""

_FEWEST = 3  # lines of a table of contents
_LONGEST_ENTRY = 120  # characters of an entry's first lines
_SHORTEST_TITLE, _LONGEST_TITLE = 3, 20  # characters
_NO_WORD = re.compile(r"[\W_]+")
_MOST_BETWEEN = 3  # lines between two that end with a page: headings, and entries that go on
_TITLE = re.compile(
    r"(?:table of )?contents|inhalt(?:sverzeichnis)?|table des matières|sommaire|índice|indice|sumário|содержание|"
    r"оглавление|目录|目次|차례|inhoud(?:sopgave)?|spis treści|içindekiler",
    re.IGNORECASE,
)
_ENTRY = re.compile(r"(?=.*[^\W\d_]{2}).*[^\s.,;:]\s*[\s\t,.]\s*(?P<page>\d{1,4}|[ivxl]{1,6})\.?")
_SENTENCE = re.compile(r"[.!?…。！？][\"”’»)]*$")
_PICTURE = re.compile(r"\[(?:Illustration|Abbildung|Image|Figure)(?::[^\[\]]{0,1000})?\]", re.IGNORECASE)
_MARK = re.compile(r"(?:(?<=[^\W\d_]{2})|(?<=[.,;:!?”\"’»)]))(?:\[\d{1,3}\])+(?![\w\[=(]|\.\w)")
_CODE = re.compile(r"\[0\]")
_READ = re.compile(r"｜([^《》｜\n]{1,20})《[^《》\n]{1,20}》")
_READING = re.compile(r"(?<=[\u3400-\u9fff々〆])(?:《[\u3040-\u30ff]{1,20}》|（[\u3041-\u309f]{2,12}）)")
_LEGEND = re.compile(r"^-{20,}\n【テキスト中に現れる記号について】\n.{0,3000}?^-{20,}$", re.MULTILINE | re.DOTALL)
_SOURCE = re.compile(r"^底本：", re.MULTILINE)
_EDITORS_NOTE = re.compile(r"［＃[^［］\n]{1,200}］")


def contents_lines(lines: Sequence[str]) -> set[int]:
    """Numbers of the lines of tables of contents, whose entries end with a page, and of the title above them.

    They are at least three near each other, and their pages do not decrease: a list of prices stays. Without dots
    before the page they are told by the title.
    """
    ends = [
        (at, found["page"])
        for at, line in enumerate(lines)
        if (end := line.rstrip())[-1:].isalnum() and (found := LEADERS.search(end)) is not None
    ]
    titles = [at for at, line in enumerate(lines) if is_title_of_contents(line)]
    groups: list[list[tuple[int, str]]] = []
    for each in ends:
        between = lines[groups[-1][-1][0] + 1 : each[0]] if groups else []
        filled = [line for line in between if line.strip()]
        if groups and len(filled) <= _MOST_BETWEEN and all(len(line) <= _LONGEST_ENTRY for line in filled):
            groups[-1].append(each)
        else:
            groups.append([each])
    left_out = set[int]()
    for group in groups:
        pages = [int(page) for _, page in group if page.isdecimal()]
        if len(group) < _FEWEST or any(before > after for before, after in pairwise(pages)):
            continue
        left_out |= set(range(group[0][0], group[-1][0] + 1))
        near = range(max(0, group[0][0] - 2 * _MOST_BETWEEN), group[0][0])
        above = [at for at in near if lines[at].strip()][-_MOST_BETWEEN:]
        title = next((at for at in above if is_title_of_contents(lines[at])), group[0][0])
        left_out |= set(range(title, group[0][0]))
    return left_out | _titled_contents(lines, titles) | _repeated_contents(lines, titles)


def _titled_contents(lines: Sequence[str], titles: Sequence[int]) -> set[int]:
    """Numbers of the lines of tables of contents without dots: a title, and entries that end with a page."""
    left_out = set[int]()
    for title in titles:
        pages, last, between = list[str](), title, 0
        for at in range(title + 1, len(lines)):
            line = lines[at].strip()
            if not line:
                continue
            entry = _ENTRY.fullmatch(line) if len(line) <= _LONGEST_ENTRY else None
            if entry is not None and not _falls(pages, entry["page"]):
                pages.append(entry["page"])
                last, between = at, 0
            elif between == _MOST_BETWEEN or len(line) > _LONGEST_ENTRY or _SENTENCE.search(line):
                break
            else:
                between += 1
        if len(pages) >= _FEWEST:
            left_out |= set(range(title, last + 1))
    return left_out


def _repeated_contents(lines: Sequence[str], titles: Sequence[int]) -> set[int]:
    """Numbers of the lines of tables of contents without pages: a title, and entries that stand again below."""
    last = {_folded(line): at for at, line in enumerate(lines) if len(line) <= _LONGEST_ENTRY} if titles else {}
    left_out, read = set[int](), -1
    for title in titles:
        if title < read:
            continue
        entries = list[int]()
        for at in range(title + 1, len(lines)):
            if not lines[at].strip():
                continue
            if len(lines[at]) > _LONGEST_ENTRY or not _stands_below(_folded(lines[at]), at, last):
                break
            entries.append(at)
        read = entries[-1] if entries else title
        if len(entries) >= _FEWEST:
            left_out |= set(range(title, entries[-1] + 1))
    return left_out


def _stands_below(entry: str, at: int, last: Mapping[str, int]) -> bool:
    """True for an entry that is a line after it, too, or begins with one: Chapter I of Chapter I. The Storm."""
    words = entry.split()
    beginnings = (" ".join(words[:count]) for count in range(1, len(words) + 1))
    return any(len(each) >= _SHORTEST_TITLE and last.get(each, -1) > at for each in beginnings)


def _folded(line: str) -> str:
    return " ".join(_NO_WORD.sub(" ", line.casefold()).split())


def is_title_of_contents(line: str) -> bool:
    """True for the title of a table of contents: Contents, Inhalt, 目录."""
    title = line.strip(" \t.:*#=")
    return len(title) <= _LONGEST_TITLE and _TITLE.fullmatch(title) is not None


def _falls(pages: Sequence[str], page: str) -> bool:
    """True for a page before the last one; Roman ones stand before all others."""
    before = [int(each) for each in pages if each.isdecimal()]
    return bool(before) and (not page.isdecimal() or int(page) < before[-1])


def without_contents(text: str) -> str:
    """The text without the lines of its tables of contents."""
    lines = text.split("\n")
    left_out = contents_lines(lines)
    return "\n".join(line for at, line in enumerate(lines) if at not in left_out) if left_out else text


def without_pictures(text: str) -> str:
    """The text without places of pictures: [Illustration: A ship]."""
    return _PICTURE.sub("", text)


def without_readings(text: str) -> str:
    """A text without the readings that stand beside its signs, as Aozora Bunko marks them: 憂鬱《ゆううつ》."""
    if "《" not in text and "（" not in text and "［＃" not in text:
        return text
    return _READING.sub("", _READ.sub(r"\1", _EDITORS_NOTE.sub("", _without_frame(text))))


def _without_frame(text: str) -> str:
    """A text of Aozora Bunko without what that adds: a legend of its signs above, and the book it is from below."""
    above = _LEGEND.search(text)
    text = text if above is None else f"{text[: above.start()]}\n\n{text[above.end() :]}"
    below = _SOURCE.search(text) if above is not None or _EDITORS_NOTE.search(text) else None
    return text if below is None else text[: below.start()]


def without_marks(text: str) -> str:
    """The text without marks of notes in brackets directly after a word: Hale[1]; one that counts from 0 is code."""
    return text if "[" not in text or _CODE.search(text) else _MARK.sub("", text)
