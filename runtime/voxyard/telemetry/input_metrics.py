"""Metrics of a run's input: the times of reading threads and of the data stage, which tell why a step waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from voxyard.host.cores import queued_seconds, quota_periods, usable_cores

Part = Literal["features", "transfer", "both"]


class InputMetrics:
    """Input of one run. Threads of the run call it beside each other; each call is once a batch."""

    def __init__(self, registry: CollectorRegistry, run: str, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock` gives the seconds of reads."""

        def counter(name: str, text: str) -> Counter:
            return Counter(f"voxyard_train_{name}", text, ["run"], registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"voxyard_train_{name}", text, ["run"], registry=registry)

        self._run = run
        self._read = counter("read_seconds_total", "Seconds of all reading threads in which they made batches.")
        self._read_cpu = counter("read_cpu_seconds_total", "Of them, seconds in which the threads computed.")
        self._read_queue = counter(
            "read_queue_seconds_total", "Of them, seconds in which a thread could have computed and had no core."
        )
        self._validating = counter(
            "validation_read_seconds_total", "Seconds in which validations read their clips, in the run's own thread."
        )
        self._validating_cpu = counter(
            "validation_read_cpu_seconds_total", "Of them, seconds in which the thread computed."
        )
        self._waited = counter("read_wait_seconds_total", "Seconds in which the data stage waited for a batch.")
        self._looks = counter("lock_looks_total", "Times at which it was looked who holds the interpreter's lock.")
        self._held = counter("lock_held_total", "Of them, those at which another thread held it.")
        self._beside = counter("second_network_seconds_total", "Seconds of the data GPU's updates of a second network.")
        self._threads = gauge("read_threads", "Threads that read clips and make batches.")
        self._cores = gauge("cores", "Processor cores that the run may use now.")
        self._in_flight = gauge("reads_in_flight", "Batches that reading threads make now.")
        self._oldest = gauge(
            "read_oldest_seconds", "Seconds since the oldest of them was begun, 0 where there is none."
        )
        self._clock = clock
        self._begun: dict[object, float] = {}  # reads that have not ended, by a mark of each
        registry.register(_Quota(run))
        self._stage = Counter(
            "voxyard_train_data_stage_seconds_total",
            "Seconds of the data stage on the batches on which it was timed: features, their copy, or both in one.",
            ["run", "part"],
            registry=registry,
        )
        self._staged = Counter(
            "voxyard_train_data_stage_batches_total",
            "Batches on which the data stage was timed.",
            ["run", "part"],
            registry=registry,
        )

    def sizes(self, *, threads: int, cores: Callable[[], float] = usable_cores) -> None:
        """Reading threads of the run; the cores that it may use are asked for whenever somebody looks."""
        self.threads(threads)
        self._cores.labels(self._run).set_function(cores)
        self._in_flight.labels(self._run).set_function(lambda: len(self._begun))
        self._oldest.labels(self._run).set_function(self._age_of_oldest)

    def threads(self, count: int) -> None:
        """Reading threads from now on."""
        self._threads.labels(self._run).set(count)

    @contextmanager
    def reading_held_out(self) -> Iterator[None]:
        """A validation makes a batch in the context."""
        mark, begin, computed = object(), self._clock(), time.thread_time()
        self._begun[mark] = begin
        try:
            yield
        finally:
            del self._begun[mark]
        self.read_held_out(self._clock() - begin, time.thread_time() - computed)

    def read_held_out(self, seconds: float, computed: float) -> None:
        """A validation made a batch in so many seconds, in `computed` of which it did not wait."""
        self._validating.labels(self._run).inc(seconds)
        self._validating_cpu.labels(self._run).inc(computed)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A thread makes a batch in the context: what never ends is seen, too."""
        mark, begin, computed, queued = object(), self._clock(), time.thread_time(), queued_seconds()
        self._begun[mark] = begin
        try:
            yield
        finally:
            del self._begun[mark]
        after = queued_seconds()
        waited = None if queued is None or after is None else after - queued
        self.read(self._clock() - begin, time.thread_time() - computed, waited)

    def read(self, seconds: float, computed: float, queued: float | None = None) -> None:
        """A thread made a batch in so many seconds, in `computed` of which it did not wait for a disk or a core.

        In `queued` of them it waited for a core; None where the kernel does not tell.
        """
        self._read.labels(self._run).inc(seconds)
        self._read_cpu.labels(self._run).inc(computed)
        if queued is not None:
            self._read_queue.labels(self._run).inc(queued)

    def looked(self, held: bool) -> None:
        """It was looked who holds the interpreter's lock: another thread, or none."""
        self._looks.labels(self._run).inc()
        self._held.labels(self._run).inc(held)

    def waited(self, seconds: float) -> None:
        """The data stage waited so many seconds for a batch from the reading threads."""
        self._waited.labels(self._run).inc(seconds)

    def trained_beside(self, seconds: float) -> None:
        """The data GPU updated a second network for a step in so many seconds."""
        self._beside.labels(self._run).inc(seconds)

    def staged(self, part: Part, seconds: float) -> None:
        """A part of the data stage of one batch took so many seconds."""
        self._stage.labels(self._run, part).inc(seconds)
        self._staged.labels(self._run, part).inc()

    def _age_of_oldest(self) -> float:
        return max((self._clock() - begin for begin in list(self._begun.values())), default=0.0)


class _Quota(Collector):
    """Periods of the quota of cores that holds for this process, asked for at every scrape; no series without one."""

    def __init__(self, run: str) -> None:
        self._run = run

    def collect(self) -> Iterator[Metric]:
        found = quota_periods()
        for name, text, index in (
            ("periods", "Periods of the quota of cores that holds for the run.", 0),
            ("throttled_periods", "Of them, those in which the run had used up its quota.", 1),
        ):
            family = CounterMetricFamily(f"voxyard_train_cpu_{name}", text, labels=["run"])
            if found is not None:
                family.add_metric([self._run], found[index])
            yield family
