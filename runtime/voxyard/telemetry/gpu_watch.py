"""GPU readings of a run: taken in a thread from its begin to its end, with means by role."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from voxyard.host import Gpu
from voxyard.host.nvml import Session
from voxyard.telemetry.sampler import GpuSampler, GpuState, Snapshot

MOST_KEPT = 7200
"""Utilizations that are kept one by one: an hour of a profile, which reads twice a second."""


@dataclass(slots=True)
class RunningMean:
    """Mean of values that are not kept; None before the first."""

    count: int = 0
    value: float | None = None

    def add(self, value: float) -> None:
        """One more value."""
        self.count += 1
        mean = 0.0 if self.value is None else self.value
        self.value = mean + (value - mean) / self.count


@dataclass(slots=True)
class GpuReadings:
    """One GPU's readings in constant space: the mean of all, and what came after the first pass.

    The driver measured the first pass before the watch began.
    """

    utilization: RunningMean = field(default_factory=RunningMean)
    utilizations: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))  # the newest
    memory_used: int | None = None  # the most, in bytes
    memory_size: int | None = None

    def take(self, state: GpuState, *, first: bool) -> None:
        """One pass."""
        if state.utilization_ratio is not None:
            self.utilization.add(state.utilization_ratio)
            if not first:
                self.utilizations.append(state.utilization_ratio)
        memory = None if state.reading is None else state.reading.memory
        if memory is not None and not first:
            self.memory_used = max(memory.used, self.memory_used or 0)
            self.memory_size = memory.size


class GpuWatch:
    """Reads the GPUs of a run, each with its role, every `interval` seconds within the context.

    `gpus` are the readings by UUID, `passes` their number. Without GPUs, or not `enabled`, it touches no driver.
    """

    def __init__(self, cards: Sequence[tuple[str, Gpu]], *, interval: float = 1.0, enabled: bool = True) -> None:
        self.cards, self.enabled = tuple(cards), enabled
        self.gpus = {gpu.uuid: GpuReadings() for _, gpu in self.cards}
        self.passes = 0
        self._power = RunningMean()
        self._sampler = GpuSampler(interval, only=set(self.gpus), on_snapshot=self.take)

    def __enter__(self) -> Self:
        """Raises HostError where there are GPUs and NVML does not answer."""
        if self.cards and self.enabled:
            with Session():
                self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.cards and self.enabled:
            self._sampler.stop()

    def take(self, snapshot: Snapshot) -> None:
        """One pass over the GPUs."""
        states = {state.gpu.uuid: state for state in snapshot.gpus if state.gpu.uuid in self.gpus}
        for uuid, state in states.items():
            self.gpus[uuid].take(state, first=self.passes == 0)
        powers = [_power(states.get(uuid)) for uuid in self.gpus]
        if powers and None not in powers:
            self._power.add(sum(filter(None, powers)))
        self.passes += 1

    def utilization(self) -> dict[str, float | None]:
        """Mean utilization 0…1 of each role; the least of the GPUs that share one (mirrored). None: not measured."""
        means: dict[str, float | None] = {}
        for role, gpu in self.cards:
            mean = self.gpus[gpu.uuid].utilization.value
            before = means.get(role)
            means[role] = mean if before is None or mean is None else min(before, mean)
        return means

    def power_watts(self) -> float | None:
        """Mean power of the GPUs together."""
        return self._power.value


def _power(state: GpuState | None) -> float | None:
    return None if state is None or state.reading is None else state.reading.power_watts
