"""GPU utilization and memory during a measurement, or the reason why nothing was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from voxyard.diagnose.profile.stages import Figures, figures
from voxyard.host.nvml import Gpu
from voxyard.telemetry.gpu_watch import PARTS, GpuReadings, GpuWatch

NO_GPU = "not measured: no GPU"
TURNED_OFF = "not measured: --no-gpu-monitoring"
SHORT = "not measured: the run was shorter than two readings"
OF_PARTS = f"not measured by role: {PARTS}"
READ_SECONDS = 0.5
"""Seconds between two readings; each has all samples that the driver took since the one before."""


@dataclass(frozen=True)
class GpuUse:
    """One GPU in its role, `all parts` where it has several. What the driver did not report is None, or of length 0."""

    role: str
    index: int
    name: str
    utilization: Figures  # 0…1
    memory_used: int | None  # the most, in bytes
    memory_size: int | None
    activity: Mapping[str, float] = field(default_factory=dict)  # mean of each part, 0…1: sm, occupancy, tensor, dram


@dataclass(frozen=True)
class GpuFigures:
    """The GPUs of a run, and the sentence that stands where figures are missing."""

    gpus: tuple[GpuUse, ...] = ()
    missing: str | None = None

    def utilization(self, role: str) -> float | None:
        """Mean utilization of a role's GPU, the least of those that share it."""
        means = [gpu.utilization.mean for gpu in self.gpus if gpu.role == role and gpu.utilization.count]
        return min(means) if means else None

    def activity(self, role: str) -> Mapping[str, float]:
        """Mean activity of the parts of a role's GPU, the first of those that share it; empty where it is not known."""
        return next((gpu.activity for gpu in self.gpus if gpu.role == role and gpu.activity), {})

    def document(self) -> dict[str, Any]:
        """Everything as plain data; `missing` says why, where nothing was measured, or nothing by role."""
        return asdict(self)


def described(activity: Mapping[str, float]) -> str:
    """What the parts of a GPU did, in words."""
    names = {"sm": "SMs", "occupancy": "occupancy", "tensor": "tensor cores", "dram": "memory bandwidth"}
    return ", ".join(f"{name} {activity[part]:.0%}" for part, name in names.items() if part in activity)


def gpu_figures(watch: GpuWatch) -> GpuFigures:
    """Figures of what a watch has read; its first pass is left out, since the driver measured that before it began."""
    if not watch.cards:
        return GpuFigures(missing=NO_GPU)
    if not watch.enabled:
        return GpuFigures(missing=TURNED_OFF)
    if watch.passes < 2:
        return GpuFigures(missing=SHORT)
    cards = dict.fromkeys(("all parts" if gpu.uuid in watch.cut else role, gpu) for role, gpu in watch.cards)
    uses = tuple(_use(watch.gpus[gpu.uuid], role, gpu) for role, gpu in cards)
    return GpuFigures(uses, OF_PARTS if watch.cut else None)


def _use(readings: GpuReadings, role: str, gpu: Gpu) -> GpuUse:
    return GpuUse(
        role=role,
        index=gpu.index,
        name=gpu.name,
        utilization=figures(readings.utilizations),
        memory_used=readings.memory_used,
        memory_size=readings.memory_size,
        activity={part: mean.value for part, mean in readings.activity.items() if mean.value is not None},
    )
