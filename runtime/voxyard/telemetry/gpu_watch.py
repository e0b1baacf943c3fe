"""GPU readings of a run: taken in a thread from its begin to its end, with means by role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from voxyard.host import Gpu
from voxyard.host.nvml import Session
from voxyard.telemetry.sampler import GpuSampler, GpuState, Snapshot


class GpuWatch:
    """Reads the GPUs of a run, each with its role, every `interval` seconds within the context.

    `readings` are the states by UUID, one mapping a pass. Without GPUs, or not `enabled`, it touches no driver.
    """

    def __init__(self, cards: Sequence[tuple[str, Gpu]], *, interval: float = 1.0, enabled: bool = True) -> None:
        self.cards, self.enabled = tuple(cards), enabled
        self.readings: list[Mapping[str, GpuState]] = []
        self._sampler = GpuSampler(interval, only={gpu.uuid for _, gpu in self.cards}, on_snapshot=self._take)

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

    def utilization(self) -> dict[str, float | None]:
        """Mean utilization 0…1 of each role; the least of the GPUs that share one (mirrored). None: not measured."""
        means: dict[str, float | None] = {}
        for role, gpu in self.cards:
            mean = _mean([reading[gpu.uuid].utilization_ratio for reading in self.readings if gpu.uuid in reading])
            before = means.get(role)
            means[role] = mean if before is None or mean is None else min(before, mean)
        return means

    def power_watts(self) -> float | None:
        """Mean power of the GPUs together."""
        uuids = {gpu.uuid for _, gpu in self.cards}
        totals = [[_power(reading.get(uuid)) for uuid in uuids] for reading in self.readings]
        return _mean([sum(filter(None, total)) for total in totals if total and None not in total])

    def _take(self, snapshot: Snapshot) -> None:
        self.readings.append({state.gpu.uuid: state for state in snapshot.gpus})


def _power(state: GpuState | None) -> float | None:
    return None if state is None or state.reading is None else state.reading.power_watts


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
