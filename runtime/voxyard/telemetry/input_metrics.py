"""Metrics of a run's input: the times of reading threads and of the data stage, which tell why a step waits."""

from __future__ import annotations

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge

Part = Literal["features", "transfer", "both"]


class InputMetrics:
    """Input of one run. Threads of the run call it beside each other; each call is once a batch."""

    def __init__(self, registry: CollectorRegistry, run: str) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(f"voxyard_train_{name}", text, ["run"], registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"voxyard_train_{name}", text, ["run"], registry=registry)

        self._run = run
        self._read = counter("read_seconds_total", "Seconds of all reading threads in which they made batches.")
        self._read_cpu = counter("read_cpu_seconds_total", "Of them, seconds in which the threads computed.")
        self._waited = counter("read_wait_seconds_total", "Seconds in which the data stage waited for a batch.")
        self._looks = counter("lock_looks_total", "Times at which it was looked who holds the interpreter's lock.")
        self._held = counter("lock_held_total", "Of them, those at which another thread held it.")
        self._threads = gauge("read_threads", "Threads that read clips and make batches.")
        self._cores = gauge("cores", "Processor cores that the run may use.")
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

    def sizes(self, *, threads: int, cores: float) -> None:
        """Reading threads of the run, and cores that it may use."""
        self._threads.labels(self._run).set(threads)
        self._cores.labels(self._run).set(cores)

    def read(self, seconds: float, computed: float) -> None:
        """A thread made a batch in so many seconds, in `computed` of which it did not wait for a disk or a core."""
        self._read.labels(self._run).inc(seconds)
        self._read_cpu.labels(self._run).inc(computed)

    def looked(self, held: bool) -> None:
        """It was looked who holds the interpreter's lock: another thread, or none."""
        self._looks.labels(self._run).inc()
        self._held.labels(self._run).inc(held)

    def waited(self, seconds: float) -> None:
        """The data stage waited so many seconds for a batch from the reading threads."""
        self._waited.labels(self._run).inc(seconds)

    def staged(self, part: Part, seconds: float) -> None:
        """A part of the data stage of one batch took so many seconds."""
        self._stage.labels(self._run, part).inc(seconds)
        self._staged.labels(self._run, part).inc()
