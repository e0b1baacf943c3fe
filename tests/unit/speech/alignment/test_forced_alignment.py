"""Forced alignment: the real pocketsphinx finds the words of a synthesiser, whose events tell where they are."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Any

import espeak_words
import numpy as np
import pytest

from voxyard.corpus import espeak
from voxyard.speech.alignment import aligner_process
from voxyard.speech.alignment.aligner import open_aligner, text_times
from voxyard.speech.alignment.aligner_process import AlignerProcess
from voxyard.speech.alignment.pocketsphinx import PocketsphinxAligner, phones, plain_letters
from voxyard.speech.errors import SpeechError
from voxyard.speech.text.chunks import milliseconds

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

FACTORY = "voxyard.speech.alignment.pocketsphinx:aligner"
TEXTS = [
    "Good morning, how are you today?",
    "We went to the house by the river, and had dinner with my mother.",
    "Please leave a message after the tone, and we will call you back tomorrow morning.",
    "The harbour lay still. Nobody was awake, nobody but the watchman, who waited for the ships.",
]


@pytest.fixture(scope="module")
def aligner() -> PocketsphinxAligner:
    opened = open_aligner(FACTORY)
    assert isinstance(opened, PocketsphinxAligner)
    return opened


@pytest.fixture(scope="module")
def spoken() -> list[tuple[Audio, int, dict[int, float]]]:
    espeak.restart()
    return [espeak_words.speak(text) for text in TEXTS]


def begins(text: str, found: list[Any]) -> dict[int, float]:
    """Seconds at which the words of a text begin, by their first character."""
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    return {start: span[0] for start, span in zip(starts, found, strict=True) if span is not None}


def errors(true: dict[int, float], found: dict[int, float]) -> list[float]:
    return [abs(found[at] - seconds) for at, seconds in true.items() if at in found]


def test_word_starts_are_ten_times_nearer_to_the_truth_than_estimates(
    aligner: PocketsphinxAligner, spoken: list[tuple[Audio, int, dict[int, float]]]
) -> None:
    recognised, estimated, cpu, heard = list[float](), list[float](), 0.0, 0.0
    for text, (sound, rate, true) in zip(TEXTS, spoken, strict=True):
        began = time.process_time()
        found = aligner.align(sound, rate, text.split(), "en")
        cpu, heard = cpu + time.process_time() - began, heard + len(sound) / rate
        assert all(span is not None and span[0] < span[1] <= len(sound) / rate + 0.02 for span in found)
        recognised += errors(true, begins(text, found))
        sums = milliseconds(text, "en")
        estimated += errors(true, {at: len(sound) / rate * sums[at] / sums[-1] for at in true})
    print(f"{cpu / heard:.3f} s of CPU a second of sound")
    print(f"median error {np.median(recognised):.3f} s, of estimates {np.median(estimated):.3f} s")
    assert np.median(recognised) < 0.02
    assert np.quantile(recognised, 0.9) < 0.06
    assert np.median(estimated) > 10 * np.median(recognised)


def test_words_that_are_in_no_dictionary_are_found_by_their_letters(aligner: PocketsphinxAligner) -> None:
    text = "The old voxyard of Brindlewick has 25 kelpatrons, as the NVQ café said — twice."
    sound, rate, true = espeak_words.speak(text)

    found = aligner.align(sound, rate, text.split(), "en")

    assert found[text.split().index("—")] is None
    assert max(errors(true, begins(text, found))) < 0.15
    assert aligner._decoder.lookup_word("brindlewick") == phones("brindlewick")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("voxyard", "V AA K S IY AA R D"), ("brindlewick", "B R IH N D L Y UW IH K"), ("knash", "N AE SH"),
        ("glave", "G L EY V"), ("hopper", "HH AA P ER"), ("xq", "Z K"), ("", ""),
    ],
)  # fmt: skip
def test_a_pronunciation_follows_from_letters(word: str, expected: str) -> None:
    assert phones(word) == expected


def test_every_word_of_letters_has_phones_that_the_model_knows(aligner: PocketsphinxAligner) -> None:
    dice = np.random.default_rng(5)
    for _ in range(200):
        word = "".join(dice.choice(list("abcdefghijklmnopqrstuvwxyz"), dice.integers(1, 60)))
        assert phones(word)
        aligner._decoder.add_word(f"{word}qqx", phones(word), False)  # raises for a phone that it does not know
    assert plain_letters("Ünïque’s") == "uniques"


@pytest.mark.parametrize("kind", ["silence", "noise", "nothing", "crumb", "beginning"])
def test_a_sound_without_its_words_is_refused_with_a_reason(
    aligner: PocketsphinxAligner, spoken: list[tuple[Audio, int, dict[int, float]]], kind: str
) -> None:
    sound, rate, _ = spoken[2]
    noise = np.random.default_rng(1).normal(0, 0.3, 4 * rate).astype(np.float32)
    wrong = {
        "silence": np.zeros(4 * rate, np.float32), "noise": noise, "nothing": sound[:0], "crumb": sound[:10],
        "beginning": sound[:rate],
    }[kind]  # fmt: skip

    with pytest.raises(SpeechError, match=r"its words were not found|most of its sound|there is no sound"):
        aligner.align(wrong, rate, TEXTS[2].split(), "en")


def test_a_short_text_does_not_pass_for_a_long_sound(
    aligner: PocketsphinxAligner, spoken: list[tuple[Audio, int, dict[int, float]]]
) -> None:
    sound, rate, _ = spoken[2]

    with pytest.raises(SpeechError, match=r"most of its sound|not found"):
        aligner.align(sound, rate, ["Yes."], "en")


def test_letters_of_other_scripts_and_texts_without_words_are_refused(aligner: PocketsphinxAligner) -> None:
    sound = np.zeros(2400, np.float32)

    with pytest.raises(SpeechError, match="'мир' is not written in letters of English"):
        aligner.align(sound, 24_000, ["hello", "мир"], "en")
    with pytest.raises(SpeechError, match="no words"):
        aligner.align(sound, 24_000, ["—", "…"], "en")


def test_what_it_finds_does_not_depend_on_what_it_heard_before(
    aligner: PocketsphinxAligner, spoken: list[tuple[Audio, int, dict[int, float]]]
) -> None:
    sound, rate, _ = spoken[3]
    alone = PocketsphinxAligner().align(sound, rate, TEXTS[3].split(), "en")
    aligner.align(spoken[0][0], rate, TEXTS[0].split(), "en")

    assert aligner.align(sound, rate, TEXTS[3].split(), "en") == alone


def test_figures_and_short_forms_have_the_times_of_the_words_that_are_spoken_for_them() -> None:
    words = ["On", "3", "May", "—", "Dr.", "Who", "paid", "$5."]
    spoken = ["On", "the", "third", "of", "May", "Doctor", "Who", "paid", "five", "dollars."]
    times = [(float(at), at + 0.5) for at in range(10)]

    found = text_times(words, [1] * len(words), spoken, times)

    assert found[:3] == [(0.0, 0.5), (1.0, 3.5), (4.0, 4.5)]
    assert found[5:] == [(6.0, 6.5), (7.0, 7.5), (8.0, 9.5)]
    assert found[3:5] == [(5.0, 5.25), (5.25, 5.5)]


def test_a_word_for_which_nothing_is_spoken_takes_no_time() -> None:
    assert text_times(["—", "Yes", "…"], [1, 1, 1], ["Yes"], [(0.5, 1.0)]) == [(0.5, 0.5), (0.5, 1.0), (1.0, 1.0)]
    assert text_times(["—"], [0], [], []) == [(0.0, 0.0)]


class Slow:
    """Aligner that needs longer than anybody waits, and one that fails."""

    languages: frozenset[str] | None = None

    def align(self, audio: Audio, sample_rate: int, words: list[str], language: str) -> list[tuple[float, float]]:
        if words == ["sleep"]:
            time.sleep(60)
        if words == ["fail"]:
            raise RuntimeError("secret")
        if words == ["end"]:
            sys.exit(1)
        return [(0.0, len(audio) / sample_rate)]


def slow() -> Slow:
    return Slow()


@pytest.mark.slow
def test_a_process_that_hangs_or_ends_costs_one_sound() -> None:
    sound = np.zeros(24_000, np.float32)
    process = AlignerProcess(f"{__name__}:slow", answer_seconds=0.5)
    try:
        for words, reason in (("sleep", "took more than 0.5 s"), ("end", "ended"), ("fail", "failed: RuntimeError")):
            with pytest.raises(SpeechError, match=reason) as error:
                process.align(sound, 24_000, [words], "en")
            assert "secret" not in str(error.value)
            process._answer_seconds = 30.0  # of a host that is busy
            assert process.align(sound, 24_000, ["on"], "en") == [(0.0, 1.0)]
            process._answer_seconds = 0.5 if words == "sleep" else 30.0
        for audio, many in ((np.zeros(130 * 24_000, np.float32), ["long"]), (sound, ["many"] * 601)):
            with pytest.raises(SpeechError, match=r"longer than 120 s|more than 600 words"):
                process.align(audio, 24_000, many, "en")
    finally:
        process.close()
        process.end()


def test_an_aligner_that_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpeechError, match=r"aligner nowhere:found: No module named 'nowhere'"):
        AlignerProcess("nowhere:found").open()
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(SpeechError, match=r"pip install 'voxyard\[words\]'"):
        PocketsphinxAligner()
    assert aligner_process.ANSWER_SECONDS == 60.0
