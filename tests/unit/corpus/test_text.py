"""Text to tokens: any text, and never an error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from voxyard.corpus.text import PAD, SYMBOLS, Tokenizer, Units, decode

ANY_TEXT = st.text(st.characters(codec=None))  # lone surrogates too: a command line can bring them


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("Hello, World!", "hello, world!"),
        ("Café, naïve", "cafe, naive"),
        ("Straße, GROẞ", "strasse, gross"),
        ("ﬁne № 5", "fine no 5"),
        ("  a \t\r\n b  ", "a b"),
        ("a\x00b\x07c\x1b[0m", "a b c (0m"),
        ("“Yes” – ‘no’…", "“yes” – ‘no’..."),
        ("„Ja“, ‚nein‘, ‹oui›, don´t, well‐known, −5°", "“ja“, ‘nein‘, «oui», don't, well-known, -5"),
        ("你好", ""),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_letters_are_reduced_to_known_ones(text: str, known: str) -> None:
    """Non-ASCII and empty text."""
    assert decode(Tokenizer().encode(text)) == known


def test_what_is_left_out_is_counted() -> None:
    assert Tokenizer().read("a 你 b 你 好").dropped == {"你": 2, "好": 1}


@pytest.mark.parametrize("units", ["characters", "phonemes"])
@pytest.mark.parametrize("text", ["½ a cup", "nul\x00 bell\x07", "\x1bescape", "\ud800 half a pair"])
def test_what_is_dropped_is_named_as_it_was_written(units: Units, text: str) -> None:
    """No part of it, and no control character in silence."""
    dropped = {character: 1 for character in text if character in "½\x00\x07\x1b\ud800"}
    read = Tokenizer(units).read(text)
    assert read.dropped == dropped
    assert read.characters == len(text.replace(" ", ""))


def test_a_sign_that_is_known_in_part_is_dropped_whole() -> None:
    """20 ℃ is not learned as 20 c."""
    read = Tokenizer().read("20 ℃ + ½")
    assert (decode(read.tokens).split(), read.dropped) == (["20"], {"℃": 1, "+": 1, "½": 1})


@pytest.mark.parametrize("text", ["a\u00adb\u200bc\ufeff\u2060", "a\tb\r\nc\u2028d\u00a0e"])
def test_invisible_signs_and_white_space_are_not_counted(text: str) -> None:
    read = Tokenizer().read(text)
    assert (read.dropped, read.folded, read.characters) == ({}, {}, sum(map(str.isalpha, text)))


@pytest.mark.parametrize("units", ["characters", "phonemes"])
@given(text=ANY_TEXT)
@example(text="\ud800")
@example(text="(((")
@example(text="<break/>&amp;[[hello]]")
def test_any_text_gives_tokens_of_the_table_and_no_padding(units: str, text: str) -> None:
    tokens = Tokenizer(units).encode(text)  # type: ignore[arg-type]
    assert tokens.dtype == np.int32
    assert ((tokens > PAD) & (tokens < len(SYMBOLS))).all()


@given(text=ANY_TEXT)
def test_encoding_what_was_decoded_gives_the_same_tokens(text: str) -> None:
    """There is one way to write what the model sees."""
    tokens = Tokenizer().encode(text)
    again = Tokenizer().encode(decode(tokens))
    assert decode(again) == " ".join(decode(tokens).split())


def test_every_symbol_is_there_once_and_padding_is_none_of_them() -> None:
    """Checkpoints depend on the table."""
    assert SYMBOLS[PAD] == ""
    assert len(set(SYMBOLS)) == len(SYMBOLS)
    assert all(len(symbol) == 1 for symbol in SYMBOLS[1:])
