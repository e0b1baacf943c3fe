"""A recogniser beside the engine: wrong words are a fault like any other, a failing recogniser is none."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import spoken

from voxyard.bark.config import BarkConfig
from voxyard.bark.engine import BarkEngine
from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.requests import Request, Result

HELLO = Request(0, "Hello world.", seed=7)


def speak(model: Path, request: Request, **settings: Any) -> Result:
    engine = BarkEngine(BarkConfig(model=model, device="cpu", **settings))
    engine.prepare()
    (result,) = spoken.speak(engine, [request])
    return result


def test_without_a_recogniser_nobody_listens(tiny_model: Path) -> None:
    facts = speak(tiny_model, HELLO, quality="retry").facts

    assert (facts["word_errors"], facts["words_unchecked"], facts["attempts"]) == (None, None, 1)


def test_the_right_words_are_heard_at_once(tiny_model: Path) -> None:
    facts = speak(tiny_model, HELLO, quality="retry", recogniser="recognisers:hello").facts

    assert (facts["word_errors"], facts["words_unchecked"], facts["faults"], facts["attempts"]) == (0.0, None, (), 1)


def test_wrong_words_are_tried_again_with_another_attempt_number(tiny_model: Path) -> None:
    retried = speak(tiny_model, HELLO, quality="retry", retries=4, recogniser="recognisers:wrong_twice")
    straight = speak(tiny_model, replace(HELLO, attempt=2))
    first = speak(tiny_model, HELLO)

    assert (retried.facts["attempt"], retried.facts["attempts"], retried.facts["faults"]) == (2, 3, ())
    assert retried.audio.tobytes() == straight.audio.tobytes() != first.audio.tobytes()


def test_where_no_try_is_right_the_one_with_the_fewest_wrong_words_is_heard(tiny_model: Path) -> None:
    facts = speak(tiny_model, HELLO, quality="retry", retries=2, recogniser="recognisers:never_right").facts

    assert (facts["attempt"], facts["attempts"]) == (1, 3)
    assert facts["word_errors"] == 1.0
    assert facts["faults"] == ("wrong words",)


@pytest.mark.parametrize(("share", "faults"), [(1.5, ()), (1.4, ("wrong words",))])
def test_how_many_words_may_be_wrong_is_a_setting(tiny_model: Path, share: float, faults: tuple[str, ...]) -> None:
    facts = speak(tiny_model, HELLO, word_errors=share, recogniser="recognisers:never_right").facts

    assert facts["word_errors"] == 1.5
    assert facts["faults"] == faults


def test_a_recogniser_that_fails_is_no_fault_of_the_chunk(tiny_model: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        facts = speak(tiny_model, HELLO, quality="retry", recogniser="recognisers:deaf").facts

    assert (facts["faults"], facts["attempts"], facts["word_errors"]) == ((), 1, None)
    assert facts["words_unchecked"] == "ValueError: the model of the recogniser is not there"
    assert "the words are not checked" in caplog.text


def test_a_recogniser_that_is_not_there_ends_the_preparation(tiny_model: Path) -> None:
    engine = BarkEngine(BarkConfig(model=tiny_model, device="cpu", recogniser="no_such_package:recogniser"))

    with pytest.raises(SpeechError, match="No module named 'no_such_package'"):
        engine.prepare()


def test_the_noise_of_random_weights_is_not_the_text(tiny_model: Path) -> None:
    settings = {
        "model": str(tiny_model),
        "device": "cpu",
        "recogniser": "voxyard.speech.verification.pocketsphinx:recogniser",
    }
    engine = EngineSpec("voxyard.bark.engine:create", settings).create()
    engine.prepare()

    asked = Request(0, "We went to the house by the river.", seed=7)
    (result,) = spoken.speak(engine, [asked])

    assert "wrong words" in result.facts["faults"]  # type: ignore[operator]
    json.dumps(result.facts)
