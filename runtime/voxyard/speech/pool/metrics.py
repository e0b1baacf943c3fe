"""Prometheus metrics of a pool, prefixed with its engine's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from voxyard.speech.placement import RefusalCause
from voxyard.speech.pool.scheduler import PoolStats

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class PoolMetrics:
    """Metrics `voxyard_<engine>_*` of one pool; the label `gpu` is the device's name. Without a registry, nobody's.

    Called from the pool's thread: its methods return at once and do not raise. `device` is a device's name.
    """

    def __init__(self, registry: CollectorRegistry | None = None, *, engine: str = "bark") -> None:
        name, registry = f"voxyard_{engine}", CollectorRegistry() if registry is None else registry
        self._chunks = Counter(f"{name}_chunks_total", "Chunks by outcome.", ["outcome", "gpu"], registry=registry)
        self._failures = Counter(
            f"{name}_chunk_failures_total",
            "Failures of chunks and workers, retried ones included.",
            ["reason", "gpu"],
            registry=registry,
        )
        self._checked = Counter(
            f"{name}_checked_chunks_total", "Spoken chunks that the engine has checked.", ["gpu", "model"],
            registry=registry,
        )  # fmt: skip
        self._faulty = Counter(
            f"{name}_faulty_chunks_total", "Of them, those with a fault after all retries, by the first.",
            ["gpu", "model", "fault"], registry=registry,
        )  # fmt: skip
        self._audio = Counter(f"{name}_audio_seconds_total", "Seconds of audio made.", ["gpu"], registry=registry)
        self._synthesis = Counter(
            f"{name}_synthesis_seconds_total", "Seconds in which a worker had chunks.", ["gpu"], registry=registry
        )
        self._duration = _histogram(
            registry, f"{name}_chunk_duration_seconds", "From sending a chunk to a worker until its audio.", SECONDS
        )
        self._wait = _histogram(registry, f"{name}_queue_wait_seconds", "Wait of a chunk in the queue.", SECONDS)
        self._first = _histogram(
            registry,
            f"{name}_time_to_first_audio_seconds",
            "From a listener's request to the first audible sample, leading silence included.",
            SECONDS,
        )
        self._batch = _histogram(
            registry, f"{name}_batch_size", "Chunks of a worker, observed with each that it gets.", SIZES
        )
        self._depth = Gauge(f"{name}_queue_depth", "Chunks in the queue.", registry=registry)
        self._workers = Gauge(f"{name}_workers", "Workers with their model loaded.", registry=registry)
        self._busy = Gauge(f"{name}_workers_busy", "Workers with chunks.", registry=registry)
        self._expected = Gauge(
            f"{name}_workers_expected", "Workers that the pool can have on the GPUs with enough free memory.",
            registry=registry,
        )  # fmt: skip
        self._released = Gauge(
            f"{name}_workers_released", "Workers that have ended for want of work, until there is some.",
            registry=registry,
        )  # fmt: skip
        self._waiting = Gauge(
            f"{name}_worker_waiting", "1 while a worker waits for its GPU, for this reason.", ["gpu", "reason"],
            registry=registry,
        )  # fmt: skip

    def stats(self, stats: PoolStats) -> None:
        """Counts of workers and chunks, after each change."""
        self._depth.set(stats.waiting)
        self._workers.set(stats.running)
        self._busy.set(stats.busy)
        self._expected.set(stats.expected)
        self._released.set(stats.released)

    def chunk_sent(self, device: str, chunks: int) -> None:
        """A worker got a chunk; with it, it has so many."""
        self._batch.observe(chunks)

    def chunk_waited(self, seconds: float) -> None:
        """A chunk was in the queue for so long before its worker got it."""
        self._wait.observe(seconds)

    def chunk_spoken(self, device: str, audio_seconds: float, seconds: float) -> None:
        """A chunk is done: seconds of audio, and seconds since its worker got it."""
        self._chunks.labels("spoken", device).inc()
        self._audio.labels(device).inc(audio_seconds)
        self._duration.observe(seconds)

    def chunk_checked(self, device: str, model: str, faults: Sequence[str]) -> None:
        """A spoken chunk was checked by its engine, which found these faults after its own retries."""
        self._checked.labels(device, model).inc()
        if faults:
            self._faulty.labels(device, model, faults[0].replace(" ", "_")).inc()

    def worked(self, device: str, seconds: float) -> None:
        """A worker has had chunks for so long, since the last call."""
        self._synthesis.labels(device).inc(seconds)

    def failure(self, device: str, cause: str) -> None:
        """A batch failed or a worker ended; its chunks may still be spoken."""
        self._failures.labels(cause.replace(" ", "_"), device).inc()

    def device_waits(self, device: str, cause: RefusalCause | None) -> None:
        """Sets the cause for which a GPU's worker waits; None where it may start."""
        for each in get_args(RefusalCause):
            self._waiting.labels(device, each).set(each == cause)

    def chunk_failed(self, cause: str, *, silence: bool) -> None:
        """A chunk failed on every worker it was given to, so no one GPU is named.

        One that was refused is the request's fault, and counts apart: alerts are on those that failed or were silenced.
        """
        outcome = "refused" if cause == "refused" else "silenced" if silence else "failed"
        self._chunks.labels(outcome, "").inc()

    def first_audio(self, seconds: float) -> None:
        """A listener has the first audible sample of a job so long after the request."""
        self._first.observe(seconds)


def _histogram(registry: CollectorRegistry, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
    return Histogram(name, text, registry=registry, buckets=buckets)
