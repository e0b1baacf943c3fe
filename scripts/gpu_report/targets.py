"""Figures of a report beside their targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

EVEN = 0.7, 1.4  # data stage ÷ model stage, within which an overlap is judged
SPLIT = "two networks, split"  # the trial's step
ONE_GPU = "needs two GPUs"


@dataclass(frozen=True)
class FigureTarget:
    """Limit of a figure: at least, or at most."""

    step: str
    figure: str
    text: str  # for people
    least: float | None = None
    most: float | None = None
    two_gpus: bool = False

    @property
    def limit(self) -> str:
        """The limit as people write it."""
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"

    def met(self, value: float) -> bool:
        """True where a value keeps the limit; a value that is no number does not."""
        if math.isnan(value):
            return False
        return value >= self.least if self.least is not None else value <= (self.most or 0.0)


TARGETS = (
    FigureTarget("bench-trainer", "overlap", "overlapped rate ÷ ideal rate of two GPUs", least=0.95, two_gpus=True),
    FigureTarget("bench-trainer", "mirrored_vs_single", "clips a second: two GPUs ÷ one", least=1.8, two_gpus=True),
    FigureTarget("bench-trainer", "vs_keras_fit", "Keras' fit ÷ voxyard, seconds a step", least=1.0),
    FigureTarget("bench-trainer", "telemetry", "seconds a step without ÷ with telemetry", least=0.99),
    FigureTarget(
        "bench-trainer", "demo_data_wait", "share of the steps' time that waits for data, demo corpus", most=0.05
    ),
    FigureTarget("bench-trainer", "memory_growth", "growth of resident memory, step 200 to 2,000", most=0.02),
    FigureTarget("profile-trace", "features_vs_trace", "features: profile beside the profiler's trace", most=0.10),
    FigureTarget("profile-trace", "train_vs_trace", "training step: profile beside the profiler's trace", most=0.10),
    FigureTarget(
        "libraries", "libraries_that_work", "share of TensorFlow's CUDA that works, piece by piece", least=1.0
    ),
    FigureTarget(
        "training", "data_wait_share", "share of the steps' time that waits for data, a trial's run", most=0.05
    ),
    FigureTarget("training", "step_time_variation", "variation of the steps' time, a trial's run", most=0.30),
    FigureTarget(SPLIT, "data_part_busy", "busy share of the data part of one card", least=0.5),
    FigureTarget(SPLIT, "model_part_busy", "busy share of the model part of one card", least=0.8),
    FigureTarget(
        "exporter", "readings_that_agree", "share of the exporter's readings that agree with nvidia-smi", least=1.0
    ),
    FigureTarget("bench-bark", "preset_end_to_end_vs_transformers", "Bark on the CPU ÷ transformers", least=3.0),
    FigureTarget("bench-bark", "decode_vs_floor", "Bark's decode step on the CPU beside its memory", least=0.8),
    FigureTarget("bench-bark", "first_sound_vs_first_sentence", "first sound ÷ first sentence alone", most=1.2),
    FigureTarget("bench-bark", "tiny_vs_transformers", "narrow Bark models ÷ transformers: 2 layers", least=4.0),
    FigureTarget("bench-bark", "narrow24_vs_transformers", "narrow Bark models ÷ transformers: 24 layers", least=4.0),
)


@dataclass(frozen=True)
class Figure:
    """A figure of a report; `value` is None where it was not measured, `met` where it is not judged."""

    step: str
    figure: str
    text: str
    value: float | None
    target: str
    met: bool | None
    why: str  # it is not judged


def figures(steps: Sequence[Mapping[str, Any]], *, stand_in: bool, gpus: int) -> list[dict[str, Any]]:
    """Every figure of the steps that were taken: those with a target first."""
    ratios = {step["name"]: dict(step["result"].get("ratios", {})) for step in steps}
    found = [asdict(_judged(target, ratios, stand_in, gpus)) for target in TARGETS if target.step in ratios]
    known = {(target.step, target.figure) for target in TARGETS}
    return found + [asdict(each) for each in _others(ratios, known)]


def _judged(target: FigureTarget, ratios: Mapping[str, Mapping[str, float]], stand_in: bool, gpus: int) -> Figure:
    value = ratios[target.step].get(target.figure)
    why = ""
    if value is None:
        why = ONE_GPU if target.two_gpus and gpus == 1 else "not measured"
    elif stand_in:
        why = "stand-in"
    elif target.figure == "overlap":
        even = ratios[target.step].get("data_vs_model", 1.0)
        if not EVEN[0] <= even <= EVEN[1]:
            why = f"data ÷ model stage is {even:.2f}, outside {EVEN[0]} to {EVEN[1]}"
    met = None if why or value is None else target.met(value)
    return Figure(target.step, target.figure, target.text, value, target.limit, met, why)


def _others(ratios: Mapping[str, Mapping[str, float]], known: set[tuple[str, str]]) -> Iterator[Figure]:
    for step, found in ratios.items():
        for name, value in found.items():
            if (step, name) not in known:
                yield Figure(step, name, "", value, "", None, "")
