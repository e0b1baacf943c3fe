"""Targets of a training under load, and the causes of devices under 30% busy. Arithmetic only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from voxyard.diagnose.gpu_figures import NO_GPU
from voxyard.host.page_cache import NOTHING, Pages
from voxyard.telemetry.gpu_watch import CardPower
from voxyard.trainer.report import HIGH_POWER, STABLE, Target, memory_standing, power_standing
from voxyard.trainer.reporting.figures import took

Standing = Literal["excellent", "good", "minimum", "missed", "not measured"]

LOW_USE = 0.30
"""A device below it is diagnosed."""
WAITS, BUFFER_EMPTY, BUFFER_FULL = 0.30, 0.25, 0.75
SHORT_STEP_SECONDS = 0.020
"""A step on a GPU that takes less is mostly the time it takes to hand it over."""


@dataclass(frozen=True)
class StressResult:
    """Measurements of a training under load."""

    kind: str
    strategy: str
    seconds: float
    steps: int
    steps_per_second: float
    clips_per_second: float
    batch: int
    warm_up: str
    data_wait_share: float
    data_stage_seconds: float | None
    train_stage_seconds: float | None
    variation: float
    variation_within_buckets: float
    cpu_use: float
    resident_memory_growth: float | None
    buffer_filled: float  # mean share of the host prefetch that was ready
    workers: int
    use: Mapping[str, float | None]  # by role, 0…1
    memory_of_limit: Mapping[str, float | None] = field(default_factory=dict)
    device_memory_growth: Mapping[str, float] = field(default_factory=dict)  # of GPUs' allocators, by role
    powers: tuple[CardPower, ...] = ()
    xla: bool = False
    precision: str = "float32"
    reads: Pages = NOTHING

    @property
    def data_ceiling(self) -> float | None:
        """The most that the data device can be busy: D ÷ max(D, M)."""
        d, m = self.data_stage_seconds, self.train_stage_seconds
        return d / max(d, m) if d and m and self.strategy == "split" else None

    def lines(self) -> list[str]:
        """The figures for a terminal."""
        d, m = self.data_stage_seconds, self.train_stage_seconds
        stages = f"data stage (D) {took(d)}, training stage (M) {took(m)}"
        bound = f", a split gains {(d + m) / max(d, m):.2f}× at most" if d and m else ""
        return [
            f"{self.steps} steps in {self.seconds:.1f} s: {self.steps_per_second:.3g} steps/s, "
            f"{self.clips_per_second:.3g} clips/s ({self.batch} clips a step)",
            f"waiting for data {self.data_wait_share:.1%}; {stages}{bound}",
            f"host prefetch {self.buffer_filled:.0%} full on average, {self.workers} reading threads; "
            f"CPU use {self.cpu_use:.0%} of the cores",
            f"reads: {self.reads}",
        ]


@dataclass(frozen=True)
class TargetRow:
    """One target: what was measured, what is wanted, and how it stands."""

    name: str
    measured: str
    wanted: str
    standing: str
    counts: bool = False  # towards the verdict


@dataclass(frozen=True)
class TargetReport:
    """All targets; the verdict is the worst standing of those with the grades minimum, good and excellent."""

    verdict: Standing
    targets: tuple[TargetRow, ...]

    def lines(self) -> list[str]:
        """The table for a terminal, with the verdict."""
        rows = [
            ("target", "measured", "wanted", "grade"),
            *((r.name, r.measured, r.wanted, r.standing) for r in self.targets),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return [
            *(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:<{widths[2]}}  {d}".rstrip() for a, b, c, d in rows),
            f"verdict: {self.verdict}" + ("" if self.verdict != "not measured" else f" ({NO_GPU})"),
        ]


def check_targets(result: StressResult) -> TargetReport:
    """The targets. Of CPU devices no GPU's utilization is made up: those targets are not measured.

    A data GPU that does nearly all that its work allows is at its ceiling, and takes nothing from the verdict.
    """
    gpu = result.kind == "gpu"
    graded = [
        (Target("model GPU", result.use.get("model") if gpu else None, (0.70, 0.80, 0.90)), ">70/80/90%"),
        (
            Target("step-time variation", result.variation, (0.40, 0.30, 0.20), higher_is_better=False),
            "<40/30/20%",
        ),
    ]
    if result.strategy == "split":
        data = result.use.get("data") if gpu else None
        graded.insert(0, (Target("data GPU", data, (0.40, 0.50, 0.60), ceiling=result.data_ceiling), ">40/50/60%"))
    rows = [_graded(target, wanted, result) for target, wanted in graded]
    standings = [target.verdict for target, _ in graded]
    grades: tuple[Standing, ...] = ("missed", "minimum", "good", "excellent")
    verdict: Standing = next((grade for grade in grades if grade in standings), "not measured")
    return TargetReport(verdict, (*rows, *_others(result)))


def _graded(target: Target, wanted: str, result: StressResult) -> TargetRow:
    missing = NO_GPU if result.kind != "gpu" else "not measured"
    measured = missing if target.value is None else f"{target.value:.0%}"
    standing = "" if target.value is None else target.verdict
    if target.name == "data GPU" and result.data_ceiling is not None:
        most = f"{result.data_ceiling:.0%} is the most possible here (data stage ÷ longer stage)"
        standing = f"{standing}; {most}" if standing else most
    if target.name == "step-time variation":
        standing += f"; {result.variation_within_buckets:.0%} among steps of one length bucket"
    return TargetRow(target.name, measured, wanted, standing, counts=target.value is not None)


def _others(result: StressResult) -> Iterator[TargetRow]:
    d, m, gpu = result.data_stage_seconds, result.train_stage_seconds, result.kind == "gpu"
    yield TargetRow("out of memory", "no", "no", "kept")
    growths = {f"{role} GPU memory stable": growth for role, growth in result.device_memory_growth.items()}
    for name, growth in ({"host memory stable": result.resident_memory_growth} | growths).items():
        said = "not measured" if growth is None else f"{growth:+.1%}"
        yield TargetRow(name, said, f"<{STABLE:.0%}", memory_standing(growth))
    for card in result.powers:
        ceiling = result.data_ceiling if card.role == "data" else None
        said = str(card) if card.share is None else f"{card} ({card.share:.0%})"
        wanted = f">{HIGH_POWER:.0%} of the limit"
        yield TargetRow(f"{card.role} GPU {card.index} power", said, wanted, power_standing(card, ceiling))
    if d and m:
        yield _of_stages(d, m, split=result.strategy == "split")
    for role, share in result.memory_of_limit.items():
        said = "not measured" if share is None else f"{share:.0%}"
        yield TargetRow(f"{role} GPU memory of its limit", said, "80–95%", _within(share, 0.80, 0.95))
    if not gpu:
        yield TargetRow("GPU memory of its limit", NO_GPU, "80–95%", "")
        yield TargetRow("GPU memory stable", NO_GPU, f"<{STABLE:.0%}", "")
        yield TargetRow("GPU power", NO_GPU, f">{HIGH_POWER:.0%} of the limit", "")
    yield TargetRow(
        "CPU use", f"{result.cpu_use:.0%}", "40–60%", _within(result.cpu_use, 0.4, 0.6) if gpu else "for GPU hosts"
    )


def _of_stages(d: float, m: float, *, split: bool) -> TargetRow:
    """How the two stages stand to each other, by the one of the two targets that the strategy can keep.

    One device does one stage after the other: a small data stage is wanted. A split gains from a large one, and
    with data under half of compute its bound is under 1.5.
    """
    if not split:
        return TargetRow("data ÷ compute time", f"{d / m:.0%}", "<50%", "kept" if d < 0.5 * m else "missed")
    bound = (d + m) / max(d, m)
    said = "kept" if bound >= 1.5 else "missed; one GPU may do for both: voxyard train --strategy auto times it"
    return TargetRow("bound of a split", f"{bound:.2f}×", "1.5–2×", said)


@dataclass(frozen=True)
class LowUse:
    """Reason why a device is less than 30% busy: causes with the figures they follow from, and what to try."""

    role: str
    use: float
    cause: str
    evidence: tuple[str, ...]
    remedies: tuple[str, ...]

    def lines(self) -> list[str]:
        """The diagnosis for a terminal."""
        return [
            f"below 30%: the {self.role} device is busy {self.use:.0%} of the time: {self.cause}",
            *(f"  {line}" for line in self.evidence),
            *(f"  → {line}" for line in self.remedies),
        ]


def low_use(result: StressResult) -> tuple[LowUse, ...]:
    """The "below 30%" diagnosis for the model device, and for a data device that could be busier than it is."""
    found = []
    model, data = result.use.get("model"), result.use.get("data")
    if model is not None and model < LOW_USE:
        found.append(_model_low(result, model))
    ceiling = result.data_ceiling
    if data is not None and data < LOW_USE and ceiling is not None:
        found.append(_data_low(result, data, ceiling))
    return tuple(found)


def _model_low(result: StressResult, use: float) -> LowUse:
    d, m = result.data_stage_seconds, result.train_stage_seconds
    evidence = [
        f"it waits for data {result.data_wait_share:.0%} of the time",
        f"D {took(d)}, M {took(m)}; the host prefetch is {result.buffer_filled:.0%} full",
    ]
    if result.data_wait_share >= WAITS and result.buffer_filled < BUFFER_EMPTY and not result.reads.trusted:
        return LowUse(
            "model", use, "reading and decoding the clips is too slow, though they came from memory",
            (*evidence, f"reads: {result.reads}"),
            ("voxyard profile on the disk that training reads from: what helps there cannot be told from here",),
        )  # fmt: skip
    if result.data_wait_share >= WAITS and result.buffer_filled < BUFFER_EMPTY:
        return LowUse(
            "model", use, "reading and decoding the clips is too slow", tuple(evidence),
            (
                "voxyard corpus prepare CORPUS SHARDS, and train from the shards",
                "--cache-dataset, where the decoded clips fit into memory",
                f"more than {result.workers} reading threads: --num-workers",
            ),
        )  # fmt: skip
    if result.data_wait_share >= WAITS and result.buffer_filled > BUFFER_FULL:
        return LowUse(
            "model", use, "the features or the copy onto the model device are too slow", tuple(evidence),
            ("voxyard corpus prepare --features, so that nothing is computed", "another pair: voxyard topology"),
        )  # fmt: skip
    if result.data_wait_share >= WAITS:
        return LowUse(
            "model", use, "the data come unevenly", tuple(evidence),
            ("--prefetch-buffer-size 6", "voxyard profile tells the stages apart"),
        )  # fmt: skip
    if m is not None and m < SHORT_STEP_SECONDS:
        remedies = [f"--batch-size above {result.batch}"]
        remedies += [] if result.xla else ["--xla"]
        return LowUse(
            "model", use, "its steps are too short: most of the time goes into handing them over", tuple(evidence),
            tuple(remedies),
        )  # fmt: skip
    return LowUse(
        "model", use, "not the data: the step itself leaves the device idle", tuple(evidence),
        ("voxyard profile --html FILE shows where", "--xla" if not result.xla else "--batch-size, if memory is left"),
    )  # fmt: skip


def _data_low(result: StressResult, use: float, ceiling: float) -> LowUse:
    evidence = (
        f"D {took(result.data_stage_seconds)}, M {took(result.train_stage_seconds)}: {ceiling:.0%} is its ceiling",
    )
    if use >= 0.7 * ceiling:
        return LowUse(
            "data", use, "its work is small: that is no fault", evidence,
            ("one GPU may do for both: voxyard train --strategy auto times it",),
        )  # fmt: skip
    return LowUse(
        "data", use, "it could do more than it does", evidence,
        (f"it waits for the host: the prefetch is {result.buffer_filled:.0%} full, see the reading threads",)
        if result.buffer_filled < BUFFER_EMPTY
        else ("it waits for the model device, which is slower: see voxyard profile",),
    )  # fmt: skip


def _within(value: float | None, low: float, high: float) -> str:
    if value is None:
        return ""
    return "below" if value < low else "above" if value > high else "kept"
