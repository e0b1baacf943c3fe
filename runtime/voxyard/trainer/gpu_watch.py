"""Watches the GPUs of a run from the side: a reading a second, means at the end."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from voxyard.host import Gpu
from voxyard.host.usage import Usage, UsageReader


class GpuWatch:
    """Means over a run, by role. A context: its thread reads from `with` to its end; without GPUs there is none."""

    def __init__(self, cards: Sequence[tuple[str, Gpu]], *, interval: float = 1.0) -> None:
        self._cards, self._interval = tuple(cards), interval
        self._readings: list[tuple[Usage, ...]] = []
        self._ended = threading.Event()
        self._reader = UsageReader([gpu.uuid for _, gpu in self._cards])
        self._thread = threading.Thread(target=self._watch, name="voxyard-gpu-watch", daemon=True)

    def __enter__(self) -> Self:
        if self._cards:
            self._reader.__enter__()
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cards:
            self._ended.set()
            self._thread.join()
            self._reader.__exit__(kind, value, trace)

    def utilization(self) -> dict[str, float | None]:
        """Mean utilization 0…1 of each role; the least of the GPUs that share one (mirrored). None: not measured."""
        means: dict[str, float | None] = {}
        for position, (role, _) in enumerate(self._cards):
            mean = _mean([reading[position].utilization for reading in self._readings])
            before = means.get(role)
            means[role] = mean if before is None or mean is None else min(before, mean)
        return means

    def power_watts(self) -> float | None:
        """Mean power of the GPUs together."""
        totals = [[usage.power_watts for usage in reading] for reading in self._readings]
        return _mean([sum(filter(None, total)) for total in totals if None not in total])

    def _watch(self) -> None:
        while not self._ended.wait(self._interval):
            self._readings.append(self._reader.read())


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
