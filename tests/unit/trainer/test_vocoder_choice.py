"""Vocoder that speaks: Griffin-Lim until a model's own was trained for long enough, and what the user asks for."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from voxyard.trainer.errors import TrainerError
from voxyard.trainer.voice.vocoder_choice import AUTO, EARLIER, ENOUGH, GRIFFIN_LIM, NEURAL, chosen_vocoder, updates_of

RUN = Path("runs/both")


def state(updates: int) -> dict[str, np.ndarray]:
    """Of a checkpoint, as float16 has it: the loss scale counts its steps, too."""
    return {
        "optimizer/acoustic/0000_iteration": np.array(10**6),
        "optimizer/vocoder/0001_iteration": np.array(updates),
        "optimizer/vocoder/0000_counter": np.array(10**7),
        "optimizer/vocoder/0002_momentum": np.zeros(3),
    }


def test_the_updates_of_a_vocoder_are_its_optimizers() -> None:
    assert updates_of(state(7), {}) == 7
    assert updates_of(state(7), {EARLIER: 20}) == 27
    assert updates_of({"optimizer/0000_iteration": np.array(9)}, {}) == 0


@pytest.mark.parametrize(
    ("updates", "taken", "said"),
    [
        (0, GRIFFIN_LIM, "Griffin-Lim speaks: the model's own vocoder had 0 updates"),
        (ENOUGH - 1, GRIFFIN_LIM, "better from 15000 on; --vocoder neural takes it"),
        (ENOUGH, NEURAL, "own vocoder speaks, after 15000 updates; --vocoder griffin-lim leaves it out"),
    ],
)
def test_auto_takes_a_models_own_where_it_was_trained_for_long_enough(
    updates: int, taken: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert chosen_vocoder(AUTO, state(updates), {}, RUN, has_own=True) == taken
    assert said in caplog.text


def test_the_updates_of_the_runs_before_count() -> None:
    assert chosen_vocoder(AUTO, state(10), {EARLIER: ENOUGH - 10}, RUN, has_own=True) == NEURAL


def test_a_model_without_one_speaks_with_griffin_lim(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert chosen_vocoder(AUTO, {}, {}, RUN, has_own=False) == GRIFFIN_LIM
    assert caplog.text == ""


@pytest.mark.parametrize("asked", [NEURAL, GRIFFIN_LIM])
def test_what_is_asked_for_is_taken(asked: str) -> None:
    assert chosen_vocoder(asked, state(1), {}, RUN, has_own=True) == asked


def test_a_vocoder_that_is_not_there_is_refused() -> None:
    with pytest.raises(TrainerError, match="runs/both has no vocoder of its own; leave --vocoder out, or train one"):
        chosen_vocoder(NEURAL, {}, {}, RUN, has_own=False)
