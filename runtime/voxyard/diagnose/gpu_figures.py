"""GPU utilization and memory during a measurement, or the reason why nothing was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from voxyard.diagnose.profile.stages import Figures, figures
from voxyard.host import Gpu
from voxyard.telemetry.gpu_watch import GpuWatch
from voxyard.telemetry.sampler import GpuState

NO_GPU = "not measured: no GPU"
TURNED_OFF = "not measured: --no-gpu-monitoring"
SHORT = "not measured: the run was shorter than two readings"
READ_SECONDS = 0.5
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


def gpu_figures(watch: GpuWatch) -> GpuFigures:
    """Figures of what a watch has read; its first pass is left out, since the driver measured that before it began."""
    if not watch.cards:
        return GpuFigures(missing=NO_GPU)
    if not watch.enabled:
        return GpuFigures(missing=TURNED_OFF)
    if len(watch.readings) < 2:
        return GpuFigures(missing=SHORT)
    return GpuFigures(tuple(_use(watch.readings[1:], role, gpu) for role, gpu in watch.cards))


def _use(readings: Sequence[Mapping[str, GpuState]], role: str, gpu: Gpu) -> GpuUse:
    states = [reading[gpu.uuid] for reading in readings if gpu.uuid in reading]
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
