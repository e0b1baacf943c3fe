"""Verdict: the bottleneck of a run, by rules. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from voxyard.diagnose.other_load import OtherLoad
from voxyard.diagnose.profile.bottleneck_cause import ReadingThreads, cause_of, cause_of_activity, second_of
from voxyard.diagnose.profile.cost_model import Costs
from voxyard.diagnose.profile.interruptions import MOST_SHARE, Interruptions
from voxyard.diagnose.profile.stages import NAMES, Stage, StageTimes
from voxyard.host.page_cache import COLD, NOTHING, Pages
from voxyard.telemetry.causes import BY_NAME, Cause
from voxyard.trainer.reporting.figures import took

WAIT_SHARE = 0.05
"""Below this share of the overlapped run's time spent waiting for data, nothing is wrong."""
LOAD_SHARE, TRANSFER_SHARE, TRAIN_SHARE = 0.20, 0.15, 0.50
OSCILLATION = 0.30  # standard deviation ÷ mean
NOTABLE_SHARE = 0.10  # stages with a smaller share of the work are not reported for their variation
MODEL_USE, DATA_USE = 0.70, 0.80

ALONE = OtherLoad()
UNINTERRUPTED = Interruptions(0.0)

Rule = Literal["load", "transfer", "train", "oscillation", "model use", "data use", "reads", "interruptions"]


@dataclass(frozen=True)
class DeviceUse:
    """Utilisation of a device in the overlapped run, 0…1, and how that is known. None: not measured."""

    value: float | None
    source: str


@dataclass(frozen=True)
class Annotation:
    """A threshold that was passed: the value found, the threshold, and its meaning."""

    rule: Rule
    value: float
    threshold: float
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """`bottleneck` is None where none is found or nothing can be told; `bound_by` is the slowest stage as measured."""

    bottleneck: Stage | None
    bound_by: Stage
    data_wait_share: float
    sentence: str
    annotations: tuple[Annotation, ...] = ()
    explanation: str = ""
    cause: Cause | None = None  # of the bottleneck, or of what stops or disturbs the steps: the largest
    also: Cause | None = None  # the next one, by the share of the time that it takes
    withheld: str = ""  # why there is no verdict: others disturbed what it would rest on
    disturbed: str = ""  # the load of others beside which all was measured, with a verdict or without

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self) | {"annotations": [asdict(each) for each in self.annotations]}


def judge(
    stages: Sequence[StageTimes],
    *,
    costs: Costs,
    data_wait_share: float,
    variation: float,
    variation_within_buckets: float | None = None,
    use: Mapping[str, DeviceUse] | None = None,
    activity: Mapping[str, float] | None = None,
    batch: int | None = None,
    reads: Pages = NOTHING,
    reading: ReadingThreads | None = None,
    others: OtherLoad = ALONE,
    computing: Mapping[Stage, float] | None = None,
    interruptions: Interruptions = UNINTERRUPTED,
) -> Verdict:
    """The verdict on stages measured alone and the overlapped run.

    Shares are stage ÷ sum of the stages. While the data-wait share of the overlapped run is under 5%, there is no
    bottleneck, and the run is bound by its slowest stage; otherwise the slowest stage is the bottleneck. The
    thresholds annotate either way. `variation` is the overlapped steps' standard deviation ÷ mean; `use` holds the
    devices by role (data, model), `activity` what the parts of the model's GPU did, `batch` the clips of a step; beside
    the data device stands D ÷ max(D, M), the most that it can be busy.
    `reads` are the pages of the clips: where they came from memory, a disk may be slower than what was measured.
    `reading` is the work of the reading threads, which tells the cause of a bottleneck. `others` is the load by other
    programs, and `computing` the share of its time that each stage computed (1 where it is not given): a verdict is
    withheld where the stages could stand in another order without that load, and otherwise says that it is of a
    disturbed measurement. `interruptions` are checkpoints and
    validations, which no stage contains.
    """
    slowest = max(stages, key=lambda each: each.mean).stage
    annotations = (
        *_of_shares(stages),
        *_of_variation(stages, variation, variation_within_buckets),
        *_of_use(use or {}, costs),
        *_of_reads(reads),
        *_of_interruptions(interruptions),
    )
    waits = data_wait_share >= WAIT_SHARE
    if others.disturbs and not _holds(stages, slowest, others, computing or {}, waits=waits):
        withheld = others.sentence()
        sentence = (
            f"no verdict: {withheld}. As measured, {slowest} ({NAMES[slowest]}) takes longest. Measure again alone"
        )
        stranger = BY_NAME["stranger_compute" if others.gpus else "cpu_pressure"]
        return Verdict(
            None, slowest, data_wait_share, sentence, annotations, cause=stranger, withheld=withheld, disturbed=withheld
        )
    disturbed = others.sentence()
    measured = "as measured beside other programs: " if disturbed else ""
    if not waits:
        sentence = f"{measured}no bottleneck; bound by {slowest} ({NAMES[slowest]})"
        stopping, also = _largest(interruptions.too_long)
        if stopping is None and slowest == "train" and costs.layout != "mirrored":  # there it may wait for the others
            stopping = _of_small_work((use or {}).get("model"), activity or {}, batch)
        return Verdict(
            None, slowest, data_wait_share, sentence, annotations, cause=stopping, also=also, disturbed=disturbed
        )
    sentence = f"{measured}bottleneck: {slowest} ({NAMES[slowest]})"
    cause = None if reading is None else cause_of(slowest, reading, contended=others.contended)
    explained, also = _explained(slowest, costs), None
    if cause is not None and reading is not None:
        second = second_of(cause, reading)
        share = 0.0 if second is None else second[1]
        delays = [
            (cause, (1 - share) * data_wait_share),
            *([] if second is None else [(second[0], share * data_wait_share)]),
        ]
        cause, also = _largest([*delays, *interruptions.too_long])
    return Verdict(
        slowest, slowest, data_wait_share, sentence, annotations, explained, cause, also, disturbed=disturbed
    )


