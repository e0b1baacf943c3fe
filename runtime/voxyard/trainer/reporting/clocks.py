"""Clocks of a run: times of its steps and stages, CPU use, resident memory. No TensorFlow."""

from __future__ import annotations

import math
import resource
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from voxyard.host.cores import usable_cores

VARIATION_WINDOW = 200  # steps


class StepClock:
    """Times of the steps of a run; steps that were traced (compiled) are counted, but kept out of the statistics."""

    def __init__(self) -> None:
        self.steps = self.traced = 0
        self.wait = self.duration = 0.0
        self._recent: deque[tuple[object, float]] = deque(maxlen=VARIATION_WINDOW)
        self.shapes: Counter[object] = Counter()  # steps of each

    def step(self, duration: float, wait: float, shape: object, *, traced: bool) -> None:
        """One step: its whole duration and the wait for data in it, in seconds; `shape` is its bucket."""
        if traced:
            self.traced += 1
            return
        self.steps += 1
        self.duration += duration
        self.wait += wait
        self.shapes[shape] += 1
        self._recent.append((shape, duration))

    @property
    def rate(self) -> float:
        """Steps a second, waits included."""
        return self.steps / self.duration if self.duration else 0.0

    @property
    def train_mean(self) -> float | None:
        """Mean seconds of a step without its wait."""
        return (self.duration - self.wait) / self.steps if self.steps else None

    @property
    def wait_share(self) -> float:
        """Share of the steps' time spent waiting for data."""
        return self.wait / self.duration if self.duration else 0.0

    @property
    def variation(self) -> float:
        """Standard deviation ÷ mean of the last 200 steps."""
        return _variation([seconds for _, seconds in self._recent])

    @property
    def variation_within_buckets(self) -> float:
        """The same with each step relative to the mean of its bucket: the variation that does not come from lengths."""
        groups: dict[object, list[float]] = {}
        for shape, seconds in self._recent:
            groups.setdefault(shape, []).append(seconds)
        return _variation([s / (sum(group) / len(group)) for group in groups.values() for s in group])


class CpuClock:
    """CPU use of this process between the creation of the clock and `use()`."""

    def __init__(self) -> None:
        self._begin = time.perf_counter(), _cpu_seconds()

    def use(self) -> float:
        """Share of all cores that this process may use, 0 to 1."""
        wall, cpu = time.perf_counter() - self._begin[0], _cpu_seconds() - self._begin[1]
        return cpu / (wall * usable_cores())


class MemoryGrowth:
    """Memory at the end against that after 200 steps, or after half of a shorter run."""

    def __init__(self, first: int, end: int, devices: Callable[[], Mapping[str, float]] = dict) -> None:
        """`devices` gives the most bytes that each device's allocator has held so far, by its role."""
        self._from = first + min(200, (end - first) // 2)
        self._devices = devices
        self._base: tuple[int, Mapping[str, float]] | None = None
        self.growth: float | None = None  # of the resident memory
        self.of_devices: dict[str, float] = {}

    def sample(self, step: int) -> None:
        """Reads the memory after a step."""
        if step < self._from:
            return
        now, devices = resident_bytes(), self._devices()
        if self._base is None:
            self._base = now, devices
            return
        resident, before = self._base
        self.growth = now / resident - 1
        self.of_devices = {role: taken / before[role] - 1 for role, taken in devices.items() if before.get(role)}


def resident_bytes() -> int:
    """Resident memory of this process."""
    with Path("/proc/self/statm").open() as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _variation(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)) / mean if mean else 0.0
