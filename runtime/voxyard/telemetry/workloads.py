"""Metrics of the workloads on a host: what a training run does, and which GPUs a workload holds."""

from __future__ import annotations

import threading
import time
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from voxyard.host.nvml import Gpu
from voxyard.telemetry.configuration import export_configuration
from voxyard.telemetry.input_metrics import InputMetrics

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


STEP_BUCKETS = (
    0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3.5, 5, 10, 20, 60,
)  # fmt: skip
WAIT_BUCKETS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
CHECKPOINT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

UTILIZATION_TARGETS = {"data": 0.40, "model": 0.70, "bark": 0.50}
"""Least utilization that a role's GPU should reach: the least of a report's targets; Bark's holds with a queue."""

WORKLOAD = "trainer"
_MIB = 1024 * 1024


class WorkloadGpus:
    """GPUs that a workload of this process holds, in which role, and what is expected of them."""

    def __init__(
        self, registry: CollectorRegistry, workload: str, targets: Mapping[str, float] = UTILIZATION_TARGETS
    ) -> None:
        """`targets` is the least utilization of a GPU by role, 0…1."""
        export_configuration(registry, workload)
        self._workload, self._targets = workload, targets
        self._held: list[tuple[str, str, str, str]] = []
        self._assigned = _workload(registry, "workload_gpu_assigned", "1 while a workload holds this GPU in this role.")
        self._target = _workload(
            registry,
            "workload_gpu_utilization_target_ratio",
            "Least utilization that this role's GPU should reach.",
        )
        self._limit = _workload(registry, "workload_gpu_memory_limit_bytes", "Allocator limit in force on this GPU.")

    def assign(self, role: str, gpu: Gpu, limit_mib: int | None = None, *, alone: bool = True) -> None:
        """The workload holds this GPU from here on, with an allocator limit or without one.

        Nothing is expected of a role that is not `alone` on its GPU: its part of the utilization is not known.
        """
        labels = (self._workload, role, gpu.number, gpu.uuid)
        self._held.append(labels)
        self._assigned.labels(*labels).set(1)
        if alone:
            self._target.labels(*labels).set(self._targets[role])
        if limit_mib is not None:
            self._limit.labels(*labels).set(limit_mib * _MIB)

    def release(self, gpu: Gpu | None = None) -> None:
        """The workload holds this GPU no more, or none at all."""
        for labels in self._held:
            if gpu is None or labels[3] == gpu.uuid:
                self._assigned.labels(*labels).set(0)