def _largest(found: Iterable[tuple[Cause, float]]) -> tuple[Cause | None, Cause | None]:
    """The two causes that take the largest shares of the time; None for one that there is not."""
    first, second, *_ = (*(cause for cause, _ in sorted(found, key=lambda each: -each[1])), None, None)
    return first, second


def _of_small_work(model: DeviceUse | None, activity: Mapping[str, float], batch: int | None) -> Cause | None:
    """Why a GPU that never waits does little; None where it does much."""
    utilization = None if model is None else model.value
    if batch == 1 or (utilization is not None and utilization < MODEL_USE):
        return BY_NAME["small_work"]
    return cause_of_activity(utilization, activity)


def _holds(
    stages: Sequence[StageTimes], slowest: Stage, others: OtherLoad, computing: Mapping[Stage, float], *, waits: bool
) -> bool:
    """True where the slowest stage would be the slowest without the others' load too.

    A stage that computes a share c of its time takes at least 1 - c·s of what was measured, s being the share of the
    cores' time that others took; how much a GPU's other users slow a stage down is not known. A model that waits though
    its own stage is the slowest may wait for the others.
    """
    if (waits and slowest == "train") or (others.gpus and slowest != "load"):
        return False
    longest = next(each.mean for each in stages if each.stage == slowest)
    least = longest * (1 - others.contended * computing.get(slowest, 1.0))
    return all(each.mean <= least for each in stages if each.stage != slowest)


def _explained(slowest: Stage, costs: Costs) -> str:
    """Explanation why the model waits although training is the slowest stage."""
    if slowest != "train":
        return ""
    if costs.layout == "split" and costs.data > costs.train:
        return (
            f"features and transfer follow one another on one thread: {took(costs.data)} together, "
            f"against {took(costs.train)} of training"
        )
    if costs.layout == "single":
        return "features and training share one device"
    return (
        "no stage alone is slower than training: together they get into each other's way (the same cores), "
        f"or they vary more than a ring of {costs.slots} slots can even out"
    )


def _of_shares(stages: Sequence[StageTimes]) -> Iterator[Annotation]:
    share = {each.stage: each.share for each in stages}
    if share["load"] > LOAD_SHARE:
        said = "data loading: reading and decoding are more than a fifth of the work"
        yield Annotation("load", share["load"], LOAD_SHARE, said)
    if share["transfer"] > TRANSFER_SHARE:
        said = "transfer: the copy onto the model device is too large a part of the work"
        yield Annotation("transfer", share["transfer"], TRANSFER_SHARE, said)
    if share["train"] < TRAIN_SHARE:
        said = "model GPU starved: training is less than half of the work"
        yield Annotation("train", share["train"], TRAIN_SHARE, said)


def _of_variation(stages: Sequence[StageTimes], variation: float, within_buckets: float | None) -> Iterator[Annotation]:
    if variation > OSCILLATION:
        inner = "" if within_buckets is None else f" (std/mean {within_buckets:.2f} within a length bucket)"
        said = f"oscillation: the overlapped steps vary in length{inner}"
        yield Annotation("oscillation", variation, OSCILLATION, said)
    for each in stages:
        if each.share >= NOTABLE_SHARE and each.figures.variation > OSCILLATION:
            said = f"oscillation: {each.stage} alone varies in length"
            yield Annotation("oscillation", each.figures.variation, OSCILLATION, said)


def _of_use(use: Mapping[str, DeviceUse], costs: Costs) -> Iterator[Annotation]:
    model, data = (use.get(role, DeviceUse(None, "")) for role in ("model", "data"))
    if model.value is not None and model.value < MODEL_USE:
        said = f"the model device is not busy enough ({model.source})"
        yield Annotation("model use", model.value, MODEL_USE, said)
    if data.value is not None and data.value > DATA_USE:
        longest = max(costs.data, costs.train)
        most = f"; {costs.data / longest:.0%} is the most possible here (data stage ÷ longer stage)" if longest else ""
        yield Annotation("data use", data.value, DATA_USE, f"data GPU is the limit ({data.source}{most})")


def _of_reads(reads: Pages) -> Iterator[Annotation]:
    if not reads.trusted:
        why = f" ({'; '.join(reads.why)})" if reads.why else ""
        said = f"reads are {reads.state}: clips came from memory, and the disk may be slower than was measured{why}"
        yield Annotation("reads", reads.share, COLD, said)


def _of_interruptions(interruptions: Interruptions) -> Iterator[Annotation]:
    for cause, share in interruptions.too_long:
        yield Annotation("interruptions", share, MOST_SHARE[cause.name], f"interruptions: {cause.title}")
