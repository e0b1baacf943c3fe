"""Where matches may begin: what is found there alone is what a search of the whole text finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from voxyard.speech.reading.beginnings import Places, beginning_of
from voxyard.speech.reading.languages import LANGUAGES
from voxyard.speech.reading.rules import rules

CASES = yaml.load(Path(__file__).with_name("heard_cases.yaml").read_bytes(), yaml.CSafeLoader)


def text_of(language: str) -> str:
    """Every fourth case of a language."""
    return "\n\n".join([row[language] for rows in CASES.values() for row in rows if language in row][::4])


@pytest.mark.parametrize("language", [*LANGUAGES])
def test_every_rule_finds_what_a_search_of_all_finds(language: str) -> None:
    text = text_of(language) or text_of("en")
    end = len(text) - len(text) // 9
    places = Places(text, 0, len(text))
    for rule in rules(language):
        found = [match.span() for match in places.matches(rule.pattern, 9, end)]
        assert found == [match.span() for match in rule.pattern.finditer(text, 9, end)], rule.pattern.pattern


@pytest.mark.parametrize(
    ("pattern", "characters"),
    [
        (r"(?<!\w)\d+", "3"),
        (r"(?:(?<=a )b|[c-e]x|f?\s*g)", "bcdef g"),
        (r"(?i:km)(?=\s)", "kK"),
        (r"(?P<sign>[-+])?(?P<n>\d)", "-+7"),
        (r"(?:x|)\$", "x$"),
    ],
)
def test_a_match_begins_with_few_characters(pattern: str, characters: str) -> None:
    beginning = beginning_of(re.compile(pattern))
    assert beginning is not None
    for some in (frozenset("3bcdef gk"), frozenset("3bcdef gkK-+7x$ZÄ")):
        assert beginning.among(some) == {
            each for each in some if each in characters or (r"\d" in pattern and each.isdigit())
        }


@pytest.mark.parametrize("pattern", [r"a*", r".x", r"[^a]b", r"(?:a|.)b", r"(?=a)", r"(a)?(?(1)b|c)"])
def test_a_match_may_begin_with_anything_or_be_empty(pattern: str) -> None:
    assert beginning_of(re.compile(pattern)) is None


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        (r"\d", [0, 1, 3, 5, 8]),
        (r"(?<!\w)\d", [0, 3, 5]),
        (r"\b[\d,]", [0, 2, 3, 4, 5]),
        (r"(?:(?<=[ ,])|(?<=in\s))\d", [0, 3, 5]),
        (r"(?P<n>(?:(?<= )|(?<!\w))\d)", [0, 3, 5]),
        (r"(?:(?<=x)|(?<= ))\d", [0, 1, 3, 5, 8]),
        (r"(?:(?<=v\w)|(?<!\w))\d", [0, 1, 3, 5, 8]),
        (r"(?<!\d)\d", [0, 1, 3, 5, 8]),
        (r"(?a:(?<!\w)\d)", [0, 1, 3, 5, 8]),
    ],
)
def test_looks_behind_leave_places_out_where_no_match_begins(pattern: str, places: list[int]) -> None:
    text = "12,3,4 x7" + "." * 99
    found = Places(text, 0, len(text))._places(beginning_of(re.compile(pattern)))  # type: ignore[arg-type]
    assert found == places
