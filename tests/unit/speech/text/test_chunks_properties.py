"""Whatever the text, its chunks give it back, in order, within the limits, and with nothing left out."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from voxyard.speech.text.boundaries import LONGEST_WORD, with_full_stops
from voxyard.speech.text.chunks import TextChunk, split

WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")
LANGUAGES = [None, "en", "de", "es", "fr", "hi", "it", "ja", "ko", "pl", "pt", "ru", "tr", "zh", "ar"]
PIECES = [
    *"abcXYZ .,;:!?…-–—()[]\"'“”‘’«»„。！？、，「」『』।؟،٪0123456789",
    *"\n\r\t\f\x00\x1b\x85\u2028\u2029\u200b\u200d\u202e\u202f\ufeff",
    *"éßñğçłжя我是日本のカ한국हिंदीعربעב\u0301\u094d😀🇩🇪👩🏽",
    *[
        "Mr. ",
        "z. B. ",
        "3.14 ",
        "1.000,50 € ",
        "e.g. ",
        "A. B. ",
        "https://a.example/b.c?d=e ",
        "\n\n",
        "\n- ",
        "\n1. ",
    ],
    *["👩‍👩‍👧", "… ", "...", "?!", " word", "Sentence one. ", "「はい。」と"],
]
documents = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    st.lists(st.sampled_from(PIECES), max_size=250).map("".join),
)
limits = st.tuples(st.integers(8, 300), st.floats(0.5, 20))


def pieces(text: str) -> int:
    """A counter that is like word pieces: words in parts of six letters, signs by themselves."""
    return sum((len(found) + 5) // 6 for found in WORD_OR_SIGN.findall(text))


def given_back(text: str, chunks: tuple[TextChunk, ...]) -> str:
    """The text from chunks and the blanks between them; anything else between them fails."""
    whole, at = "", 0
    for chunk in chunks:
        between = text[at : chunk.start]
        assert between.strip() == ""
        whole += between + chunk.text
        at = chunk.end
    assert text[at:].strip() == ""
    return whole + text[at:]


@settings(max_examples=300, deadline=None)
@given(documents, limits, st.sampled_from(LANGUAGES))
@example("", (256, 13.0), None)
@example(" \n\n\t", (256, 13.0), None)
@example("a" * 10_000, (256, 13.0), None)
@example("\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd. " * 40, (256, 13.0), None)
@example("👩‍👩‍👧" * 500, (20, 13.0), None)
@example("e" + "\u0301" * 3_000, (256, 13.0), "fr")
@example("\x00\x01\x02 \x1b[31m \x7f" * 50, (8, 1.0), "en")
@example("A\u202f.⻋ A\u2028. B", (256, 13.0), "en")
@example("我" * 2_000, (256, 13.0), "zh")
def test_the_chunks_give_the_text_back_within_the_limits(
    text: str, limit: tuple[int, float], language: str | None
) -> None:
    max_tokens, max_seconds = limit

    chunks = split(text, pieces, max_tokens=max_tokens, max_seconds=max_seconds, language=language)

    assert given_back(text, chunks) == text
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end] == chunk.text.strip() != ""
        assert chunk.tokens == pieces(with_full_stops(chunk.text)) <= max_tokens
        assert chunk.estimated_seconds <= max_seconds
        assert re.search(rf"[A-Za-z]{{{LONGEST_WORD + 1}}}", chunk.text) is None
    if chunks:
        assert chunks[-1].ending == "paragraph"


@settings(max_examples=100, deadline=None)
@given(documents)
def test_no_character_but_blanks_is_left_out(text: str) -> None:
    chunks = split(text, pieces)

    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(text.split())


@settings(max_examples=100, deadline=None)
@given(documents, st.integers(8, 60))
def test_no_token_is_left_out_where_words_stay_whole(text: str, max_tokens: int) -> None:
    words = " ".join(word[:20] for word in re.findall(r"\w+", text))

    chunks = split(words, pieces, max_tokens=max_tokens, max_seconds=60)

    assert sum(chunk.tokens for chunk in chunks) == pieces(words)


@settings(max_examples=50, deadline=None)
@given(documents, st.integers(1, 5))
def test_a_counter_that_grows_by_jumps_still_keeps_the_limit(text: str, jump: int) -> None:
    def bytes_and_frame(piece: str) -> int:
        return 2 + jump * ((len(piece.encode()) + jump - 1) // jump)

    chunks = split(text, bytes_and_frame, max_tokens=20)

    assert given_back(text, chunks) == text
    assert all(bytes_and_frame(chunk.text) <= 20 for chunk in chunks)


@pytest.mark.parametrize("unit", ["a", "“", ". ", "(", "Mr. ", "a. ", "\n", "- a\n", "。", "\n\na", "...", '"a" '])
def test_a_long_text_of_one_unit_is_split(unit: str) -> None:
    text = unit * 20_000

    chunks = split(text, pieces)

    assert given_back(text, chunks) == text
