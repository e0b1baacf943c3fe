"""Times of a step's stages, and what each way to train can reach by them. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from voxyard.trainer.devices.placement import Kind
from voxyard.trainer.reporting.figures import took

STEPS_NEEDED: Final = 10  # timed, beside those that were traced (compiled); a figure of fewer is not measured
ALONE_NEEDED: Final = 1  # where a stage is timed alone, between barriers: such a time has nothing else in it

SINGLE: Final = "single"
FEATURES: Final = "single, precomputed features"
SPLIT: Final = "split"
MIRRORED: Final = "mirrored"
ON_DATA, ON_MODEL = "split, vocoder on data", "split, vocoder on model"  # a split of two networks: --vocoder-on

BUSY = 0.8  # share of a step in which the model device computes: a run's target
WORTH_A_SPLIT = 1.2  # bound of a split's gain below which its second device is better used otherwise


@dataclass(frozen=True)
class StepStages:
    """Seconds of the stages of a step: D, M and V."""

    data: float  # D: features and copy
    train: float  # M: the updates of the model device, without those of the second network where these were timed
    beside: float | None = None  # V: those of the second network; None where there is none, or M has them
    two_networks: bool = False
    beside_on: str | None = None  # where the run that was timed made V

    @property
    def in_turn(self) -> float:
        """Seconds of all stages after each other on one device."""
        return self.data + self.train + (self.beside or 0.0)

    @property
    def on_data(self) -> float:
        """Seconds of the stages that a split of the run that was timed has on its data device."""
        return self.data + (self.beside or 0.0 if self.beside_on == "data" else 0.0)

    @property
    def longer(self) -> float:
        """Seconds of the device with more to do in that split, which is how long its steps are at least."""
        return max(self.on_data, self.in_turn - self.on_data)

    def bounds(self, devices: int = 2) -> dict[str, float]:
        """The most that each way gains over one device that makes all stages in turn, by its name.

        A split is as fast as the device with more to do: (D + V + M) ÷ max(D + V, M) with the vocoder beside the
        features, (D + V + M) ÷ max(D, V + M) with both networks on the model device, (D + M) ÷ max(D, M) with one
        network. Mirrored devices do all of it, each for clips of its own: their number.
        """
        data, train, beside = self.data, self.train, self.beside or 0.0
        found = {ON_MODEL if self.two_networks else SPLIT: self.in_turn / max(data, train + beside)}
        if self.beside is not None:
            found = {ON_DATA: self.in_turn / max(data + beside, train)} | found
        return found | {MIRRORED: float(devices)}

    def ceilings(self, rows: int, *, timed_by: str, devices: int, kind: Kind) -> dict[str, float]:
        """Clips a second that each way cannot exceed, by its name, where the stages took these times for `rows` clips.

        `timed_by` is the way whose trial timed them. A logical CPU device that is alone has the cores of all `devices`:
        what was timed on a part of them may be as many times as fast there. Where V was not timed apart, the second
        network may be placed so that both devices have the same to do.
        """
        on_all_cores = devices if kind == "cpu" and timed_by not in (SINGLE, FEATURES) else 1
        train = self.train + (self.beside or 0.0)
        found = {name: bound / self.in_turn for name, bound in self.bounds(devices).items()}
        if self.two_networks:
            if self.beside is None:
                found[ON_DATA] = 2 / self.in_turn
            found[SPLIT] = max(found[ON_DATA], found[ON_MODEL])  # of a model of the user's own, which has one placement
        found[SINGLE] = on_all_cores / max(self.data, train)
        found[FEATURES] = on_all_cores / train
        return {name: rows * per_second for name, per_second in found.items()}

    @classmethod
    def of_report(cls, report: Mapping[str, Any]) -> Self | None:
        """Times of a run, by the fields of its report; None where one was not measured."""
        data, train, beside = (report[f"{stage}_stage_seconds"] for stage in ("data", "train", "beside"))
        if not data or not train or (report["beside_names"] and not beside):
            return None
        own = train if not beside or report["beside_on"] == "data" else train - beside
        return cls(data, own, beside, two_networks=report["two_networks"], beside_on=report["beside_on"])

    def advice(self) -> str | None:
        """Sentence about a split whose model device waits for the vocoder beside it, with what evens it out."""
        if self.beside is None or self.beside_on != "data" or self.train >= BUSY * (self.data + self.beside):
            return None
        data, both = self.data, self.train + self.beside
        ways = [f"a larger model (--model-size) whose M is near {took(data + self.beside)}"]
        if self.train > data:
            ways.insert(0, f"a smaller vocoder (--vocoder-size) whose V is near {took(self.train - data)}")
        else:
            ways.insert(0, f"--vocoder-on model, with D of {took(data)} and M + V of {took(both)}")
        return (
            f"The model device waits {1 - self.train / (data + self.beside):.0%} of a step: D + V take "
            f"{took(data + self.beside)}, M takes {took(self.train)}. More even is {', or '.join(ways)}"
        )

    def __str__(self) -> str:
        parts = {"D": self.data, "M": self.train, "V": self.beside}
        return ", ".join(f"{name} {took(value)}" for name, value in parts.items() if value is not None)


def listed(bounds: Mapping[str, float]) -> str:
    """Bounds in words, the highest first."""
    return "; ".join(f"{name} {bound:.2f}×" for name, bound in sorted(bounds.items(), key=lambda item: -item[1]))


def little_gain(bounds: Mapping[str, float], chosen: str, *, second_network: bool) -> str | None:
    """Sentence about a split that cannot gain much, with what can; None for one that can.

    `chosen` is its name in `bounds`; `second_network`: there could be one.
    """
    bound = bounds[chosen]
    if bound >= WORTH_A_SPLIT:
        return None
    better = []
    other = {ON_DATA: ON_MODEL, ON_MODEL: ON_DATA}.get(chosen)
    if other is not None and bounds.get(other, 0.0) >= WORTH_A_SPLIT:
        better.append(f"--vocoder-on {other.rpartition(' ')[2]} can gain {bounds[other]:.2f} times")
    better.append("--strategy mirrored trains on both devices")
    if second_network:
        better.append("--networks acoustic,vocoder gives the data device a vocoder to train")
    return (
        f"This split can gain at most {bound:.2f} times over one device: one of its devices has little to do. "
        f"{', '.join(better)}; --strategy auto times what there is"
    )


def too_few(timed: int, needed: int = STEPS_NEEDED) -> str:
    """The reason why a figure of so many timed steps is none."""
    return f"too few steps to measure ({timed} of {needed})"


def too_few_to_be_sure(timed: float | None) -> str:
    """Caveat behind a figure that so many timed steps gave; empty where they are enough, or not known (None)."""
    return "" if timed is None or timed >= STEPS_NEEDED else f"; too few steps to be sure ({timed:g} of {STEPS_NEEDED})"
