"""Lines of a PDF that are written from right to left: letters in the order of reading, by their place on the page."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_BLANK = 0.19  # times the size of the text: the least gap between two words
_MIRRORED = str.maketrans("()[]{}<>«»‹›", ")(][}{><»«›‹")
_OPENING, _CLOSING = "([{«‹", ")]}»›"
_IN_NUMBER = frozenset(".,:/٫٬")  # between two digits; a hyphen lies between two numbers, read from right to left


@dataclass(frozen=True)
class Letter:
    """Character on a page: the left and right end of its ink, and of the room that it takes, in points."""

    text: str
    ink: tuple[float, float]
    room: tuple[float, float]


def has_right_to_left(text: str) -> bool:
    """True where a letter of the text is written from right to left."""
    return not text.isascii() and any(_direction(each) == "R" for each in text)


def logical(letters: Iterable[Letter], size: float) -> str:
    """The text of a line in the order of reading; blanks are where letters stand apart."""
    line = _with_blanks(sorted(letters, key=lambda each: sum(each.ink)), size)
    right = sum(_direction(each) == "R" for each in line)
    left = sum(_direction(each) == "L" for each in line)
    if right < left:
        return "".join("".join(reversed(run)) if turned else run for turned, run in _runs(line, base="L"))
    runs = reversed(list(_runs(line, base="R")))
    found = "".join("".join(reversed(run)).translate(_MIRRORED) if turned else run for turned, run in runs)
    plain = found.translate(_MIRRORED)
    return plain if _balance(plain) > _balance(found) else found


def _with_blanks(letters: Sequence[Letter], size: float) -> str:
    found = list[str]()
    end: float | None = None
    for each in letters:
        apart = end is not None and each.room[0] - end >= _BLANK * size
        if apart and not each.text.isspace() and found[-1] != " ":
            found.append(" ")
        if not (each.text.isspace() and found[-1:] == [" "]):
            found.append(" " if each.text.isspace() else each.text)
        end = each.room[1] if end is None else max(end, each.room[1])
    return "".join(found).strip()


def _runs(line: str, *, base: str) -> Iterable[tuple[bool, str]]:
    """Parts of a line in the order of the page, and whether each is written from right to left."""
    directions = _directions(line, base)
    start = 0
    for at in range(1, len(line) + 1):
        if at == len(line) or directions[at] != directions[start]:
            yield directions[start] == "R", line[start:at]
            start = at


def _directions(line: str, base: str) -> list[str]:
    """Direction of each character: what stands between two of one direction has it too, else that of the line."""
    found = [_direction(each) for each in line]
    for at, each in enumerate(line):
        inside = each in _IN_NUMBER and 0 < at < len(line) - 1
        if inside and found[at - 1] == found[at + 1] == "N":
            found[at] = "N"
    at = 0
    while at < len(found):
        if found[at] in "LRN":
            at += 1
            continue
        end = at
        while end < len(found) and found[end] == " ":
            end += 1
        before = found[at - 1] if at else base
        after = found[end] if end < len(found) else base
        same = before == after != "N" or {before, after} == {"L", "N"}
        found[at:end] = [("L" if "L" in (before, after) else before) if same else base] * (end - at)
        at = end
    return ["L" if each == "N" else each for each in found]


def _direction(letter: str) -> str:
    """R and L of letters, N of digits, else a blank."""
    kind = unicodedata.bidirectional(letter)
    if kind in ("R", "AL"):
        return "R"
    if kind == "NSM":
        return "R" if unicodedata.name(letter, "").startswith(("ARABIC", "HEBREW")) else "L"
    return {"L": "L", "EN": "N", "AN": "N"}.get(kind, " ")


def _balance(text: str) -> int:
    """Brackets that open before they close, less those that close first."""
    depth = found = 0
    for each in text:
        if each in _OPENING:
            depth += 1
        elif each in _CLOSING:
            found += 1 if depth else -1
            depth = max(0, depth - 1)
    return found
