"""Steps of several updates: each has its optimizer, sees what the one before it changed, and resumes bit for bit."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from steps import batch, config, devices, run
from toy import InTurns, StillAdversarial, TwoNetworks

from voxyard.trainer import TrainerError, Update
from voxyard.trainer.step import TrainStep
from voxyard.trainer.steps.gradients import in_turn
from voxyard.trainer.steps.gradients import in_turns as made_in_turns
from voxyard.trainer.trainable import Batch


class Plain(StillAdversarial):
    """With SGD in both networks, so that runs differ by no more than rounding."""

    def build(self) -> keras.Model:
        keras.utils.set_random_seed(0)
        return super().build()

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.SGD(0.05)


def plain(**training: Any) -> Plain:
    return Plain(config(**training), ("",))


def by_hand(batches: Sequence[dict[str, np.ndarray]]) -> tuple[keras.Model, list[dict[str, float]]]:
    """Weights and losses of the same steps in eager Keras: first the judge, then what deceives it as it is now."""
    trainable = plain()
    model, losses = trainable.build(), []
    for one in batches:
        made = trainable.features({name: tf.constant(value) for name, value in one.items()})
        found: dict[str, float] = {}
        for update in trainable.updates(model):
            losses_of = update.losses_in("")
            assert losses_of is not None
            with tf.GradientTape() as tape:
                means = {name: tf.reduce_mean(value) for name, value in losses_of(made).items()}
            gradients = tape.gradient(means["total"], [each.value for each in update.variables])
            keras.optimizers.SGD(float(update.optimizer().learning_rate)).apply(gradients, update.variables)
            found |= {f"{update.name}/{name}": float(value) for name, value in means.items()}
        losses.append(found)
    return model, losses


def weights(model: keras.Model) -> list[np.ndarray]:
    return [each.numpy() for each in model.trainable_variables]


def assert_close(one: keras.Model, other: keras.Model) -> None:
    for a, b in zip(weights(one), weights(other), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6, rtol=1e-5)


def test_a_step_is_what_alternating_updates_by_hand_are():
    batches = [batch(16, seed) for seed in range(3)]
    expected, losses = by_hand(batches)
    step = run("single", batches[:2], plain(), clip_norm=1e9)
    read = step.train(step.stage(batches[2])).read()
    assert_close(step.model, expected)
    assert read["guess/learning_rate"] == pytest.approx(0.05)
    assert read["learning_rate"] == read["judge/learning_rate"] == pytest.approx(0.01)
    for name, value in losses[-1].items():
        assert read[name] == pytest.approx(value, rel=1e-4), name
    assert read["total"] == pytest.approx(losses[-1]["judge/total"] + losses[-1]["guess/total"], rel=1e-4)


THREE = [batch(16, seed) for seed in range(3)]


@functools.cache
def alone() -> TrainStep:
    """A step on one device after three batches."""
    return run("single", THREE, plain())


@pytest.mark.parametrize(
    ("strategy", "training"),
    [
        ("split", {}),
        ("mirrored", {}),
        pytest.param("single", {"xla": True}, marks=pytest.mark.slow),
        ("single", {"precision": "float16"}),
    ],
    ids=["split", "mirrored", "xla", "float16"],
)
def test_the_devices_do_not_change_what_is_learned(strategy, training):
    assert_close(alone().model, run(strategy, THREE, plain(), **training).model)


def test_accumulated_parts_give_the_updates_of_the_whole_batch():
    assert_close(alone().model, run("single", THREE, plain(), grad_accum=4).model)


def test_each_update_is_clipped_on_its_own():
    loud = [batch(8, scale=30000.0)]
    before, after = run("single", [], plain()), run("single", loud, plain(), clip_norm=0.01)
    for network, rate in (("judge", 0.01), ("guess", 0.05)):
        moved = [
            a.numpy().astype(np.float64) - b.numpy()
            for a, b in zip(
                getattr(after.model, network).trainable_variables,
                getattr(before.model, network).trainable_variables,
                strict=True,
            )
        ]
        assert np.sqrt(sum(float((part**2).sum()) for part in moved)) == pytest.approx(rate * 0.01, rel=1e-2)


def test_the_state_of_all_optimizers_goes_round():
    first = run("single", [batch(8, 0), batch(8, 1)], StillAdversarial(config(), ("",)))
    second = run("single", [], StillAdversarial(config(), ("",)))
    assert any(name.startswith("optimizer/judge/") for name in first.state())
    second.restore(first.state())
    for step in (first, second):
        step.train(step.stage(batch(8, 2)))
    for name, value in first.state().items():
        np.testing.assert_array_equal(value, second.state()[name], err_msg=name)


def test_variables_of_every_optimizer_lie_on_the_model_device():
    for variable in run("split", [batch(8)], plain()).variables:
        assert variable.value.device.endswith("CPU:1"), variable.path


class Wrong(Plain):
    """Its updates are as `made` says."""

    made: Any

    def updates(self, model: Any) -> Sequence[Update]:
        found: Sequence[Update] = type(self).made(self, model)
        return found


def _update(name: str, variables: Sequence[keras.Variable]) -> Update:
    def losses(batch: Batch) -> Batch:
        return {"total": batch["loudness"]}

    return Update(name, variables, losses, partial(keras.optimizers.SGD, 0.1))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            lambda _, model: [_update("a", model.judge.trainable_variables)],
            "loudness/embed/embeddings: no update changes",
        ),
        (
            lambda _, model: [_update("a", model.trainable_variables), _update("b", model.judge.trainable_variables)],
            "heard/kernel: two updates change it",
        ),
        (lambda _, model: [_update("a", model.trainable_variables), _update("b", [])], "b: it has no variables"),
        (lambda _, model: [_update("a/b", model.trainable_variables)], "found the names"),
        (lambda *_: [], "found the names"),
    ],
    ids=["left out", "twice", "none", "name", "empty"],
)
def test_updates_that_do_not_fit_the_model_are_named(made, said):
    trainable = type("Made", (Wrong,), {"made": made})(config(), ("",))
    with pytest.raises(TrainerError, match=said):
        run("single", [], trainable)


def test_losses_without_a_total_are_named():
    def of(_: Any, model: Any) -> Sequence[Update]:
        first = _update("a", model.trainable_variables)
        return [Update("a", first.variables, lambda batch: {"other": batch["loudness"]}, first.optimizer)]

    trainable = type("Made", (Wrong,), {"made": of})(config(), ("",))
    with pytest.raises(TrainerError, match="update a: found other, expected a loss 'total'"):
        run("single", [batch(8)], trainable)


# -- updates on the data device ----------------------------------------------------------------------------------------


def two(**training: Any) -> TwoNetworks:
    keras.utils.set_random_seed(0)
    return TwoNetworks(config(**training), ("",))


@pytest.mark.slow
def test_a_network_beside_the_model_device_learns_what_it_learns_in_turn():
    """Bit for bit; and on one device there is no thread."""
    batches = [batch(8, seed) for seed in range(6)]
    one, both = run("single", batches, two()), run("split", batches, two())
    assert one.update_thread is None
    assert both.update_thread is not None
    state = both.state()
    for name, value in one.state().items():
        np.testing.assert_array_equal(value, state[name], err_msg=name)
    read = [each.train(each.stage(batch(8, 9))).read() for each in (one, both)]
    assert read[0].keys() == read[1].keys()
    assert read[0] == pytest.approx(read[1], rel=1e-6)
    assert both.traces == {"features": 1, "update": 1, "update beside": 1}
    both.close()


@pytest.mark.slow
def test_two_networks_on_two_devices_are_trained_by_xla_and_validated():
    """XLA compiles for one device; a validation reads the variables of both."""
    batches = [batch(8, seed) for seed in range(2)]
    plainly, compiled = (run("split", batches, two(), xla=xla) for xla in (False, True))
    found, expected = (each.evaluate(batch(8, 9)) for each in (compiled, plainly))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, err_msg=name)
    for each in (plainly, compiled):
        each.close()


def test_a_second_network_on_the_model_device_learns_the_same_in_turn_and_is_timed():
    """Bit for bit; its time is known without a device of its own."""
    batches = [batch(8, seed) for seed in range(6)]
    one, in_turn = run("single", batches, two()), run("split", [], two(), vocoder_on="model")
    assert in_turn.update_thread is None
    first = in_turn.train(in_turn.stage(batches[0])).read()
    assert {"first/total", "second/total"} <= first.keys()
    for each in batches[1:]:
        in_turn.train(in_turn.stage(each))
    state = in_turn.state()
    for name, value in one.state().items():
        np.testing.assert_array_equal(value, state[name], err_msg=name)
    read = [each.train(each.stage(batch(8, 9))).read() for each in (one, in_turn)]
    assert read[0].keys() == read[1].keys()
    assert read[0] == pytest.approx(read[1], rel=1e-6)
    assert in_turn.traces == {"features": 1, "update": 1, "update beside": 1}
    assert in_turn.timer.beside.count == 6, "of seven steps, but for the traced one"
    assert {variable.value.device[-5:] for variable in in_turn.variables} == {"CPU:1"}


class StillInTurns(InTurns):
    """With SGD, so that runs differ by no more than rounding."""

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.SGD(0.05)


def in_turns() -> StillInTurns:
    keras.utils.set_random_seed(0)
    return StillInTurns(config(), ("",))


@pytest.mark.slow
def test_a_network_that_is_updated_in_turns_learns_what_it_learns_by_hand_on_any_devices():
    batches = [batch(16, seed) for seed in range(3)]
    trainable = in_turns()
    model, seen = trainable.build(), 0
    first, judge, second = trainable.updates(model)
    untouched = [each.numpy() for each in judge.variables]
    for number, raw in enumerate(batches):
        made = trainable.features({name: tf.constant(value) for name, value in raw.items()})
        turns = trainable.turns(number)
        parts = [trainable.of_turn(made, turn) for turn in range(turns.count)]
        seen += len(parts)
        for update, part in [(first, made), *((each, part) for part in parts for each in (judge, second))]:
            losses = update.losses_in(turns.kind)
            if losses is None:
                continue
            with tf.GradientTape() as tape:
                total = tf.reduce_mean(losses(part)["total"])
            found = tape.gradient(total, [each.value for each in update.variables])
            gradients = [tf.convert_to_tensor(each) for each in found]
            keras.optimizers.SGD(0.05).apply(gradients, update.variables)
    assert seen == 3 + 3 + 1
    assert any((each.numpy() != before).any() for each, before in zip(judge.variables, untouched, strict=True))
    one = run("single", batches, in_turns(), clip_norm=1e9)
    assert_close(one.model, model)
    assert int(one.state()["optimizer/second/0000_iteration"]) == 7
    assert int(one.state()["optimizer/judge/0000_iteration"]) == 1
    assert one.traces == {"features": 1, "update": 1, "update beside early": 1, "update beside late": 1}
    for place in ("data", "model"):
        split = run("split", batches, in_turns(), clip_norm=1e9, vocoder_on=place)
        state = split.state()
        for name, value in one.state().items():
            np.testing.assert_array_equal(value, state[name], err_msg=f"{place}: {name}")
        split.close()
    assert_close(run("mirrored", batches, in_turns(), clip_norm=1e9).model, model)
    assert_close(run("single", batches, in_turns(), clip_norm=1e9, grad_accum=4).model, model)


@pytest.mark.parametrize("strategy", ["single", "split", pytest.param("mirrored", marks=pytest.mark.slow)])
def test_what_takes_no_part_is_neither_traced_nor_changed_nor_reported(strategy):
    class Refusing(StillInTurns):
        def updates(self, model: Any) -> Sequence[Update]:
            first, judge, second = super().updates(model)

            def never(_: Batch) -> Batch:
                raise AssertionError("traced")

            return [first, Update("judge", judge.variables, {"late": never}, judge.optimizer), second]

    keras.utils.set_random_seed(0)
    step = run(strategy, [], Refusing(config(), ("",)))
    before = {name: value for name, value in step.state().items() if "judge" in name}
    read = [step.train(step.stage(batch(8, seed)), seed).read() for seed in (0, 1)]
    assert len(before) > 2
    for name, value in before.items():
        np.testing.assert_array_equal(step.state()[name], value, err_msg=name)
    assert [name for name in read[-1] if "judge" in name or "late" in name] == []
    step.close()


def test_what_is_compiled_on_the_data_device_is_of_the_step_that_needs_it_first():
    """Each kind of turns; the steps after it are timed without."""
    step = run("split", [batch(8)], in_turns())
    for number in (0, 1, 2):
        staged = step.stage(batch(8))
        step.settle()
        traces = step.traces.total()
        losses = step.train(staged, number)
        assert (step.traces.total() > traces) == (number == 2)
        assert losses.beside is not None
        if number == 2:
            assert losses.beside.done()
    step.close()


@pytest.mark.slow
@pytest.mark.parametrize("training", [{"ema": 0.9, "grad_accum": 2}, {"precision": "float16"}], ids=str)
def test_turns_in_one_function_are_the_turns_one_by_one_bit_for_bit(training, monkeypatch):
    def one_each(updaters: Any, given: Batch, count: int, turns: int, part: Any) -> tf.Tensor:
        return [in_turn(updaters, part(given, tf.constant(turn, tf.int64)), count) for turn in range(turns)][-1]

    batches = [batch(16, seed) for seed in range(3)]
    together, losses = run("single", batches[:1], in_turns(), **training), []
    monkeypatch.setattr("voxyard.trainer.step.in_turns", one_each)
    apart = run("single", batches[:1], in_turns(), **training)
    for number, raw in enumerate(batches[1:], 1):
        losses = [each.train(each.stage(raw), number).read() for each in (together, apart)]
        assert losses[0] == losses[1]
    for name, value in together.state().items():
        np.testing.assert_array_equal(value, apart.state()[name], err_msg=name)


@pytest.mark.skipif(tf.__version__.startswith("2.17."), reason="its compiler for CPUs notes no counts of turns")
@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_xla_is_told_the_number_of_turns(count):
    """And of the parts of a batch. Else a GPU asks the host in each whether to go on."""
    step = run("single", [], in_turns())
    second, part = step._beside[1].of_kind("early"), in_turns().of_turn
    features = step.features_of(batch(8))
    assert second is not None

    @tf.function(jit_compile=True, autograph=False)
    def trained(words: tf.Tensor) -> tf.Tensor:
        return made_in_turns([second], features.layout.unpack(words), count, 3, part)

    text = trained.experimental_get_compiler_ir(features.words)(stage="optimized_hlo")
    loops = [line for line in text.splitlines() if " while(" in line]
    assert loops
    assert [line for line in loops if "known_trip_count" not in line] == []
    assert " conditional(" not in text


def test_on_devices_that_compute_later_a_second_network_is_timed_where_that_is_asked_for():
    """Between barriers, which would stop the device in every step."""
    later = dataclasses.replace(devices("split"), kind="gpu")
    trainable: Any = two()
    step = TrainStep(trainable, later, config(vocoder_on="model"), most_traces=1)
    counts = []
    for asked in (True, False, False, True, False):
        step.timer.beside_next = step.timer.beside_next or asked
        step.train(step.stage(batch(8)))
        counts.append(step.timer.beside.count)
    assert counts == [0, 1, 1, 2, 2], "a step that is traced says nothing, the next one does"
    assert not step.timer.beside_next


def test_a_place_for_what_a_model_does_not_have_is_refused():
    with pytest.raises(TrainerError, match="--vocoder-on model has no effect: this model names no updates"):
        run("split", [], plain(), vocoder_on="model")


def test_its_variables_and_its_optimizer_lie_on_the_data_device():
    step = run("split", [batch(8)], two())
    assert {variable.value.device[-5:] for variable in step.model.second.variables} == {"CPU:0"}
    assert {variable.value.device[-5:] for variable in step.model.first.variables} == {"CPU:1"}
    by_name = {one.name: {each.value.device[-5:] for each in one.optimizer.variables} for one in step.updaters}
    assert by_name == {"first": {"CPU:1"}, "second": {"CPU:0"}}
    step.close()


def test_what_fails_beside_the_model_device_ends_the_run():
    class Failing(TwoNetworks):
        def updates(self, model: Any) -> Sequence[Update]:
            first, second = super().updates(model)

            def losses(_: Batch) -> Batch:
                raise ValueError("no loss today")

            return [first, Update("second", second.variables, losses, second.optimizer)]

    step = run("split", [], Failing(config(), ("",)))
    losses = step.train(step.stage(batch(8)))
    for ask in (losses.read, step.state, step.settle):
        with pytest.raises(ValueError, match="no loss today"):
            ask()
    step.close()


def test_the_wait_for_the_data_device_is_no_time_of_the_features():
    """Features that wait while a CPU device trains on something else: what the pipeline subtracts, thread by thread."""
    step = run("split", [batch(8)], two())
    step.settle()
    before = step.timer.turn_seconds
    with ThreadPoolExecutor(1) as thread:
        with step._data_turn:
            made = thread.submit(step.features_of, batch(8))
            time.sleep(2.0)  # a busy machine begins late
        made.result()
        assert thread.submit(lambda: step.timer.turn_seconds).result() >= 0.3
    assert step.timer.turn_seconds == before  # another thread's wait, as in a validation, is none of this one's
    step.close()
