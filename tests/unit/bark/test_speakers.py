"""Bark's presets in words for people."""

from __future__ import annotations

import pytest

from voxyard.bark.voices import LANGUAGES, WOMEN, describe, names


@pytest.mark.parametrize(
    ("voice", "title", "gender"),
    [
        ("v2/en_speaker_6", "English speaker 6", "male"),
        ("v2/en_speaker_9", "English speaker 9", "female"),
        ("v2/ko_speaker_0", "Korean speaker 0", "female"),
        ("v2/pt_speaker_9", "Portuguese speaker 9", "male"),
        ("de_speaker_3", "German speaker 3, first set", None),
        ("announcer", "Announcer", None),
        ("old_captain", "Old captain", None),
        ("v2/xx_speaker_1", "V2/xx speaker 1", None),
    ],
)
def test_a_voice_has_a_title_and_a_gender_where_it_is_known(voice: str, title: str, gender: str | None) -> None:
    found = describe(voice)
    assert (found.title, found.gender) == (title, gender)


def test_every_language_of_the_presets_is_named_and_titles_are_distinct() -> None:
    assert set(LANGUAGES) == set(WOMEN)
    assert len({describe(name).title for name in names()}) == len(names())
