"""Endings of a chunk: a paragraph, a sentence, or a part of a long sentence."""

from __future__ import annotations

from voxyard.speech.text.chunks import split


def words(text: str) -> int:
    return len(text.split())


def endings(text: str, max_tokens: int) -> list[str]:
    return [chunk.ending for chunk in split(text, words, max_tokens=max_tokens, max_seconds=60)]


def test_a_chunk_that_ends_with_its_sentence_says_so() -> None:
    text = "The first sentence has seven words today. The second sentence has seven words too."

    assert endings(text, 7) == ["sentence", "paragraph"]


def test_a_part_of_a_long_sentence_is_a_clause() -> None:
    text = "It rained on the roof all night, and it rained on the road all day, so we stayed inside the house."

    assert endings(text, 8) == ["clause", "clause", "paragraph"]


def test_every_paragraph_ends_as_one() -> None:
    text = "The first paragraph is short enough for one.\n\nThe second paragraph is short enough as well."

    assert endings(text, 8) == ["paragraph", "paragraph"]
