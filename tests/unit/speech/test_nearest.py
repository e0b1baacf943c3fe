"""Names like an unknown one: by letters, by case, and by how they begin."""

from __future__ import annotations

import pytest

from voxyard.speech.nearest import nearest

VOICES = ("de", "en-gb", "en-us", "fr-be", "fr-fr", "v2/en_speaker_6", "v2/fr_speaker_1")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("fr", ["fr-be", "fr-fr"]),
        ("en", ["en-gb", "en-us"]),
        ("EN-US", ["en-us"]),
        ("DE", ["de"]),
        ("en_us", ["en-us"]),
        ("V2/en", ["v2/en_speaker_6"]),
        ("fr_speaker", ["v2/fr_speaker_1"]),
        ("", []),
        ("klingon", []),
    ],
)
def test_names_are_like_another_by_letters_case_and_beginning(name: str, found: list[str]) -> None:
    assert nearest(name, VOICES)[: len(found) or None] == found


def test_a_long_name_is_compared_by_its_beginning_and_few_names_come_back() -> None:
    assert nearest("en-us" + "x" * 1_000_000, VOICES) == []
    assert len(nearest("v2", [f"v2/en_{number}" for number in range(100)])) == 3
