"""The update: the same numbers however a batch is cut up, on one device, split or mirrored."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from steps import Quiet, assert_same_weights, batch, config, devices, run
from toy import Loudness

from voxyard.trainer import TrainerError
from voxyard.trainer.step import TrainStep
from voxyard.trainer.trainable import Batch


def test_accumulating_4_times_4_equals_a_batch_of_16():
    """--grad-accum: inside the graph, the mean of the parts."""
    batches = [batch(16, seed) for seed in range(3)]
    assert_same_weights(run("single", batches), run("single", batches, grad_accum=4))


def test_two_replicas_give_the_weights_of_one_device_with_the_doubled_batch():
    """--strategy mirrored; a tight clip proves that it sees the whole gradient."""
    batches = [batch(16, seed) for seed in range(3)]
    for clip in (0.05, 100.0):
        one, two = run("single", batches, clip_norm=clip), run("mirrored", batches, clip_norm=clip)
        assert_same_weights(one, two)


def test_gradients_and_losses_are_reduced_over_the_replicas_once(monkeypatch):
    """One all-reduce a step, of each gradient and of the losses."""
    reduced: list[int] = []
    all_reduce = tf.distribute.ReplicaContext.all_reduce

    def counting(self: Any, operation: Any, value: Any, *options: Any) -> Any:
        if tf.get_static_value(self.replica_id_in_sync_group) == 0:
            reduced.append(len(tf.nest.flatten(value)))
        return all_reduce(self, operation, value, *options)

    monkeypatch.setattr(tf.distribute.ReplicaContext, "all_reduce", counting)
    step = run("mirrored", [batch(16)])
    assert reduced == [len(step.model.trainable_variables) + 1]


def test_each_replica_validates_a_batch_of_its_own():
    """The losses are those of one device, bit by bit; a replica without a batch changes nothing."""
    one, two = run("single", []), run("mirrored", [])
    batches = [batch(8, seed) for seed in range(3)]
    expected = [step_losses["total"] for step_losses in map(one.evaluate, batches)]
    found = [each["total"] for each in [*two.evaluate_each(batches[:2]), two.evaluate(batches[2])]]
    np.testing.assert_array_equal(found, expected)
    assert two.traces["evaluate"] == 2


def test_a_function_for_each_bucket_is_no_retracing(caplog):
    """TensorFlow would warn in the middle of a run's output."""
    tf.distribute.MirroredStrategy._collective_key_base += 1000  # as `run` does
    quiet: Any = Quiet(config(), ("",))
    step = TrainStep(quiet, devices("mirrored"), config(), most_traces=None)
    with caplog.at_level(logging.WARNING):
        for rows in range(1, 7):
            step.evaluate(batch(rows))
    assert step.traces["evaluate"] == 12
    assert not [message for message in caplog.messages if "retracing" in message]


def test_a_mirrored_run_accumulates_too():
    batches = [batch(16, seed) for seed in range(2)]
    rearranged = [
        {
            name: value.reshape(2, 2, 4, *value.shape[1:]).swapaxes(0, 1).reshape(value.shape)
            for name, value in one.items()
        }
        for one in batches
    ]
    assert_same_weights(run("single", batches), run("mirrored", rearranged, grad_accum=2))


