"""GPU use during a measurement, by the shared sampler; without GPUs the reason why nothing was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

from voxyard.diagnose.profile.stages import Figures, figures
from voxyard.host import Gpu
from voxyard.host.nvml import Session
from voxyard.telemetry.sampler import GpuSampler, GpuState, Snapshot

NO_GPU = "not measured: no GPU"
TURNED_OFF = "not measured: --no-gpu-monitoring"
SHORT = "not measured: the run was shorter than two readings"
INTERVAL = 0.5
"""Seconds between two readings; each has all samples that the driver took since the one before."""


@dataclass(frozen=True)
class GpuUse:
    """One GPU in its role. None, or a series of length 0, is what the driver did not report."""

    role: str
    index: int
    name: str
    utilization: Figures  # 0…1
    memory_used: int | None  # the most, in bytes
    memory_size: int | None


@dataclass(frozen=True)
class GpuFigures:
    """The GPUs of a run, or the sentence that stands where their figures would."""

    gpus: tuple[GpuUse, ...] = ()
    missing: str | None = None

    def utilization(self, role: str) -> float | None:
        """Mean utilization of a role's GPU, the least of those that share it."""
        means = [gpu.utilization.mean for gpu in self.gpus if gpu.role == role and gpu.utilization.count]
        return min(means) if means else None

    def document(self) -> dict[str, Any]:
        """Everything as plain data; `gpus` is empty and `missing` says why, where nothing was measured."""
        return asdict(self)


class GpuMeter:
    """A context that reads the GPUs of a run from `with` to its end, every `interval` seconds; without any, nothing."""

    def __init__(self, cards: Sequence[tuple[str, Gpu]], *, wanted: bool = True, interval: float = INTERVAL) -> None:
        self._cards = tuple(cards) if wanted else ()
        self._missing = NO_GPU if not cards else None if wanted else TURNED_OFF
        self._readings: list[dict[str, GpuState]] = []
        self._sampler = GpuSampler(interval, only={gpu.uuid for _, gpu in self._cards}, on_snapshot=self._take)

    def __enter__(self) -> Self:
        """Raises HostError where there are GPUs and NVML does not answer."""
        if self._cards:
            with Session():
                self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cards:
            self._sampler.stop()

    def figures(self) -> GpuFigures:
        """Figures of the readings; the first is left out, since its second lies before the measurement."""
        if self._missing is not None:
            return GpuFigures(missing=self._missing)
        if len(self._readings) < 2:
            return GpuFigures(missing=SHORT)
        return GpuFigures(tuple(self._use(role, gpu) for role, gpu in self._cards))

    def _use(self, role: str, gpu: Gpu) -> GpuUse:
        states = [reading[gpu.uuid] for reading in self._readings[1:] if gpu.uuid in reading]
        used = [state.reading.memory for state in states if state.reading is not None]
        memory = [each for each in used if each is not None]
        return GpuUse(
            role=role,
            index=gpu.index,
            name=gpu.name,
            utilization=figures([state.utilization_ratio for state in states if state.utilization_ratio is not None]),
            memory_used=max((each.used for each in memory), default=None),
            memory_size=memory[-1].size if memory else None,
        )

    def _take(self, snapshot: Snapshot) -> None:
        self._readings.append({state.gpu.uuid: state for state in snapshot.gpus})
