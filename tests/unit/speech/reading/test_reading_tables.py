"""What is spoken for figures and short forms, language by language, from a table that a person has read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from voxyard.speech.reading.languages import LANGUAGES
from voxyard.speech.reading.reader import read_words

TABLE = Path(__file__).with_name("reading_cases.txt")


def cases() -> Iterator[tuple[str, str, str]]:
    """Language, text and words of each case."""
    language = text = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            language = line.strip("[]")
        elif line.startswith("  "):
            yield language, text, line[2:]
        else:
            text = line


@pytest.mark.parametrize(("language", "text", "spoken"), list(cases()))
def test_text_is_read_as_its_language_says_it(language: str, text: str, spoken: str) -> None:
    assert read_words(text, language) == spoken


def test_every_language_with_rules_has_cases() -> None:
    assert {language for language, _, _ in cases()} == set(LANGUAGES)