def test_split_and_single_give_the_same_weights():
    """The split changes where it is computed, not what."""
    batches = [batch(8, seed) for seed in range(3)]
    one, two = run("single", batches), run("split", batches)
    for a, b in zip(one.model.trainable_variables, two.model.trainable_variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_weights_and_optimizer_lie_on_the_model_device():
    step = run("split", [batch(8)])
    for variable in step.variables:
        assert variable.value.device.endswith("CPU:1"), variable.path


def test_clipping_bounds_the_update():
    """Gradient clipping by the global norm."""
    loud = [batch(8, scale=30000.0)]
    before = run("single", [])
    after = run("single", loud, clip_norm=0.01)
    moved = [a.numpy() - b.numpy() for a, b in zip(after.model.variables, before.model.variables, strict=True)]
    norm = float(np.sqrt(sum(float((part.astype(np.float64) ** 2).sum()) for part in moved)))
    assert norm == pytest.approx(0.05 * 0.01, rel=1e-3)


class Overflowing(Quiet):
    """Its loss is infinite while `flag` is up."""

    def build(self) -> keras.Model:
        self.flag = tf.Variable(0.0, trainable=False)
        return super().build()

    def losses(self, model: keras.Model, batch: Batch, training: bool) -> dict[str, tf.Tensor]:
        losses = super().losses(model, batch, training)
        return {"total": losses["total"] * tf.where(self.flag > 0, np.float32(np.inf), np.float32(1))}


@pytest.mark.parametrize("strategy", ["single", "mirrored"])
def test_an_overflow_in_float16_is_skipped_and_training_recovers(strategy):
    """Loss scaling for float16."""
    trainable = Overflowing(config(), ("",))
    step = run(strategy, [batch(8)], trainable, precision="float16")
    scale, before = (
        float(step.updaters[0].optimizer.dynamic_scale.numpy()),
        [v.numpy() for v in step.model.trainable_variables],
    )
    trainable.flag.assign(1.0)
    step.train(step.stage(batch(8, 1)))
    for old, variable in zip(before, step.model.trainable_variables, strict=True):
        np.testing.assert_array_equal(old, variable.numpy())
    assert float(step.updaters[0].optimizer.dynamic_scale.numpy()) == scale / 2
    trainable.flag.assign(0.0)
    step.train(step.stage(batch(8, 2)))
    assert any((old != v.numpy()).any() for old, v in zip(before, step.model.trainable_variables, strict=True))
    assert all(np.isfinite(v.numpy()).all() for v in step.model.trainable_variables)


def test_a_batch_of_another_shape_is_an_error_when_every_bucket_is_traced():
    """A hard error when the traces grow past the buckets."""
    step = run("single", [batch(8)])
    with pytest.raises(TrainerError, match="static shape of its bucket"):
        step.train(step.stage(batch(9)))


def test_features_that_are_not_as_specified_are_an_error_that_names_the_difference():
    """The batch specification is held against what the features make."""

    class Mistaken(Quiet):
        def batch_spec(self, bucket: Any, batch_size: int) -> dict[str, tf.TensorSpec]:
            return {"tokens": tf.TensorSpec((batch_size, 3), tf.int32), "mel": tf.TensorSpec((1,), tf.float32)}

    with pytest.raises(TrainerError, match=r"tokens: int32 \(8, 12\), specified as int32 \(8, 3\)\n  mel: missing"):
        run("single", [batch(8)], Mistaken(config(), ("",)))


def test_each_shape_is_traced_once():
    """One trace per bucket, counted."""
    step = run("single", [batch(8, seed) for seed in range(5)])
    assert step.traces == {"features": 1, "update": 1}


def test_threads_that_meet_a_shape_at_the_same_time_trace_it_once():
    """The ring's threads stage several batches of a new bucket at once."""
    meeting = threading.Barrier(4)

    class Slow(Quiet):
        def features(self, raw: Any) -> Any:
            time.sleep(0.2)  # while it is traced
            return super().features(raw)

    step = run("single", [], Slow(config(), ("",)))

    def stage(seed: int) -> None:
        meeting.wait()
        step.stage(batch(8, seed))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(stage, range(4)))
    assert step.traces == {"features": 1}


def test_xla_compiles_the_update_and_gives_the_same_numbers(monkeypatch):
    """--xla has an effect: every function is handed to XLA."""
    asked: list[tuple[str, bool | None]] = []
    function = tf.function

    def noting(*arguments: Any, **options: Any) -> Any:
        asked.append((arguments[0].__name__, options.get("jit_compile")))
        return function(*arguments, **options)

    monkeypatch.setattr(tf, "function", noting)
    batches = [batch(8, seed) for seed in range(2)]
    plain, compiled = run("single", batches), run("single", batches, xla=True)
    compiled_functions = [(name, xla) for name, xla in asked if name != "copy"]
    assert compiled_functions == [("features", None), ("update", None), ("features", True), ("update", True)]
    assert_same_weights(plain, compiled, tolerance=1e-5)


def test_state_goes_round():
    """Everything that the next step depends on is in the state."""
    first = run("single", [batch(8, 0), batch(8, 1)], Loudness(config(), ("",)))
    second = run("single", [], Loudness(config(), ("",)))
    second.restore(first.state())
    for step in (first, second):
        step.train(step.stage(batch(8, 2)))
    for name, value in first.state().items():
        np.testing.assert_array_equal(value, second.state()[name], err_msg=name)


def test_runs_of_one_process_that_differ_keep_their_functions_apart() -> None:
    """Compiled code is found again by the names of functions, which are alike in every run."""
    first = run("single", [batch(8)])
    second = run("single", [batch(8)], grad_accum=2, xla=True)
    for step in (second, first):
        step.train(step.stage(batch(8, 1)))
