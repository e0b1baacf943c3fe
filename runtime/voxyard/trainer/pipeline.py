"""Pipeline of a run: input → features → ring; starts, warms up and closes them together."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from voxyard.host.interpreter_lock import LockWatch
from voxyard.host.memory import available_bytes
from voxyard.telemetry.input_metrics import InputMetrics
from voxyard.trainer.adaptive_input import AdaptiveInput, InputSize, largest
from voxyard.trainer.config import DataConfig
from voxyard.trainer.input import BatchAssembler, HostBatch, buffer_that_fits
from voxyard.trainer.prefetch import Prefetch
from voxyard.trainer.sampler import BatchPlan
from voxyard.trainer.step import TrainStep

log = logging.getLogger("voxyard.trainer")


@dataclass(frozen=True)
class Staged:
    """A batch in the ring: its plan, and what lies on the model device."""

    plan: BatchPlan
    batch: Any


class Pipeline:
    """Batches on the model device, in the order of their plans. A context: its threads live from `with` to its end."""

    def __init__(
        self,
        step: TrainStep,
        assemble: BatchAssembler,
        plans: Iterator[BatchPlan],
        config: DataConfig,
        *,
        batch_bytes: int,
        metrics: InputMetrics,
    ) -> None:
        """`batch_bytes` is the size of the largest host batch."""
        self._step, self._assemble, self._plans, self._config = step, assemble, plans, config
        self._metrics, step.timer.told = metrics, metrics.staged
        self._buffer = _host_buffer(config.pipeline_buffer_size, batch_bytes)
        self._fits = buffer_that_fits(2 * self._buffer, batch_bytes, available_bytes())
        self._adaptive: AdaptiveInput | None = None

    def __enter__(self) -> Self:
        asked = self._config.num_workers
        workers = min(asked, self._buffer)
        log.info(
            "Reading Threads: %d (--num-workers %d, at most one for each batch of the buffer of %d)",
            workers, asked, self._buffer,
        )  # fmt: skip
        self._size = InputSize(workers, self._buffer)
        if self._config.adapt:
            most = largest(workers, self._buffer, self._fits)
            log.info("Adapting the input to its waits, up to %s (--no-adapt keeps both)", most)
            self._adaptive = AdaptiveInput(self._size, most, log.info)
        self._metrics.sizes(threads=workers)
        self._lock_watch = LockWatch(self._metrics.looked)
        self._lock_watch.start()
        self._loader = Prefetch(self._plans, self._read, threads=workers, most=self._buffer, name="input")
        slots = self._config.prefetch_buffer_size
        threads = slots if self._step.asynchronous else 1
        batches: Iterator[HostBatch] = iter(self._take, None)
        self.ring = Prefetch(batches, self._stage, threads=threads, most=slots, lends=True, name="ring")
        log.info("Smart Prefetching: Enabled")
        devices = self._step.devices
        reads = devices.replicas if devices.strategy == "mirrored" else (devices.data,)
        log.info(
            "Prefetching to %s with buffer_size=%d; %d ring slots on %s",
            _short(reads), self._buffer, self.ring.most, _short(devices.replicas),
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._loader.close()  # first: the ring's thread may be waiting for it
        self.ring.close()
        self._step.timer.forget()
        self._lock_watch.close()

    @property
    def buffer(self) -> tuple[int, int]:
        """Host batches that are ready, and the most that there can be."""
        return self._loader.ready, self._loader.most

    @property
    def full(self) -> bool:
        """Nothing more can be made ready before a batch is taken."""
        return self.ring.full and self._loader.full

    def get(self, interrupted: Callable[[], bool] = lambda: False) -> tuple[Staged | None, float]:
        """See Prefetch.get; with the seconds spent waiting for the batch."""
        begin = time.perf_counter()
        return self.ring.get(interrupted), time.perf_counter() - begin

    def warm_up(self, interrupted: Callable[[], bool] = lambda: False) -> str:
        """Waits until ring and host prefetch are full, at the latest for the delay, at least for one batch.

        Returns which of these it was.
        """
        delay, begin = self._config.model_start_delay, time.perf_counter()
        log.info("Waiting %.1fs for data pipeline to warm up...", delay)
        while not self.full and time.perf_counter() - begin < delay and not interrupted():
            time.sleep(0.005)
        late = not self.ring.first_ready.is_set()
        while not self.ring.first_ready.wait(0.1) and not interrupted():
            pass
        waited, (ready, most) = time.perf_counter() - begin, self.buffer
        filled = f"ring {self.ring.ready}/{self.ring.most}, host buffer {ready}/{most}"
        if late:
            what = f"the first batch was ready after {waited:.2f} s, later than the delay of {delay:g} s ({filled})"
        elif self.full:
            what = f"all buffers were full after {waited:.2f} s ({filled})"
        else:
            what = f"the delay of {delay:g} s was over ({filled})"
        log.info("Model training starting now: %s", what)
        return what

    def _read(self, plan: BatchPlan) -> HostBatch:
        """In a reading thread: a batch in host memory."""
        with self._metrics.reading():
            return self._assemble(plan)

    def _take(self) -> HostBatch | None:
        """In a thread of the ring: the next batch in host memory."""
        begin = time.perf_counter()
        batch = self._loader.get()
        waited = time.perf_counter() - begin
        self._metrics.waited(waited)
        if self._adaptive is not None and (size := self._adaptive.taken(waited)) != self._size:
            self._size = size
            self._loader.resize(threads=size.threads, most=size.buffer)
            self._metrics.threads(size.threads)
        return batch

    def _stage(self, host: HostBatch) -> Staged:
        """In a thread of the ring: a batch, staged on the model device."""
        with self._step.timer.of_data(host):
            return Staged(host.plan, self._step.stage(host.arrays))


def _short(devices: Sequence[str]) -> str:
    return ", ".join(device.replace("/device:", "/") for device in devices)


def _host_buffer(requested: int, batch_bytes: int) -> int:
    available = available_bytes()
    buffer = buffer_that_fits(requested, batch_bytes, available)
    if buffer < requested:
        log.warning(
            "Buffer Size: %d instead of %d: a batch takes %.0f MiB, and a quarter of %.1f GiB is available",
            buffer, requested, batch_bytes / 2**20, available / 2**30,
        )  # fmt: skip
    else:
        log.info("Buffer Size: %d", buffer)
    return buffer
