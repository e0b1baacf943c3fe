"""What a listener hears of a text, kind by kind and in each language: pieces that must be heard, and must not be."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from frontends import TonesFrontend

from voxyard.speech.reading.reader import read_words
from voxyard.speech.script import prepare_script

TABLE = Path(__file__).with_name("heard_cases.yaml")
NUMBER = re.compile(r"\d+(?:[.,' ]\d+)*")
OTHERS = (
    "0", "00", "007", "0.", "3.", "0,5", "0.5", "1.000", "1,000", "1 000", "1'000", "1.234.567", "5.500,25", "5,500.25",
    "1.2.3", "1,2,3", "100", "2024", "999999999999999", "12345678901234567890", "-5", "+49", "1–2", "1–", "1-2-3-4",
    "12:30", "25:61", "0:0", "30.02.2024", "1/2", "1/0", "3½", "½", "7⁄8", "²", "4²⁺", "10⁶", "10⁶⁻³", "1e400", "0x1F",
    "IV", "(3)", "٣", "１２", "①",
)  # fmt: skip
"""What outsiders write where our cases have a number: grouped, decimal, empty, too large, of other digits."""


@dataclass(frozen=True)
class HeardCase:
    """A text of one kind, and what must and must not be heard of it."""

    kind: str
    language: str
    text: str
    heard: tuple[str, ...]
    not_heard: tuple[str, ...]
    unread: str | None
    wrong: str | None


def rows_of(table: Path) -> Iterator[HeardCase]:
    """The rows of the table."""
    for kind, rows in yaml.load(table.read_bytes(), yaml.CSafeLoader).items():
        for row in rows:
            heard, not_heard = row.pop("heard", []), row.pop("not_heard", [])
            unread, wrong = row.pop("unread", None), row.pop("wrong", None)
            ((language, text),) = row.items()
            yield HeardCase(kind, language, text, tuple(heard), tuple(not_heard), unread, wrong)


CASES = tuple(rows_of(TABLE))


def chunks_of(case: HeardCase) -> list[str]:
    script = prepare_script(case.text, TonesFrontend(max_tokens=64), voice=None, seed=0, language=case.language)
    return [request.text for request in script.requests]


def plain(words: str, language: str) -> str:
    """Words as they are compared: in lower case, without hyphens and the "and" of numbers."""
    words = words.casefold().replace("-", " ").replace("ё", "е")
    words = re.sub(r"(?<=hundred) and(?= )|(?<=thousand) and(?= )", "", words) if language == "en" else words
    return re.sub(r"\s+", " ", words)


def faults(case: HeardCase) -> list[str]:
    """What is wrong with what is heard of a case."""
    chunks = chunks_of(case)
    parted, joined = (plain(blank.join(chunks), case.language) for blank in (" | ", " "))
    found = []
    for piece in case.heard:
        wanted = [plain(each, case.language) for each in piece.split("||")]
        if not any(each in joined or each in parted for each in wanted):
            found.append(f"not heard: {piece}")
    found += [f"heard: {piece}" for piece in case.not_heard if plain(piece, case.language) in parted]
    return found


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            each,
            id=f"{each.kind}-{each.language}-{number}",
            marks=[pytest.mark.xfail(reason=str(each.wrong), strict=True)] * (each.wrong is not None),
        )
        for number, each in enumerate(CASES)
    ],
)
def test_a_text_is_heard_as_a_person_would_read_it(case: HeardCase) -> None:
    if case.unread is not None:
        assert read_words(case.text, case.language) == case.text
    else:
        assert faults(case) == [], chunks_of(case)


@pytest.mark.slow
@pytest.mark.parametrize("language", sorted({each.language for each in CASES}))
def test_no_rule_breaks_at_a_number_that_it_did_not_expect(language: str, broken_rules: list[str]) -> None:
    chance = random.Random(language)
    for case in CASES:
        if case.language == language:
            for _ in range(4):
                text = NUMBER.sub(lambda found: found[0] if chance.random() < 0.4 else chance.choice(OTHERS), case.text)
                read_words(text, language)
                assert broken_rules == [], text
