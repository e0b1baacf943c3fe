"""Averaged weights (--ema): as the formula in NumPy says, on all devices, resumed bit for bit, and used."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from steps import Quiet, batch, config, run
from toy import StillAdversarial, TwoNetworks

from voxyard.trainer import checkpoint
from voxyard.trainer.step import TrainStep

DECAY = 0.5
Voxyard = Callable[..., subprocess.CompletedProcess[str]]
State = dict[str, np.ndarray]


def made(kind: type, **training: Any) -> Any:
    keras.utils.set_random_seed(0)
    return kind(config(**training), ("",))


def weights(state: State) -> State:
    return {name: value for name, value in state.items() if name.startswith("model/")}


def averages(state: State) -> State:
    return {name.removeprefix("ema/"): value for name, value in state.items() if name.startswith("ema/model/")}


def by_hand(after: list[State], decay: float = DECAY) -> State:
    """Average of the weights before all updates and after each of them."""
    average = {name: value.astype(np.float64) for name, value in after[0].items()}
    for n, now in enumerate(after[1:], start=1):
        d = min(decay, (1 + n) / (10 + n))
        average = {name: d * value + (1 - d) * now[name] for name, value in average.items()}
    return average


def trained(strategy: str, trainable: Any, count: int, **training: Any) -> tuple[TrainStep, list[State]]:
    """A step after so many updates, and the weights before all of them and after each."""
    step = run(strategy, [], trainable, ema=DECAY, **training)
    after = [weights(step.state())]
    for seed in range(count):
        step.train(step.stage(batch(8, seed)))
        after.append(weights(step.state()))
    return step, after


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "single": ("single", {}),
    "split": ("split", {}),
    "mirrored": ("mirrored", {}),
    "xla": ("single", {"xla": True}),
    "accumulated": ("single", {"grad_accum": 2}),
    "float16": ("single", {"precision": "float16"}),
    "bfloat16": ("single", {"precision": "bfloat16"}),
}
PROVED = [(StillAdversarial, "single"), *((TwoNetworks, way) for way in ("split", "mirrored", "float16"))]


def tier(kind: type, way: str) -> tuple[pytest.MarkDecorator, ...]:
    """One network is quick on all devices, two are slow, and what these do as well is long."""
    return () if kind is Quiet else (pytest.mark.slow if (kind, way) in PROVED else pytest.mark.long,)


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param(kind, way, marks=tier(kind, way))
        for kind, way in product((Quiet, StillAdversarial, TwoNetworks), WAYS)
    ],
)
def test_the_average_is_that_of_the_formula(kind: type, way: str) -> None:
    """One update or several, also of a network beside the model device. (1 + n) ÷ (10 + n) passes 0.5 at n = 8."""
    strategy, training = WAYS[way]
    step, after = trained(strategy, made(kind, **training), 12, **training)
    found, expected = averages(step.state()), by_hand(after)
    assert len(found) == len(step.model.trainable_variables)
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-7, err_msg=name)
    assert any((found[name] != after[-1][name]).any() for name in found)
    step.close()


def test_every_average_lies_beside_its_weights() -> None:
    step = run("split", [batch(8)], made(TwoNetworks), ema=DECAY)
    places = {
        one.name: {each.value.device[-5:] for each in (*one.average.averages, one.average.updates)}
        for one in step.updaters
        if one.average is not None
    }
    assert places == {"first": {"CPU:1"}, "second": {"CPU:0"}}
    step.close()


@pytest.mark.parametrize(
    ("strategy", "xla"),
    [
        ("single", False),
        ("split", False),
        pytest.param("single", True, marks=pytest.mark.slow),
        pytest.param("mirrored", False, marks=pytest.mark.slow),
    ],
)
def test_the_model_has_the_average_within_the_scope_and_its_weights_after_it(strategy: str, xla: bool) -> None:
    """Bit for bit, also after an error, and in all that is trained afterwards."""
    step, _ = trained(strategy, made(TwoNetworks), 3, xla=xla)
    before = step.state()
    with step.averaged():
        within = weights(step.state())
        step.evaluate(batch(4 if strategy == "mirrored" else 8))
    average = averages(before)
    for name, value in within.items():
        np.testing.assert_array_equal(value, average.get(name, before[name]), err_msg=name)

    def fails() -> None:
        with step.averaged():
            raise ValueError("in the middle")

    def trained_on() -> State:
        for seed in (7, 8):
            step.train(step.stage(batch(8, seed)))
        return step.state()

    with pytest.raises(ValueError, match="in the middle"):
        fails()
    disturbed = trained_on()
    step.restore(before)
    for name, value in trained_on().items():
        np.testing.assert_array_equal(disturbed[name], value, err_msg=name)
    step.close()


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [
        ("single", Quiet),
        pytest.param("split", TwoNetworks, marks=pytest.mark.slow),
        pytest.param("mirrored", Quiet, marks=pytest.mark.slow),
    ],
)
def test_the_average_goes_round_with_the_state(strategy: str, kind: type) -> None:
    """Bit for bit, the number of its updates too."""
    first, _ = trained(strategy, made(kind), 2)
    second = run(strategy, [], made(kind), ema=DECAY)
    second.restore(first.state())
    for step in (first, second):
        step.train(step.stage(batch(8, 5)))
    expected = first.state()
    for name, value in second.state().items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    for step in (first, second):
        step.close()


def test_an_average_that_a_checkpoint_has_not_begins_with_its_weights() -> None:
    plain = run("single", [batch(8, 1)], made(Quiet))
    averaged = run("single", [], made(Quiet), ema=DECAY)
    averaged.restore(plain.state())
    state = averaged.state()
    for name, value in averages(state).items():
        np.testing.assert_array_equal(value, state[name], err_msg=name)
    averaged.train(averaged.stage(batch(8, 2)))
    expected = by_hand([weights(plain.state()), weights(averaged.state())])
    for name, value in averages(averaged.state()).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, atol=1e-7)


def test_without_ema_the_average_of_a_checkpoint_is_left_out() -> None:
    averaged, _ = trained("single", made(Quiet), 3)
    plain = run("single", [], made(Quiet))
    plain.restore(averaged.state())
    assert averages(plain.state()) == {}
    for name, value in weights(plain.state()).items():
        np.testing.assert_array_equal(value, averaged.state()[name], err_msg=name)


def test_fine_tuning_begins_with_the_average() -> None:
    """The weights, and the average of the new run."""
    base, _ = trained("single", made(Quiet), 3)
    tuned = run("single", [], made(Quiet), ema=DECAY)
    assert tuned.restore_weights(base.state()) == []
    state, average = tuned.state(), averages(base.state())
    for name, value in average.items():
        np.testing.assert_array_equal(state[name], value, err_msg=name)
        np.testing.assert_array_equal(state[f"ema/{name}"], value, err_msg=name)
    assert state["ema/updates"] == 0


@pytest.mark.slow
def test_validation_samples_and_synthesis_are_of_the_average(
    toy: list[object], tmp_path: Path, voxyard: Voxyard
) -> None:
    """With the loss of a model that has the averaged weights as its own; and each says so."""
    rate = ["--learning-rate", 0.05, "--warmup-steps", 1]
    done = voxyard(*toy, *rate, "--max-steps", 6, "--ema", 0.9, "--validation-share", 0.2, "--json")
    assert done.returncode == 0, done.stderr
    assert "Averaging the weights (--ema 0.9): validation, samples and synthesis use them" in done.stderr
    report = json.loads(done.stdout)
    assert report["ema"] == 0.9
    assert "weights" in (tmp_path / "run/report.txt").read_text()
    found = checkpoint.open_any(tmp_path / "run")
    assert found.meta["best"] == report["validation"]["total"]

    spoken = voxyard("synthesize", "--checkpoint", tmp_path / "run", "--text", "one", "--out", tmp_path / "a.wav")
    assert spoken.returncode == 0, spoken.stderr
    assert spoken.stdout.rstrip().endswith("step 6, averaged weights")
    assert (tmp_path / "a.wav").read_bytes() != b""

    average, state = averages(dict(found.state)), dict(found.state)
    own = {name: average.get(name, value) for name, value in state.items() if not name.startswith("ema/")}
    path = checkpoint.save(tmp_path / "own", 6, own, {**found.meta, "ema": None, "best": None}, keep=1)
    again = voxyard("synthesize", "--checkpoint", path, "--text", "one", "--out", tmp_path / "b.wav")
    assert again.stdout.rstrip().endswith("step 6")
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()

    other = [tmp_path / "other" if word == tmp_path / "run" else word for word in toy]
    rest = ["--init-from", path, "--learning-rate", 1e-30, "--max-steps", 1, "--validation-share", 0.2, "--json"]
    still = voxyard(*other, *rest)
    assert still.returncode == 0, still.stderr
    assert json.loads(still.stdout)["validation"]["total"] == pytest.approx(report["validation"]["total"], rel=1e-5)


@pytest.mark.slow
def test_a_resumed_average_is_that_of_an_undisturbed_run(tones: Path, tmp_path: Path, voxyard: Voxyard) -> None:
    """Of two networks on two devices; and a run that goes on without it says so."""

    def trained_to(directory: str, steps: int, *more: object) -> str:
        done = voxyard(
            "train", "--device", "cpu", "--data-gpu", 0, "--model-gpu", 1, "--train-data", tones, "--batch-size", 4,
            "--model-module", "toy:make_two", "--num-workers", 1, "--no-tensorboard", "--model-start-delay", 0,
            "--checkpoint-dir", tmp_path / directory, "--max-steps", steps, *more,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stderr

    trained_to("whole", 8, "--ema", 0.9, "--validate-every", 2)
    trained_to("parts", 5, "--ema", 0.9)
    trained_to("parts", 8, "--ema", 0.9)
    whole, parts = (checkpoint.newest_good(tmp_path / each) for each in ("whole", "parts"))
    assert whole is not None
    assert parts is not None
    assert whole.state.keys() == parts.state.keys()
    assert [name for name in whole.state if whole.state[name].tobytes() != parts.state[name].tobytes()] == []
    assert "ema was 0.9 and is now None" in trained_to("parts", 9)
    fine = trained_to("fine", 1, "--init-from", tmp_path / "whole/step-00000008")
    assert "(averaged weights of step 8); did not match: 0" in fine
