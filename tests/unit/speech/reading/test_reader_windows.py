"""Long paragraphs are read in windows: nothing is lost at a cut, and what is read is what short ones give."""

from __future__ import annotations

from itertools import pairwise

import pytest

from voxyard.speech.reading import reader
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
