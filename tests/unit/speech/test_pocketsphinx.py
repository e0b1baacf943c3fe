"""The real pocketsphinx hears which text a synthesiser spoke."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from voxyard.corpus import espeak
from voxyard.speech.errors import SpeechError
from voxyard.speech.verification.pocketsphinx import Pocketsphinx
from voxyard.speech.verification.word_error_rate import WordCheck, open_recogniser, word_error_rate

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

TEXTS = [
    "Good morning, how are you today?",
    "We went to the house by the river, and had dinner with my mother.",
    "Please leave a message after the tone, and we will call you back tomorrow morning.",
    "The meeting begins at ten on Monday; 25 people will be there.",
]
RIGHT = 0.5  # the default of the Bark engine


@pytest.fixture(scope="module")
def recogniser() -> Pocketsphinx:
    opened = open_recogniser("voxyard.speech.verification.pocketsphinx:recogniser")
    assert isinstance(opened, Pocketsphinx)
    return opened


@pytest.fixture(scope="module")
def spoken() -> list[tuple[Audio, int]]:
    """The texts in espeak-ng's voice, float32 at its own rate."""
    espeak.restart()
    sounds = [espeak.speak(text, "en-us", words_per_minute=150) for text in TEXTS]
    return [((sound / 32768).astype(np.float32), rate) for sound, rate in sounds]


def test_the_right_text_passes_and_any_other_one_fails(
    recogniser: Pocketsphinx, spoken: list[tuple[Audio, int]]
) -> None:
    heard = [recogniser.words(sound, rate, "en") for sound, rate in spoken]

    for number, said in enumerate(heard):
        rates = [word_error_rate(text, said, "en") for text in TEXTS]
        assert rates[number] <= RIGHT, said
        assert all(rate > RIGHT for other, rate in enumerate(rates) if other != number), said


def test_half_of_a_sound_is_not_its_text(recogniser: Pocketsphinx, spoken: list[tuple[Audio, int]]) -> None:
    sound, rate = spoken[2]

    heard = WordCheck(recogniser).check(sound[: len(sound) // 3], rate, TEXTS[2], "en-US")

    assert heard.errors is not None
    assert heard.errors > RIGHT


@pytest.mark.parametrize("level", [0.02, 3.0])
def test_what_it_hears_does_not_depend_on_the_level(
    recogniser: Pocketsphinx, spoken: list[tuple[Audio, int]], level: float
) -> None:
    sound, rate = spoken[0]

    assert word_error_rate(TEXTS[0], recogniser.words(sound * np.float32(level), rate, None)) <= RIGHT


def test_what_it_hears_does_not_depend_on_what_it_heard_before(
    recogniser: Pocketsphinx, spoken: list[tuple[Audio, int]]
) -> None:
    """Otherwise the order of chunks would decide which of them are spoken again."""

    def score(listener: Pocketsphinx) -> tuple[str, float]:
        said = listener.words(*spoken[3], "en")
        return said, listener._decoder.hyp().best_score

    alone = score(Pocketsphinx())

    recogniser.words(*spoken[0], "en")
    recogniser.words(np.random.default_rng(1).normal(0, 0.3, 24_000).astype(np.float32), 24_000, "en")

    assert score(recogniser) == alone


@pytest.mark.parametrize("samples", [1, 100, 48_000])
def test_silence_and_crumbs_of_sound_have_no_words_of_the_text(recogniser: Pocketsphinx, samples: int) -> None:
    heard = recogniser.words(np.zeros(samples, dtype=np.float32), 24_000, "en")

    assert word_error_rate(TEXTS[0], heard) > RIGHT


@pytest.mark.parametrize("language", ["de", "pt-BR", "zh"])
def test_other_languages_are_refused_and_count_as_not_checked(recogniser: Pocketsphinx, language: str) -> None:
    sound = np.zeros(2400, dtype=np.float32)

    with pytest.raises(SpeechError, match=f"supports English only, found '{language}'"):
        recogniser.words(sound, 24_000, language)
    heard = WordCheck(recogniser).check(sound, 24_000, "Hallo", language)

    assert heard.errors is None
    assert "English only" in (heard.unchecked or "")


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)

    with pytest.raises(SpeechError, match="pip install pocketsphinx"):
        Pocketsphinx()
