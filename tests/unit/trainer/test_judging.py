"""Judges of a validation: what they say of sounds, and that a run neither waits for them nor ends with them."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path

import numpy as np
import pytest
from eventually import eventually

from voxyard.corpus import espeak
from voxyard.trainer.config import TelemetryConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.judging.judges import POCKETSPHINX, JudgedSpeech, Judges, heard_language, require_judges
from voxyard.trainer.judging.process import Panel, Utterance

SAID, OTHER = "Thank you very much for coming.", "The weather is bad today."


def utterance(text: str, sound_of: str | None = None) -> Utterance:
    sound, rate = espeak.speak(sound_of or text)
    return Utterance(text, np.divide(sound, 32768, dtype=np.float32), rate)


@pytest.mark.slow
def test_the_right_words_have_fewer_errors_than_others_and_noise_is_heard() -> None:
    panel = Panel(POCKETSPHINX, "en")
    right, wrong = panel.judge([utterance(SAID)]), panel.judge([utterance(SAID, OTHER)])
    assert right["wer"] < 0.5 < wrong["wer"]
    noisy = utterance(SAID)
    noise = np.random.default_rng(0).normal(0, 0.1, len(noisy.sound)).astype(np.float32)
    worse = panel.judge([Utterance(SAID, noisy.sound + noise, noisy.rate)])
    assert 1 <= worse["dnsmos"] < right["dnsmos"] <= 5


@pytest.mark.slow
def test_errors_are_counted_over_all_words_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word of four of one sentence and none of one of another are one of five, not an eighth."""
    panel = Panel(POCKETSPHINX, "en")
    heard = iter(["one two three", "five"])
    monkeypatch.setattr(panel._recogniser, "words", lambda *_: next(heard))
    silence = np.zeros(16000, np.float32)
    spoken = [Utterance(text, silence, 16000) for text in ("One, two, three, 4!", "Five.")]
    assert panel.judge(spoken)["wer"] == pytest.approx(1 / 5)


def test_a_missing_package_is_named_before_the_run_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("jiwer", "pocketsphinx") else found(name)
    )
    with pytest.raises(TrainerError, match=r"--judge 4 needs jiwer, pocketsphinx: pip install 'voxyard\[judges\]'"):
        require_judges(TelemetryConfig(judge=4))
    with pytest.raises(TrainerError, match="needs jiwer: pip"):
        require_judges(TelemetryConfig(judge=4, judge_recogniser="mine:recogniser"))


def test_words_of_another_language_are_not_counted_as_english(caplog: pytest.LogCaptureFixture) -> None:
    config = TelemetryConfig(judge=4)
    assert heard_language(config, "en-us") == (POCKETSPHINX, "en")
    assert caplog.messages == []
    assert heard_language(config, "de") == ("", "de")
    assert "no words are counted in de: DNSMOS alone" in caplog.text
    assert heard_language(config, None) == (POCKETSPHINX, "")
    assert "counted as English" in caplog.text
    assert heard_language(TelemetryConfig(judge_recogniser="mine:recogniser"), "de") == ("mine:recogniser", "de")


@pytest.mark.slow
def test_judgements_come_from_a_process_beside_the_run() -> None:
    with Judges(POCKETSPHINX, "en") as judges:
        judges.ask(None, [utterance(SAID)])
        free = [judges.free]  # for a step, beside the recordings
        judges.ask(7, [utterance(SAID, OTHER)])
        free.append(judges.free)  # the call has not waited
        assert free == [True, False]
        found = list[JudgedSpeech]()

        def both() -> bool:
            found.extend(judges.collect())
            return len(found) == 2

        eventually(both)  # a busy machine loads the recogniser for a minute, and its process is a nice one
        assert judges.settle() == []
    recorded, spoken = found
    assert (recorded.step, spoken.step) == (None, 7)
    assert recorded.scores["wer"] < spoken.scores["wer"]
    assert not Path(f"/proc/{judges._process.pid}").exists()


@pytest.mark.slow
def test_without_a_recogniser_the_sound_alone_is_judged() -> None:
    with Judges("", "de") as judges:
        judges.ask(1, [utterance(SAID)])
        (found,) = judges.settle()
    assert found.scores.keys() == {"dnsmos"}


def test_a_judge_that_dies_is_a_warning_and_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with Judges("no.such.module:recogniser", "en") as judges:
        for step in (1, 2):
            judges.ask(step, [utterance(SAID)])
        assert judges.settle() == []
        assert judges.free
    (said,) = caplog.messages
    assert said.startswith("--judge ends, its process did: ")
    assert "no.such.module" in said
