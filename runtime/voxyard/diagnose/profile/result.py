"""Result of a profile: the setup, the stages alone, the overlapped run, verdict and recommendations. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import add
from typing import Any

from voxyard.diagnose.gpu_figures import GpuFigures
from voxyard.diagnose.other_load import OtherLoad
from voxyard.diagnose.profile.advice import Recommendation
from voxyard.diagnose.profile.cost_model import Costs
from voxyard.diagnose.profile.interruptions import Interruptions
from voxyard.diagnose.profile.stages import Figures, StageTimes
from voxyard.diagnose.profile.timeline import Gaps, Timeline
from voxyard.diagnose.profile.verdict import DeviceUse, Verdict
from voxyard.host.page_cache import NOTHING, Pages


@dataclass(frozen=True)
class Overlapped:
    """The pipeline as the trainer runs it, and its loss against its slowest part alone."""

    steps: Figures  # seconds a step, traced ones left out
    data_wait_share: float
    variation_within_buckets: float
    samples: int  # clips in a step
    ideal_seconds: float  # of `Costs.step`
    ideal_bound_by: str
    gaps: Gaps
    timeline: Timeline
    cpu_use: float  # of the cores
    traced: int
    settled: int  # steps before the first that counts
    epochs: int

    @property
    def seconds_per_step(self) -> float:
        """Mean, waits included."""
        return self.steps.mean

    @property
    def samples_per_second(self) -> float:
        """Clips a second."""
        return self.samples / self.steps.mean

    @property
    def variation(self) -> float:
        """Standard deviation ÷ mean of the steps."""
        return self.steps.variation

    @property
    def lost_seconds(self) -> float:
        """Seconds a step between what was measured and the ideal; below 0 where it was faster than its stages alone."""
        return self.seconds_per_step - self.ideal_seconds

    @property
    def lost_samples_per_second(self) -> float:
        """Clips a second that the same gap costs."""
        return self.samples / self.ideal_seconds - self.samples_per_second

    @property
    def has_gap(self) -> bool:
        """True where the gap is more than a thousandth of a step."""
        return self.lost_seconds > 1e-3 * self.seconds_per_step

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        one = self.steps
        return {
            "seconds_per_step": one.mean, "std": one.std, "min": one.min, "p50": one.p50, "p95": one.p95,
            "max": one.max, "steps": one.count, "samples_per_second": self.samples_per_second,
            "data_wait_share": self.data_wait_share, "variation": self.variation,
            "variation_within_buckets": self.variation_within_buckets,
            "ideal_seconds_per_step": self.ideal_seconds, "ideal_bound_by": self.ideal_bound_by,
            "lost_seconds_per_step": self.lost_seconds, "lost_samples_per_second": self.lost_samples_per_second,
            "cpu_use": self.cpu_use, "left_out": {"traced": self.traced, "settling": self.settled},
            "epochs": self.epochs, "gaps": self.gaps.document(), "timeline": self.timeline.document(),
        }  # fmt: skip


@dataclass(frozen=True)
class Setup:
    """Setup that was profiled."""

    strategy: str
    kind: str
    devices: tuple[str, ...]
    model: str
    corpus: str
    batch: int  # clips in a step
    workers: int
    slots: int
    buffer: int
    precision: str
    xla: bool
    buckets: int
    command: tuple[str, ...]
    left_out_seconds: float  # tracing and compiling
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """Profile of a training: for people (text_report, html_report) and for programs (`document`).

    The verdict has `.bottleneck` (a stage, None while data-wait is under 5%), `.bound_by` (the slowest stage) and
    `.sentence`; a recommendation `.title`, `.flags`, `.command`, `.gain`, `.bound` and `.why`.
    """

    setup: Setup
    stages: tuple[StageTimes, ...]
    costs: Costs
    overlapped: Overlapped
    use: Mapping[str, DeviceUse]  # by role
    gpus: GpuFigures
    verdict: Verdict
    recommendations: tuple[Recommendation, ...]
    reads: Reads
    others: OtherLoad
    interruptions: Interruptions

    @property
    def data_device_ceiling(self) -> float | None:
        """The most that the data device can be busy: D ÷ max(D, M), D being features and transfer; in a split."""
        if self.costs.layout != "split":
            return None
        longest = max(self.costs.data, self.costs.train)
        return self.costs.data / longest if longest else None

    def document(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        return {
            "setup": asdict(self.setup),
            "stages": [each.document() for each in self.stages],
            "overlapped": self.overlapped.document(),
            "reads": self.reads.document(),
            "interruptions": self.interruptions.document(),
            "other_load": self.others.document(),
            "device_use": {role: asdict(use) for role, use in self.use.items()},
            "data_device_ceiling": self.data_device_ceiling,
            "gpus": self.gpus.document(),
            "verdict": self.verdict.document(),
            "recommendations": [each.document() for each in self.recommendations],
        }


@dataclass(frozen=True)
class Reads:
    """Pages of the clips that each measurement read, by its name."""

    measurements: Mapping[str, Pages] = field(default_factory=dict)

    @property
    def pages(self) -> Pages:
        """Pages of all measurements together."""
        return reduce(add, self.measurements.values(), NOTHING)

    @property
    def withheld(self) -> str:
        """Reason why no threads, shards or caches are advised; "" where they may be."""
        warm = [f"{name} {pages}" for name, pages in self.measurements.items() if not pages.trusted]
        if not warm:
            return ""
        return (
            "threads, shards and caches are not judged, since clips came from memory and not from the disk: "
            + "; ".join(warm)
        )

    def lines(self) -> list[str]:
        """A line for each measurement."""
        return [f"reads, {name}: {pages}" for name, pages in self.measurements.items()]

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        looks = {name: pages.document() for name, pages in self.measurements.items()}
        return self.pages.document() | {"looks": looks}
