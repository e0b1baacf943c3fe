"""Bounds of the ways to train on several devices, from the times of a step's stages. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

SINGLE: Final = "single"
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
        ways = [f"a larger model (--model-size) whose M is near {_ms(data + self.beside)}"]
        if self.train > data:
            ways.insert(0, f"a smaller vocoder (--vocoder-size) whose V is near {_ms(self.train - data)}")
        else:
            ways.insert(0, f"--vocoder-on model, with D of {_ms(data)} and M + V of {_ms(both)}")
        return (
            f"The model device waits {1 - self.train / (data + self.beside):.0%} of a step: D + V take "
            f"{_ms(data + self.beside)}, M takes {_ms(self.train)}. More even is {', or '.join(ways)}"
        )

    def __str__(self) -> str:
        parts = {"D": self.data, "M": self.train, "V": self.beside}
        return ", ".join(f"{name} {_ms(value)}" for name, value in parts.items() if value is not None)


def split_bound(data: float | None, beside: float | None, train: float | None) -> float | None:
    """Upper bound of a split's gain over one device, at most 2: (D + V + M) ÷ max(D + V, M), of seconds a step.

    D is the data stage, V are the updates beside it (None: there are none), M the training stage.
    """
    if not data or not train:
        return None
    on_data = data + (beside or 0.0)
    return (on_data + train) / max(on_data, train)


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


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