class TrainMetrics:
    """The metrics of one training run, in a registry of their own.

    A value that is not known (yet) has no series: never a zero that nobody measured.
    """

    def __init__(
        self,
        run: str,
        *,
        cards: Sequence[tuple[str, Gpu]] = (),
        limits: Mapping[str, int | None] = MappingProxyType({}),
        ring_slots: int | None = None,
        registry: CollectorRegistry | None = None,
        utilization_target: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cards` are the run's GPUs with their roles, `limits` the allocator's in MiB by role, None without one.

        `clock` gives seconds; `utilization_target` is the run's own for its model GPU, 0…1.
        """
        self.registry = CollectorRegistry() if registry is None else registry
        self._run = run
        self._make_run_metrics()
        self._phases = Phases(self.registry, run, clock)
        own = {} if utilization_target is None else {"model": utilization_target}
        self._gpus = WorkloadGpus(self.registry, WORKLOAD, {**UTILIZATION_TARGETS, **own})
        self.input = InputMetrics(self.registry, run, clock)
        if ring_slots is not None:
            self._ring_slots.labels(run).set(ring_slots)
        count = Counts(gpu.uuid for _, gpu in cards)
        for role, gpu in cards:
            self._gpus.assign(role, gpu, limits.get(role), alone=count[gpu.uuid] == 1)
        # Called on every step: their series are looked up once.
        self._on_step = (
            self._steps.labels(run),
            self._samples.labels(run),
            self._duration.labels(run),
            self._wait.labels(run),
        )
        self._traces = self._traced.labels(run)
        self._shapes: dict[str, tuple[Counter, Counter]] = {}

    def hosts(self, index: int, count: int) -> None:
        """The run trains over `count` hosts, of which this is number `index`, from 0."""
        self._host_index.labels(self._run).set(index)
        self._hosts.labels(self._run).set(count)

    def start(self) -> None:
        """The run is active from here on, and warms up until its first step has ended."""
        self._active.labels(self._run).set(1)
        self._in_order.labels(self._run).set(0)
        self._started.labels(self._run).set(time.time())
        self._phases.enter("warm_up")

    def pretrained(self, loaded: bool) -> None:
        """The run began with the weights of a checkpoint (it goes on from one, or fine-tunes), or with new ones."""
        self._pretrained.labels(self._run).set(loaded)

    def finish(self, *, in_order: bool = True) -> None:
        """The run has ended: it is no longer active, in its last phase, and holds no GPU.

        `in_order` where it came to its end or was stopped, not where it failed.
        """
        self._active.labels(self._run).set(0)
        self._in_order.labels(self._run).set(in_order)
        self._phases.enter("end")
        self._gpus.release()

    def step(self, duration: float, wait: float, samples: int, ring_depth: int) -> None:
        """One step: its duration and its wait for data in seconds, its clips, the filled slots after it."""
        steps, clips, durations, waits = self._on_step
        steps.inc()
        clips.inc(samples)
        durations.observe(duration)
        waits.observe(wait)
        self._phases.step()
        self._ring_depth.labels(self._run).set(ring_depth)
        self._last_step.labels(self._run).set(time.time())

    def computed(self, shape: str, seconds: float, *, traced: bool) -> None:
        """A step on a batch of this shape was computed in so many seconds, its wait for data left out.

        `traced`: a function was traced (compiled) for it. The first such step of a shape is counted as that alone.
        """
        if traced:
            self._traces.inc()
        series = self._shapes.get(shape)
        if series is None:
            labels = (self._run, shape)
            series = self._shapes[shape] = (self._shape_steps.labels(*labels), self._shape_seconds.labels(*labels))
            if traced:
                return
        steps, spent = series
        steps.inc()
        spent.inc(seconds)

    def during(self, phase: Phase) -> AbstractContextManager[None]:
        """The run is in this phase within the context, and then again in the one before."""
        return self._phases.during(phase)

    def phase_seconds(self) -> dict[str, float]:
        """Seconds spent in each phase up to now."""
        return self._phases.seconds()

    def progress(self) -> None:
        """A part of a phase was done that is no training step, such as a batch of the validation."""
        self._phases.progress()

    def variation(self, ratio: float, within_buckets: float) -> None:
        """Standard deviation ÷ mean of the last 200 steps' durations; the same within their length buckets."""
        self._variation.labels(self._run).set(ratio)
        self._within.labels(self._run).set(within_buckets)

    def losses(self, losses: Mapping[str, float]) -> None:
        """The losses of a training step by component; NaN and infinity are exported, for an alert on them."""
        for component, value in losses.items():
            self._loss.labels(self._run, component).set(value)

    def validation(self, losses: Mapping[str, float]) -> None:
        """The mean losses over the validation clips by component."""
        for component, value in losses.items():
            self._validation_loss.labels(self._run, component).set(value)

    def learning_rate(self, rate: float) -> None:
        """The learning rate of the latest step."""
        self._learning_rate.labels(self._run).set(rate)

    def epoch(self, number: int) -> None:
        """The pass over the corpus, from 0."""
        self._epoch.labels(self._run).set(number)

    def checkpoint(self, seconds: float) -> None:
        """A checkpoint was on the disk so many seconds after its step; most of them beside the training."""
        self._checkpoint.labels(self._run).observe(seconds)

    def _make_run_metrics(self) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"voxyard_train_{name}", text, ["run", *labels], registry=self.registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"voxyard_train_{name}", text, ["run", *labels], registry=self.registry)

        def histogram(name: str, text: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(f"voxyard_train_{name}", text, ["run"], registry=self.registry, buckets=buckets)

        self._active = gauge("active", "1 while the run trains, 0 when it has ended.")
        self._started = gauge("start_timestamp_seconds", "Unix time at which the run began to train.")
        self._in_order = gauge(
            "ended_in_order", "1 when the run has ended as it should or was stopped, 0 before and else."
        )
        self._pretrained = gauge(
            "pretrained", "1 where the run began with weights of a checkpoint, 0 where with new ones."
        )
        self._variation = gauge(
            "step_time_variation_ratio", "Standard deviation ÷ mean of the last 200 steps' durations."
        )
        self._within = gauge(
            "step_time_variation_within_buckets_ratio",
            "The same with each step relative to the mean of its length bucket: what lengths do not explain.",
        )
        self._steps = counter("steps_total", "Optimizer updates since the process started.")
        self._samples = counter("samples_total", "Clips trained on since the process started.")
        self._traced = counter("traced_steps_total", "Steps for which a function was traced (compiled).")
        self._shape_steps = counter(
            "shape_steps_total",
            "Steps by the shape of their batch (clips x frames), the first of a shape left out where it was compiled.",
            "shape",
        )
        self._shape_seconds = counter(
            "shape_seconds_total", "Seconds of these steps, without their waits for data.", "shape"
        )
        self._duration = histogram(
            "step_duration_seconds", "A step's duration, its wait for data included.", STEP_BUCKETS
        )
        self._wait = histogram("data_wait_seconds", "A step's wait for data in the ring.", WAIT_BUCKETS)
        self._checkpoint = histogram(
            "checkpoint_duration_seconds", "Time from the step of a checkpoint to the disk, beside the training.",
            CHECKPOINT_BUCKETS,
        )  # fmt: skip
        self._ring_depth = gauge("ring_depth", "Batches that wait in the ring after a step.")
        self._ring_slots = gauge("ring_slots", "Batches that the ring can hold.")
        self._loss = gauge("loss", "Training loss, mean over the clips of a step.", "component")
        self._validation_loss = gauge("validation_loss", "Loss, mean over the validation clips.", "component")
        self._learning_rate = gauge("learning_rate", "Learning rate of the latest step.")
        self._epoch = gauge("epoch", "Pass over the corpus, from 0.")
        self._hosts = gauge("hosts", "Hosts that a run over hosts trains on.")
        self._host_index = gauge("host_index", "Place of this host in a run over hosts, from 0.")
        self._last_step = gauge("last_step_timestamp_seconds", "Unix time at which the latest step ended.")


def _workload(registry: CollectorRegistry, name: str, text: str) -> Gauge:
    return Gauge(f"voxyard_{name}", text, ["workload", "role", "gpu", "uuid"], registry=registry)
