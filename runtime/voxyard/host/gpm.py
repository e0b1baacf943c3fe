"""What the parts of a GPU do (NVML's GPM, Hopper and newer): its multiprocessors, tensor cores, memory and links."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from voxyard.host.nvml import UNSUPPORTED, Session

ASK_AGAIN_SECONDS = 300.0
"""Time for which a refusal is left alone: a profiler may hold the counters, or MIG be switched."""

_LEAST_SECONDS = 0.15  # nvml.h asks for more than 0.1 s between two samples: counters are renewed so often
_MIB = 1024 * 1024
_PARTS = {"sm": 2, "occupancy": 3, "tensor": 5, "dram": 10}  # nvml.h, NVML_GPM_METRIC_…: percent
_LINKS = {  # MiB a second
    "pcie_transmit": 20,
    "pcie_receive": 21,
    "nvlink_receive": 60,
    "nvlink_transmit": 61,
}
_METRICS = (*_PARTS.values(), *_LINKS.values())
_QUIETLY = UNSUPPORTED | {4, 6, 19}  # nor where it is not allowed, there is no such instance, or it is in use


@dataclass(frozen=True, slots=True)
class Activity:
    """Means between two samples, and their integrals since the reader was made.

    `parts` are shares, 0…1: multiprocessors with work (sm), warps of as many as they hold (occupancy), tensor cores,
    bandwidth of the memory (dram). `links` are bytes a second, by link and direction. Empty: not known.
    """

    parts: Mapping[str, float] = field(default_factory=dict)
    links: Mapping[str, float] = field(default_factory=dict)
    totals: Mapping[str, float] = field(default_factory=dict)  # activity_PART: seconds; moved_LINK: bytes


class ActivityReader:
    """Reads the activity of one GPU, or of one of its MIG instances, between a reading and the one before."""

    def __init__(
        self,
        session: Session,
        handle: Any,
        *,
        instance: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`instance` is the driver's id of a GPU instance, `handle` the GPU's all the same."""
        self._session, self._handle, self._instance, self._clock = session, handle, instance, clock
        self._supported: bool | None = None
        self._ask_again = -math.inf
        self._spare: Any = None
        self._last: tuple[float, Any] | None = None  # when it was taken, and the sample
        self._totals: dict[str, float] = {}
        self._activity = Activity()

    def read(self) -> Activity:
        """The activity since the sample before; that of the reading before where that is less than 0.15 s old.

        Raises GpuLostError or SessionLostError.
        """
        now = self._clock()
        if now < self._ask_again or (self._last is not None and now - self._last[0] < _LEAST_SECONDS):
            return self._activity
        before, taken = self._last, self._take()
        if taken is None:
            self._ask_again, self._last = now + ASK_AGAIN_SECONDS, None
            self._spare = self._spare if before is None else before[1]
            self._activity = Activity()
            return self._activity
        self._last, self._spare = taken, None if before is None else before[1]
        if before is not None:
            self._compute(before, taken)
        return self._activity

    def _take(self) -> tuple[float, Any] | None:
        """A new sample and its time; None where this card, driver or mode has none."""
        if self._supported is None:
            found = self._session.quietly("nvmlGpmQueryDeviceSupport", self._handle, codes=_QUIETLY)
            self._supported = found is not None and bool(found.isSupportedDevice)
        if not self._supported:
            return None
        sample = self._spare or self._session.gpm_sample()
        if sample is None:
            return None
        if self._instance is None:
            answer = self._session.quietly("nvmlGpmSampleGet", self._handle, sample, codes=_QUIETLY)
        else:
            answer = self._session.quietly("nvmlGpmMigSampleGet", self._handle, self._instance, sample, codes=_QUIETLY)
        self._spare = sample
        return None if answer is None else (self._clock(), sample)

    def _compute(self, before: tuple[float, Any], taken: tuple[float, Any]) -> None:
        found = self._session.ask("nvmlGpmMetricsGet", before[1], taken[1], list(_METRICS)) or ()
        values = {number: value for number, code, value in found if code == 0 and math.isfinite(value)}
        parts = {name: min(values[number], 100.0) / 100 for name, number in _PARTS.items() if number in values}
        links = {name: values[number] * _MIB for name, number in _LINKS.items() if number in values}
        for prefix, each in (("activity", parts), ("moved", links)):
            for name, mean in each.items():
                total = self._totals.get(f"{prefix}_{name}", 0.0)
                self._totals[f"{prefix}_{name}"] = total + mean * (taken[0] - before[0])
        self._activity = Activity(parts, links, dict(self._totals))
