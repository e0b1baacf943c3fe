"""Phases of a training run: which one it is in, seconds spent in each, and a counter of progress in all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

Phase = Literal["warm_up", "train", "validate", "checkpoint", "sample", "end"]
PHASES: tuple[Phase, ...] = get_args(Phase)


class Phases(Collector):
    """Phases of one run, exported at every scrape up to that moment; the run itself only reports changes.

    One thread of the run changes them, the server's threads read them.
    """

    def __init__(self, registry: CollectorRegistry, run: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._run, self._clock = run, clock
        self._lock = threading.Lock()
        self._seconds: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)
        self._last: dict[Phase, float] = {}  # seconds of the latest that has ended, of those that interrupt
        self._progress = 0
        self._now: Phase | None = None
        self._since = 0.0
        registry.register(self)

    def enter(self, phase: Phase | None) -> None:
        """The run is in this phase from here on; in none before it begins."""
        with self._lock:
            now = self._clock()
            if self._now is not None:
                self._seconds[self._now] += now - self._since
            self._now, self._since = phase, now

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """A phase that interrupts the one before; its end counts as progress, also after an error."""
        before = self._now
        self.enter(phase)
        begin = self._since
        try:
            yield
        finally:
            self.progress()
            self.enter(before)
            self._last[phase] = self._since - begin

    def progress(self) -> None:
        """Something was done: a step, a batch of the validation, a checkpoint, a sample."""
        self._progress += 1

    def step(self) -> None:
        """A training step was made: progress, and the first one ends the warm-up."""
        self._progress += 1
        if self._now == "warm_up":
            self.enter("train")

    def describe(self) -> Iterable[Metric]:
        """The families without values, so that nothing is collected when the registry takes this in."""
        return self._families()

    def seconds(self) -> dict[str, float]:
        """Seconds spent in each phase up to now."""
        with self._lock:
            spent = {str(phase): seconds for phase, seconds in self._seconds.items()}
            if self._now is not None:
                spent[self._now] += self._clock() - self._since
        return spent

    def collect(self) -> Iterable[Metric]:
        """A series a phase, from the run's beginning on."""
        seconds, current, progress = self.seconds(), self._now, self._progress
        age = self._clock() - self._since
        state, spent, done, going, latest = self._families()
        for phase, took in dict(self._last).items():
            latest.add_metric([self._run, phase], took)
        if current is not None:
            going.add_metric([self._run, current], age)
        for phase in PHASES:
            state.add_metric([self._run, phase], float(phase == current))
            spent.add_metric([self._run, phase], seconds[phase])
        done.add_metric([self._run], progress)
        return state, spent, done, going, latest

    @staticmethod
    def _families() -> tuple[
        GaugeMetricFamily, CounterMetricFamily, CounterMetricFamily, GaugeMetricFamily, GaugeMetricFamily
    ]:
        return (
            GaugeMetricFamily("voxyard_train_phase", "1 for the phase that the run is in.", labels=["run", "phase"]),
            CounterMetricFamily(
                "voxyard_train_phase_seconds", "Seconds spent in each phase so far.", labels=["run", "phase"]
            ),
            CounterMetricFamily(
                "voxyard_train_progress",
                "Steps, validation batches, checkpoints and samples since the process started.",
                labels=["run"],
            ),
            GaugeMetricFamily(
                "voxyard_train_phase_age_seconds", "Seconds since the phase began.", labels=["run", "phase"]
            ),
            GaugeMetricFamily(
                "voxyard_train_phase_last_seconds",
                "Seconds of the latest validation, checkpoint or sample that has ended.",
                labels=["run", "phase"],
            ),
        )
