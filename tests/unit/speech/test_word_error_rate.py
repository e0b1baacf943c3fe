"""The share of wrong words, whatever the spelling, and a recogniser that fails."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recognisers import Scripted

from voxyard.speech.engine import EngineLostError
from voxyard.speech.errors import SpeechError
from voxyard.speech.verification.normalize import spoken_words
from voxyard.speech.verification.word_error_rate import WordCheck, edit_distance, open_recogniser, word_error_rate

SOUND = np.full(2400, 0.1, dtype=np.float32)
words = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=12)


@pytest.mark.parametrize(
    ("text", "heard", "language", "rate"),
    [
        ("The door opens.", "the door opens", "en", 0),
        ("The door opens.", "the doors opens", "en", 1 / 3),
        ("The door opens.", "the door", "en", 1 / 3),
        ("The door opens.", "and the door opens now", "en", 2 / 3),
        ("The door opens.", "", "en", 1),
        ("The door opens.", "it was a dark and stormy night", "en", 7 / 3),
        ("one two three four", "two one three four", "en", 2 / 4),
        ("He has 25 apples, 1,250 pears.", "he has twenty five apples one thousand two hundred fifty pears", "en", 0),
        ("He has 25 apples.", "He has 25 apples", "en", 0),
        ("It costs $5, or 40 %.", "it costs five dollars or forty percent", "en", 0),
        ("Pi is 3.14.", "pi is three point one four", "en", 0),
        ("In 1999, 2005, 2024", "in nineteen ninety nine two thousand five twenty twenty four", None, 0),
        ("The 22nd, the 3rd and the 40th", "the twenty second the third and the fortieth", "en-GB", 0),
        ("“Don’t!” Mr. Smith said — twice…", "don't mister smith said twice", "en", 0),
        ("well-known", "well known", "en", 0),
        ("Hello [laughs] world ♪", "[NOISE] hello <sil> world", "en", 0),
        ("Straße und Öl", "STRASSE UND ÖL", "de", 0),
        ("Es kostet 12 Euro.", "es kostet 12 euro", "de", 0),
        ("Es kostet 12 Euro.", "es kostet zwölf euro", "de", 1 / 4),
        ("L’été, c'est l'été !", "l'été c’est l’été", "fr", 0),
        ("¿Qué hora es?", "qué hora es", "es", 0),
        ("ISPARTA'da İzmir", "ısparta'da izmir", "tr", 0),
        ("cafe\u0301", "café", "fr", 0),
        ("किताबें पढ़ो।", "किताबें पढ़ो", "hi", 0),
        ("किताबें पढ़ो।", "किताब पढ़ो", "hi", 1 / 2),
        ("我爱北京。", "我爱 北京", "zh", 0),
        ("我爱北京。", "我爱南京", "zh", 1 / 4),
        ("今日は、いい天気です。", "今日はいい天気です", "ja", 0),
        ("スーパーマン", "スーパー・マン", "ja", 0),
        ("안녕하세요.", "안녕 하세요", "ko", 0),
        ("안녕하세요.", "안녕하세용", "ko", 1 / 5),
        ("ABC １２３", "abc 123", "zh", 0),
    ],
)  # fmt: skip
def test_the_rate_is_that_of_edits_over_the_words_of_the_text(
    text: str, heard: str, language: str | None, rate: float
) -> None:
    assert word_error_rate(text, heard, language) == pytest.approx(rate)


@pytest.mark.parametrize(("heard", "rate"), [("", 0.0), ("a word", math.inf)])
def test_a_text_without_words_has_no_share(heard: str, rate: float) -> None:
    assert word_error_rate("… — !", heard) == rate


@pytest.mark.parametrize(
    ("figures", "spoken"),
    [
        ("0", "zero"),
        ("13", "thirteen"),
        ("20", "twenty"),
        ("100", "one hundred"),
        ("115", "one hundred fifteen"),
        ("1000000", "one million"),
        ("3,000,021", "three million twenty one"),
        ("1905", "nineteen oh five"),
        ("1900", "nineteen hundred"),
        ("2000", "two thousand"),
        ("1,999", "one thousand nine hundred ninety nine"),
        ("007", "zero zero seven"),
        ("-5", "minus five"),
        ("5-7", "five seven"),
        ("0.05", "zero point zero five"),
        ("$1", "one dollar"),
        ("£2.50", "two pounds fifty"),
        ("1st 2nd 12th 20th 101st", "first second twelfth twentieth one hundred first"),
        ("1234567890123456", "one two three four five six seven eight nine zero one two three four five six"),
        ("B2B", "b two b"),
    ],
)
def test_figures_are_read_in_english(figures: str, spoken: str) -> None:
    assert spoken_words(figures, "en") == spoken.split()


@given(words, words, words)
def test_the_distance_is_a_distance(one: list[str], other: list[str], third: list[str]) -> None:
    distance = edit_distance(one, other)

    assert (distance == 0) == (one == other)
    assert distance == edit_distance(other, one)
    assert abs(len(one) - len(other)) <= distance <= max(len(one), len(other))
    assert edit_distance(one, third) <= distance + edit_distance(other, third)


@given(words, st.integers(0, 12), st.sampled_from(["x", None]))
def test_one_edit_is_a_distance_of_one(one: list[str], at: int, word: str | None) -> None:
    if word is None and at >= len(one):
        return
    changed = [*one[:at], *([word] if word else []), *one[at + (word is None) :]]

    assert edit_distance(one, changed) == 1


@settings(deadline=None)
@given(st.text(max_size=200), st.sampled_from(["en", "de", "tr", "zh", "hi", None]))
def test_whatever_the_text_it_is_heard_right_in_its_own_words(text: str, language: str | None) -> None:
    spoken = spoken_words(text, language)

    assert all(word and not any(letter.isspace() for letter in word) for word in spoken)
    assert word_error_rate(text, text, language) == 0
    assert word_error_rate(text, " ".join(spoken), language) == 0


def test_the_recogniser_is_asked_with_the_sound_its_rate_and_the_language() -> None:
    recogniser = Scripted("hello word")

    heard = WordCheck(recogniser).check(SOUND, 24_000, "Hello, world!", "en")

    assert (heard.errors, heard.unchecked) == (0.5, None)
    assert recogniser.asked == [(2400, 24_000, "en")]


def test_a_recogniser_that_fails_leaves_the_words_unchecked_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    check = WordCheck(Scripted(ValueError("no model"), ValueError("no model"), MemoryError(), "hello"))

    with caplog.at_level(logging.WARNING):
        heard = [check.check(SOUND, 24_000, "Hello", "en") for _ in range(4)]

    assert [each.errors for each in heard] == [None, None, None, 0.0]
    assert [each.unchecked for each in heard] == ["ValueError: no model"] * 2 + ["MemoryError", None]
    assert [record.getMessage().split(" (")[0].rpartition(": ")[2] for record in caplog.records] == [
        "no model",
        "MemoryError",
    ]


def test_an_error_that_only_a_new_process_gets_over_ends_the_worker() -> None:
    with pytest.raises(EngineLostError):
        WordCheck(Scripted(EngineLostError("the device is gone"))).check(SOUND, 24_000, "Hello", "en")


@pytest.mark.parametrize(
    ("audio", "text", "reason"),
    [
        (SOUND[:0], "Hello", "there is no valid audio"),
        (SOUND * np.float32("nan"), "Hello", "there is no valid audio"),
        (SOUND, "… [sighs]", "the text has no words"),
    ],
)
def test_nobody_listens_where_nothing_can_be_compared(audio: np.ndarray, text: str, reason: str) -> None:
    recogniser = Scripted("hello")

    heard = WordCheck(recogniser).check(audio, 24_000, text, "en")

    assert (heard.errors, heard.unchecked) == (None, reason)
    assert recogniser.asked == []


def test_a_recogniser_is_opened_by_its_name() -> None:
    assert open_recogniser("recognisers:hello").words(SOUND, 24_000, None) == "hello, world"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("recognisers", "'recognisers': expected package.module:factory"),
        ("no_such_package.x:y", "No module named 'no_such_package'"),
        ("recognisers:nobody", "no attribute 'nobody'; expected package.module:factory"),
    ],
)
def test_a_name_that_leads_nowhere_is_said(name: str, says: str) -> None:
    with pytest.raises(SpeechError, match=says):
        open_recogniser(name)
