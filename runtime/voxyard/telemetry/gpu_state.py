"""State of one GPU: whether it answers, how busy it was, and its Xid errors."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace

from voxyard.host.nvml import Gpu
from voxyard.host.readings import Reading, Sample
from voxyard.host.xid_catalog import meaning

log = logging.getLogger("voxyard.telemetry")

SILENT_PASSES = 3
"""Passes in a row that refuse everything until a GPU is down: a single refused pass raises no alert."""

_LAST_SECOND_US = 1_000_000
_NO_SAMPLES_SECONDS = 5.0  # the driver's windows end every 1/6 to 1 s


@dataclass(frozen=True, slots=True)
class Xid:
    """Xid error: its count since the sampler began, and the time of the last one (Unix time)."""

    count: int
    last: float
    monotonic: float  # the same moment, by the clock that never jumps


@dataclass(slots=True)
class UtilizationIntegral:
    """Integrates the utilization of one GPU; `ratio` is its mean over the last second."""

    seconds: float = 0.0
    ratio: float | None = None
    measured: bool = False
    _last_us: int | None = None  # end of the newest sample that was integrated, in the driver's clock
    _last_seen: float | None = None  # when that was, in ours

    def take(self, reading: Reading, now: float) -> None:
        """One pass: its samples, or the driver's own latest window where it reports none."""
        if reading.samples:
            self._integrate(reading.samples)
            newest = reading.samples[-1].time_us
            latest = [each.ratio for each in reading.samples if each.time_us > newest - _LAST_SECOND_US]
            self.ratio = sum(latest) / len(latest)
        elif reading.samples is None or self._last_seen is None or now - self._last_seen > _NO_SAMPLES_SECONDS:
            self.ratio = reading.utilization_ratio
            if self.ratio is not None and self._last_seen is not None:
                self.seconds += self.ratio * (now - self._last_seen)
            self._last_us = None
        else:
            return  # between two samples
        self._last_seen = now
        self.measured = self.ratio is not None

    def interrupt(self) -> None:
        """Interrupts the integral: the time until the next sample is not counted."""
        self._last_us = self._last_seen = self.ratio = None

    def _integrate(self, samples: tuple[Sample, ...]) -> None:
        if self._last_us is None:  # samples from before the first pass
            self._last_us = samples[-1].time_us
        for sample in samples:
            if sample.time_us > self._last_us:
                self.seconds += sample.ratio * (sample.time_us - self._last_us) / 1e6
                self._last_us = sample.time_us


@dataclass(slots=True, eq=False)
class KnownGpu:
    """State of one GPU across sessions: once seen, it counts as down when it is lost."""

    gpu: Gpu
    busy: UtilizationIntegral = field(default_factory=UtilizationIntegral)
    xids: dict[int, Xid] = field(default_factory=dict)
    reading: Reading | None = None  # None: it is down
    silent: int = 0  # passes in a row in which it refused everything

    def identify(self, gpu: Gpu) -> None:
        """Updates its identity; whether it measures anything is another matter."""
        self.gpu = replace(gpu, problem=self.gpu.problem)

    def take(self, reading: Reading, now: float) -> None:
        """Takes the reading of a pass: it is up, unless it refused everything for too long, or never answered yet."""
        self.silent = 0 if reading.refusal is None else self.silent + 1
        if reading.refusal is None:
            self.mark_up()
            self.busy.take(reading, now)
            self.reading = reading
        elif self.reading is not None and self.silent < SILENT_PASSES:
            self.reading = reading
        else:
            self.mark_down(f"it refuses every call ({reading.refusal})")

    def mark_up(self) -> None:
        """Marks it as up again."""
        if self.gpu.problem is not None:
            log.info("GPU %d (%s) answers again", self.gpu.index, self.gpu.uuid)
            self.gpu = replace(self.gpu, problem=None)

    def mark_down(self, problem: str) -> None:
        """Marks it as down, for this reason."""
        if self.gpu.problem != problem:
            log.warning("GPU %d (%s) does not answer any more: %s", self.gpu.index, self.gpu.uuid, problem)
            self.gpu = replace(self.gpu, problem=problem)
        self.pause()

    def count_xid(self, number: int) -> None:
        """Counts an Xid error."""
        before = self.xids[number].count if number in self.xids else 0
        self.xids[number] = Xid(before + 1, time.time(), time.monotonic())
        log.warning("GPU %d (%s): Xid %d: %s", self.gpu.index, self.gpu.uuid, number, meaning(number))

    def pause(self) -> None:
        """Drops its reading and interrupts the integral of its utilization."""
        self.reading = None
        self.busy.interrupt()
