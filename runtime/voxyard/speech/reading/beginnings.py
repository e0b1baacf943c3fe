"""Where in a text matches of a pattern may begin: a search of these places alone finds the same, several times faster.

Most patterns of reading begin with a look at what is before, so that `re` tries them at each character; most need a
digit or a few letters there, and no letter or digit before.
"""

from __future__ import annotations

import re
import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

Before = Literal["anything", "no word", "boundary"]
_MOST = 0.12  # of the characters: where more may begin a match, a search of all is faster


class Places:
    """A part of a text, with the places of each character in it."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text, self._start, self._end = text, start, end
        self._of: dict[str, list[int]] = defaultdict(list)
        self._apart: dict[str, list[int]] = defaultdict(list)  # those with no letter, digit or underscore before
        after_word = start > 0 and _is_word(text[start - 1])
        for at in range(start, end):
            character = text[at]
            self._of[character].append(at)
            if not after_word:
                self._apart[character].append(at)
            after_word = character.isalnum() or character == "_"
        self._characters = frozenset(self._of)
        self._found: dict[Beginning, list[int] | None] = {}

    def has(self, start: int, end: int) -> bool:
        """True where this is within the part."""
        return self._start <= start and end <= self._end

    def matches(self, pattern: re.Pattern[str], start: int, end: int) -> Iterable[re.Match[str]]:
        """As `pattern.finditer` from `start` to `end`, which are within the part."""
        beginning = beginning_of(pattern)
        places = self._places(beginning) if beginning is not None else None
        if places is None:
            return pattern.finditer(self._text, start, end)
        return self._at(places, pattern, start, end) if places else ()

    def _at(self, places: list[int], pattern: re.Pattern[str], start: int, end: int) -> Iterator[re.Match[str]]:
        after, text, match = start, self._text, pattern.match
        for index in range(bisect_left(places, start), bisect_left(places, end)):
            at = places[index]
            if at >= after and (found := match(text, at, end)) is not None:
                after = found.end()
                yield found

    def _places(self, beginning: Beginning) -> list[int] | None:
        """Places of the characters that may begin a match; None where they are too many."""
        if beginning not in self._found:
            those = beginning.among(self._characters)
            places = [(self._apart if beginning.apart(each) else self._of)[each] for each in those]
            few = sum(map(len, places)) <= _MOST * (self._end - self._start)
            self._found[beginning] = sorted(chain.from_iterable(places)) if few else None
        return self._found[beginning]


class Beginning:
    """The characters that a match may begin with, as a class of a pattern, and what may be before."""

    def __init__(self, characters: str, flags: int, before: Before) -> None:
        self._match = re.compile(characters, flags).match
        self._before = before
        self._members, self._seen = set[str](), set[str]()

    def apart(self, character: str) -> bool:
        """True where no match begins with it after a letter, a digit or an underscore."""
        return self._before == "no word" or (self._before == "boundary" and _is_word(character))

    def among(self, characters: frozenset[str]) -> frozenset[str]:
        """Those of the characters that a match may begin with."""
        if unseen := characters - self._seen:
            self._members.update(filter(self._match, unseen))
            self._seen |= unseen
        return characters & self._members


def beginning_of(pattern: re.Pattern[str]) -> Beginning | None:
    """What matches of a pattern begin with; None where that may be any character, or none."""
    return _beginning_of(pattern.pattern, pattern.flags)


@lru_cache(maxsize=16384)
def _beginning_of(source: str, flags: int) -> Beginning | None:
    """The same by the pattern's text, whose hash is known; that of a compiled pattern is counted at each look."""
    parsed = parser.parse(source, flags & ~re.UNICODE)
    found = _first(parsed)
    if found is None or found[1]:
        return None
    any_case = flags & re.IGNORECASE or "(?i" in source
    before = "anything" if flags & re.ASCII or "(?a" in source else _before(parsed)
    return _beginning("".join(sorted(found[0])), re.IGNORECASE if any_case else 0, before)


@lru_cache(maxsize=4096)
def _beginning(members: str, flags: int, before: Before) -> Beginning:
    return Beginning(f"[{members}]", flags, before)


def _is_word(character: str) -> bool:
    """True for a letter, a digit and the underscore, as patterns have it."""
    return character.isalnum() or character == "_"


def _before(items: Any) -> Before:
    """What may be before a match of parsed items, told by their first looks behind."""
    for kind, value in items:
        if kind in (op.ASSERT, op.ASSERT_NOT) and value[0] < 0:
            if _has_words(value[1]) if kind is op.ASSERT_NOT else _ends_apart(value[1]):
                return "no word"
        elif kind is op.AT and value is op.AT_BOUNDARY:
            return "boundary"
        elif kind is op.BRANCH:
            found = {_before(each) for each in value[1]}
            return "anything" if "anything" in found else found.pop() if len(found) == 1 else "boundary"
        elif kind not in (op.ASSERT, op.ASSERT_NOT, op.AT):
            return _before(value[3]) if kind is op.SUBPATTERN else "anything"
    return "anything"


def _has_words(items: Any) -> bool:
    """True for a class that has all letters, digits and the underscore."""
    return len(items) == 1 and items[0][0] is op.IN and items[0][1][0][0] is not op.NEGATE and _WORD in items[0][1]


def _ends_apart(items: Any) -> bool:
    """True where what is parsed ends with none of them."""
    if not items:
        return False
    kind, value = items[-1]
    if kind is op.LITERAL:
        return not _is_word(chr(value))
    if kind is op.IN:
        return all(each == _SPACE or (each[0] is op.LITERAL and _ends_apart([each])) for each in value)
    return all(map(_ends_apart, value[1])) if kind is op.BRANCH else kind is op.SUBPATTERN and _ends_apart(value[3])


_SPACE = (op.CATEGORY, op.CATEGORY_SPACE)
_WORD = (op.CATEGORY, op.CATEGORY_WORD)


def _first(items: Any) -> tuple[set[str], bool] | None:
    """Members of the class that a match of parsed items begins with, and whether it may be empty; None: any."""
    found = set[str]()
    for kind, value in items:
        if kind in (op.ASSERT, op.ASSERT_NOT, op.AT):
            continue
        part = _part(kind, value)
        if part is None:
            return None
        found |= part[0]
        if not part[1]:
            return found, False
    return found, True


def _part(kind: Any, value: Any) -> tuple[set[str], bool] | None:
    if kind is op.LITERAL:
        return {_member(value)}, False
    if kind is op.IN:
        members = [_in_class(*each) for each in value]
        return None if None in members else ({each for each in members if each}, False)
    if kind is op.BRANCH:
        parts = [_first(each) for each in value[1]]
        known = [each for each in parts if each is not None]
        empty = any(each[1] for each in known)
        return None if len(known) < len(parts) else (set().union(*(each[0] for each in known)), empty)
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        part = _first(value[2])
        return part and (part[0], part[1] or value[0] == 0)
    if kind is op.SUBPATTERN:
        return _first(value[3])
    return _first(value) if kind is op.ATOMIC_GROUP else None


_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


def _in_class(kind: Any, value: Any) -> str | None:
    if kind is op.LITERAL:
        return _member(value)
    if kind is op.RANGE:
        return f"{_member(value[0])}-{_member(value[1])}"
    return _CATEGORIES.get(value) if kind is op.CATEGORY else None  # no negated class


def _member(code: int) -> str:
    return f"\\U{code:08x}"
