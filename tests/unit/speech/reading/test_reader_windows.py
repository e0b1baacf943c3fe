"""Long paragraphs are read in windows: nothing is lost at a cut, and what is read is what short ones give."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest

from voxyard.speech.reading import reader
from voxyard.speech.reading.beginnings import Places
from voxyard.speech.reading.reader import read_words, readings

SENTENCES = ("It cost $5.50 in 1999.", "He ran 12 km at 7:30 p.m. with Dr. Smith.", "On 5 May there were 3 of 40.")


@pytest.mark.parametrize("window", [200, 333, 1000])
def test_a_long_paragraph_is_read_as_its_sentences_are(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "WINDOW", window)
    text = " ".join(SENTENCES * 40)
    assert read_words(text, "en") == " ".join(read_words(each, "en") for each in SENTENCES * 40)


@pytest.mark.parametrize(
    ("text", "longest"),
    [
        ("word " * 60, 50),
        ("１２３年です。" * 30, 50),
        ("5 " * 70, 140),
        ("1 000 " * 30 + "some words", 186),
        ("1" * 90, 90),
    ],
)
def test_windows_cover_a_text_without_sentences(text: str, longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "WINDOW", 50)
    parts = [text[start:end] for start, end in reader._windows(text, 0, len(text))]
    assert "".join(parts) == text
    assert max(map(len, parts)) <= longest
    edits = readings(text, "en")
    assert all(one.end <= other.start for one, other in pairwise(edits))


def tables() -> list[str]:
    drawn = random.Random(3)
    figures = (
        lambda: str(drawn.randint(0, 10 ** drawn.randint(1, 7))),
        lambda: f"{drawn.random() * 1000:.2f}",
        lambda: f"{drawn.randint(1, 28)}/{drawn.randint(1, 12)}/1999",
        lambda: f"{drawn.randint(1, 9)} 000",
        lambda: f"${drawn.randint(1, 99)}.50",
        lambda: f"{drawn.randint(1, 12)}:30",
        lambda: f"{drawn.randint(1, 90)} %",
    )
    separate = (" ", "\t", "\n", "; ", " | ")
    return [blank.join(figure() for _ in range(60)) for figure in figures for blank in separate] + [
        "".join(drawn.choice(figures)() + drawn.choice(separate) for _ in range(120)) for _ in range(2)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_a_table_of_figures_that_is_searched_in_pieces_is_read_as_a_whole(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [readings(text, language) for text in tables()]
    monkeypatch.setattr(reader, "MARGIN", 120)
    monkeypatch.setattr(reader, "WINDOW", 130)
    assert [readings(text, language) for text in tables()] == whole


def test_no_search_goes_over_more_than_a_window_and_its_margin() -> None:
    """The searched characters of one call, for no other thread runs while it searches."""
    text, longest = "1 234,5\t" * 20_000, 0

    class Counted:
        def finditer(self, text: str, start: int, end: int) -> list[re.Match[str]]:
            nonlocal longest
            longest = max(longest, end - start)
            return []

    assert list(reader._matches(Places(text, 0, 0), Counted(), text, 0, len(text))) == []  # type: ignore[arg-type]
    assert longest <= reader.WINDOW + reader.MARGIN


def test_a_match_longer_than_the_margin_is_found_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "WINDOW", 50)
    monkeypatch.setattr(reader, "MARGIN", 20)
    text = "1 " * 20 + "9" * 500 + " 1" * 40
    found = [match.span() for match in reader._matches(Places(text, 0, 0), re.compile(r"\d+"), text, 0, len(text))]
    assert found == [match.span() for match in re.finditer(r"\d+", text)]
