"""Encodings of texts in Latin letters, by language: what a program of before UTF-8 wrote is read as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from voxyard.extraction.latin_encodings import latin_encoding

TEXTS = yaml.safe_load(Path(__file__).with_name("latin_texts.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("encoding", "text"), [pair for row in TEXTS for pair in row.items()])
def test_a_text_is_in_the_encoding_in_which_its_letters_are_of_one_language(encoding: str, text: str) -> None:
    data = text.encode(encoding)
    found = latin_encoding(data)
    assert found is not None
    assert data.decode(found) == text


@pytest.mark.parametrize(
    "data",
    [
        "Однажды старый рыбак вышел из дома.".encode("cp1251"),
        "Μια μέρα ο γέρος ψαράς βγήκε από το σπίτι.".encode("cp1253"),
        "ある日、年老いた漁師が魚を捕るために家を出た。".encode("shift_jis"),
        "有一天，老渔夫离开家去捕鱼。大海很平静。".encode("gbk"),
        bytes(range(0x80, 0x100)) * 3,
    ],
)
def test_other_letters_are_in_none_of_them(data: bytes) -> None:
    assert latin_encoding(data) is None
