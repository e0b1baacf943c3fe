"""The loop on devices that compute after the call has returned, as GPUs do: it never lets them wait for the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from async_device import AsyncStep, Open, PendingLosses

from voxyard.corpus.cold import ColdSource
from voxyard.diagnose.profile.measure import StageBenchmark
from voxyard.trainer import (
    TrainerError,
    loop,
    pipeline,
)
from voxyard.trainer.prefetch import Prefetch
from voxyard.trainer.step import TrainStep
from voxyard.trainer.steps.in_flight import StepsInFlight


def trained(run: loop.Run, steps: int) -> AsyncStep:
    """The step after so many steps of the pipeline, the first ones (which trace) not counted."""
    step = run.step
    assert isinstance(step, AsyncStep)
    with run.pipeline(0, None) as batches, StepsInFlight(asynchronous=step.asynchronous) as in_flight:
        for number in range(3 + steps):
            if number == 3:
                step.model_stream.ran_dry = 0
            assert run.launch(in_flight, batches) is not None
            list(in_flight.ended())
        list(in_flight.drain())
    return step


def once(measured: Callable[[], bool]) -> bool:
    """A busy machine disturbs some measurements, three in a row were seen; a fault all of them."""
    return any(measured() for _ in range(10))


def test_copies_that_wait_for_the_step_in_progress_do_not_drain_the_ring(opened):
    """Each copy waits for the steps handed over before it; while one does, the next batch is made and copied."""
    assert once(lambda: trained(opened(), 20).model_stream.ran_dry <= 3)


def test_with_one_thread_the_same_copies_drain_the_ring(opened, monkeypatch):
    """The check of the check: a producer that waits for its copy makes a batch in two steps."""

    def of_one_thread(items: Any, make: Any, *, threads: int, lends: bool = False, **options: Any) -> Any:
        return Prefetch(items, make, threads=1 if lends else threads, lends=lends, **options)

    monkeypatch.setattr(pipeline, "Prefetch", of_one_thread)
    assert trained(opened(), 20).model_stream.ran_dry >= 7


def test_losses_are_read_and_the_device_waits_only_where_something_is_saved(opened):
    """40 steps, a loss of each of them read: the device runs dry at the start, at each save and at a calibration."""

    def measured() -> bool:
        run = opened(every=10, max_steps=40)
        assert run.execute().last_step == 40
        return run.step.model_stream.ran_dry <= 1 + 3 + 2 + 3

    assert once(measured)


def test_reading_the_newest_loss_makes_the_device_wait_at_every_step(opened):
    """The check of the check: `numpy()` of a tensor waits for all that its device was given."""

    class Draining(AsyncStep):
        def train(self, staged: Any, step: int = 0) -> Any:
            losses = super().train(staged, step)
            losses.read()
            return losses

    assert trained(opened(step=Draining), 20).model_stream.ran_dry >= 19


def test_a_broken_loss_is_seen_before_it_is_saved(opened, tmp_path):
    class Broken(AsyncStep):
        made = 0

        def train(self, staged: Any, step: int = 0) -> Any:
            losses = super().train(staged, step)
            self.made += 1
            assert isinstance(losses, PendingLosses)
            if self.made < 5:
                return losses
            return PendingLosses(losses.names, losses.values * float("nan"), computed=losses.computed)

    run = opened(step=Broken, every=5, log_every=1000, max_steps=40)
    with pytest.raises(TrainerError, match="not finite at step 5"):
        run.execute()
    assert not list((tmp_path / "run").glob("step-*"))


class Slower(AsyncStep):
    """So slow that what the host itself computes is little beside it."""

    features_seconds, copy_seconds, train_seconds = 0.2, 0.01, 0.5


def is_near(found: float | None, expected: float) -> bool:
    """Not less, and on a busy machine not much more. What waits for the other device is 2.5 times as long and more."""
    return found is not None and 0.95 * expected < found < 1.7 * expected


def mean(seconds: Sequence[float]) -> float:
    return sum(seconds) / len(seconds)


def test_a_run_reports_the_times_of_its_stages(opened):
    """D is the data stage's own time, not its wait for the model device; M is a step's, not its launch."""

    def measured() -> bool:
        report = opened(step=Slower, max_steps=12).execute()
        assert report.data_stage_source.endswith("alone between barriers")
        alone = Slower.features_seconds + Slower.copy_seconds
        return is_near(report.data_stage_seconds, alone) and is_near(report.train_stage_seconds, Slower.train_seconds)

    assert once(measured)


def test_a_profile_measures_the_same_times(opened):
    """Stages alone, and the spans of the overlapped run."""

    def measured() -> bool:
        run = opened(step=Slower)
        source = run.corpora.training
        assert isinstance(source, ColdSource)
        benchmark = StageBenchmark(run, 5, source)
        benchmark.warm_up()
        stages = {stage: mean(seconds) for stage, seconds in benchmark.stages().items()}
        recorded = benchmark.overlapped().recorded
        return (
            is_near(stages["features"], Slower.features_seconds)
            and stages["transfer"] < 0.5 * Slower.features_seconds
            and is_near(stages["train"], Slower.train_seconds)
            and is_near(mean([step.seconds for step in recorded.steps[3:]]), Slower.train_seconds)
            and is_near(mean([end - begin for begin, end in recorded.data[3:]]), Slower.features_seconds)
        )

    assert once(measured)


def test_on_a_cpu_the_sample_agrees_with_the_times_of_every_batch(opened):
    """A CPU has computed a batch when the call returns: each is timed, and the barriers find the same."""

    class Synchronous(Slower):
        train_seconds = 0.3

        @property
        def asynchronous(self) -> bool:
            return False

        def features_of(self, arrays: Any, device: str | None = None) -> Any:
            made = super().features_of(arrays, device)
            self.wait_for(made)
            return made

        def transfer(self, made: Any) -> Any:
            return TrainStep.transfer(self, made)

        def train(self, staged: Any, step: int = 0) -> Any:
            losses = super().train(staged, step)
            losses.read()
            return losses

    def measured() -> bool:
        run = opened(step=Synchronous, max_steps=14)
        every = run.execute().data_stage_seconds
        arrays = run.assemble(next(run.sampler.batches(0, 1))).arrays
        alone = mean([run.step.seconds_alone(lambda: run.step.stage(arrays)) for _ in range(4)])
        return every == pytest.approx(alone, rel=0.5)

    assert once(measured)


@pytest.mark.parametrize(
    ("features", "train", "said"), [(0.001, 0.5, 1), (0.06, 0.06, 0)], ids=["little to do", "as much to do"]
)
def test_a_split_that_cannot_gain_says_so_once(opened, caplog, features, train, said):
    """After the first twenty steps."""

    class Devices(AsyncStep):
        features_seconds, copy_seconds, train_seconds = features, 0.0005, train

    def is_said() -> bool:
        caplog.clear()
        with caplog.at_level("WARNING", "voxyard.trainer"):
            opened(step=Devices, max_steps=24).execute()
        return sum("This split can gain at most" in line for line in caplog.messages) == said

    assert once(is_said)


def test_the_gpu_watch_is_told_of_the_steps_alone(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracing, compiling and saving are no use of a device."""
    run = opened(max_steps=6, every=3)
    told: list[tuple[float, float]] = []
    saved: list[tuple[float, float]] = []
    monkeypatch.setattr(run._watch, "trained", lambda begin, end: told.append((begin, end)))
    save = run._save

    def timed(step: int, **how: Any) -> None:
        begin = time.perf_counter()
        save(step, **how)
        saved.append((begin, time.perf_counter()))

    monkeypatch.setattr(run, "_save", timed)
    run.execute()
    assert len(told) == run.clock.steps < 6, "the first step was traced"
    assert saved
    assert not [(step, one) for step in told for one in saved if step[0] < one[1] and one[0] < step[1]]
