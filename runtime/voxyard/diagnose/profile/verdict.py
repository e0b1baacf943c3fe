"""Verdict: the bottleneck of a run, by the rules of feature D2. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from voxyard.diagnose.profile.cost_model import Costs
from voxyard.diagnose.profile.stages import NAMES, Stage, StageTimes
from voxyard.host.page_cache import COLD, NOTHING, Pages

WAIT_SHARE = 0.05
"""Below this share of the overlapped run's time spent waiting for data, nothing is wrong."""
LOAD_SHARE, TRANSFER_SHARE, TRAIN_SHARE = 0.20, 0.15, 0.50
OSCILLATION = 0.30  # standard deviation ÷ mean
NOTABLE_SHARE = 0.10  # stages with a smaller share of the work are not reported for their variation
MODEL_USE, DATA_USE = 0.70, 0.80

Rule = Literal["load", "transfer", "train", "oscillation", "model use", "data use", "reads"]


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
    """`bottleneck` is None where nothing is wrong; `bound_by` is the slowest stage in any case."""

    bottleneck: Stage | None
    bound_by: Stage
    data_wait_share: float
    sentence: str
    annotations: tuple[Annotation, ...] = ()
    explanation: str = ""

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
    reads: Pages = NOTHING,
) -> Verdict:
    """The verdict on stages measured alone and the overlapped run.

    Shares are stage ÷ sum of the stages. While the data-wait share of the overlapped run is under 5%, there is no
    bottleneck, and the run is bound by its slowest stage; otherwise the slowest stage is the bottleneck. The
    thresholds annotate either way. `variation` is the overlapped steps' standard deviation ÷ mean; `use` holds the
    devices by role (data, model); beside the data device stands D ÷ max(D, M), the most that it can be busy.
    `reads` are the pages of the clips: where they came from memory, a disk may be slower than what was measured.
    """
    slowest = max(stages, key=lambda each: each.mean).stage
    annotations = (
        *_of_shares(stages),
        *_of_variation(stages, variation, variation_within_buckets),
        *_of_use(use or {}, costs),
        *_of_reads(reads),
    )
    if data_wait_share < WAIT_SHARE:
        sentence = f"no bottleneck; bound by {slowest} ({NAMES[slowest]})"
        return Verdict(None, slowest, data_wait_share, sentence, annotations)
    sentence = f"bottleneck: {slowest} ({NAMES[slowest]})"
    return Verdict(slowest, slowest, data_wait_share, sentence, annotations, _explained(slowest, costs))


def _explained(slowest: Stage, costs: Costs) -> str:
    """Explanation why the model waits although training is the slowest stage."""
    if slowest != "train":
        return ""
    if costs.layout == "split" and costs.data > costs.train:
        return (
            f"features and transfer follow one another on one thread: {_ms(costs.data)} together, "
            f"against {_ms(costs.train)} of training"
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


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
