"""Trials of the ways to train: what was timed, what follows from it, and what is timed next. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, median
from typing import Any, Self

from voxyard.trainer.devices.placement import Kind
from voxyard.trainer.reporting.bounds import (
    ON_DATA,
    ON_MODEL,
    SINGLE,
    SPLIT,
    STEPS_NEEDED,
    StepStages,
    too_few_to_be_sure,
)

REPEATED = 2  # trials of each way that is timed: one alone may be of a moment when the host was busy
FEWEST_TRIALS, MOST_TRIALS = 3, 5  # of the fastest, and of those that may be it: more where that is not clear
MARGIN = 1.05  # a way whose ceiling is not so many times the fastest rate cannot be clearly faster: it is not timed


@dataclass(frozen=True, slots=True)
class Timed:
    """Timing of a trial."""

    clips_per_second: float
    note: str
    of_disk: bool  # what was read came from where training reads, and not from the page cache
    stages: StepStages | None = None  # None where a stage was not timed often enough
    rows: int = 1  # clips of a batch of these stages
    seconds: float = 0.0  # that the whole trial took, its start included
    steps: int = STEPS_NEEDED  # that were timed

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The trial of a mapping as `asdict` makes it. Raises TypeError or KeyError where it is something else."""
        stages = document["stages"]
        return cls(**{**document, "stages": None if stages is None else StepStages(**stages)})


@dataclass
class Trials:
    """Trials of `ways` so far, on a host with this kind and number of devices."""

    ways: Sequence[str]
    devices: int
    kind: Kind
    timed: dict[str, list[Timed]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # reasons

    def add(self, name: str, one: Timed) -> None:
        """Takes a trial."""
        self.timed.setdefault(name, []).append(one)

    def fail(self, name: str, why: str) -> None:
        """Takes a way out that could not be timed."""
        self.failed[name] = why
        self.timed.pop(name, None)

    def rates(self, name: str) -> list[float]:
        """Clips a second of the trials of a way."""
        return [each.clips_per_second for each in self.timed.get(name, ())]

    def rate(self, name: str) -> float | None:
        """Their median; None of a way that was not timed."""
        return median(rates) if (rates := self.rates(name)) else None

    def stages(self) -> StepStages | None:
        """Median times of a step's stages, of the way that tells them best: one with each on a device of its own."""
        for name in (ON_DATA, ON_MODEL, SPLIT, SINGLE):
            known = [each.stages for each in self.timed.get(name, ()) if each.stages is not None]
            if known:
                parts = ("data", "train", "beside") if known[0].beside is not None else ("data", "train")
                return replace(known[0], **{part: median(getattr(each, part) for each in known) for part in parts})
        return None

    def compared(self) -> tuple[str, ...]:
        """Ways that can be compared: where clips of some came from memory and others' from disk, the latter."""
        of_disk = tuple(name for name, timed in self.timed.items() if all(each.of_disk for each in timed))
        return of_disk or tuple(self.timed)

    def close(self) -> tuple[str, ...]:
        """Those of the comparable ones that may be the fastest: the one with the highest median first.

        Beside it those with a trial that was as fast as its slowest. The choice is clear where there are none.
        """
        ordered = sorted(self.compared(), key=lambda name: -median(self.rates(name)))
        slowest = min(self.rates(ordered[0])) if ordered else 0.0
        return tuple(name for name in ordered if name == ordered[0] or max(self.rates(name)) >= slowest)

    def best(self) -> tuple[str, float] | None:
        """The fastest so far and its median rate."""
        close = self.close()
        return (close[0], median(self.rates(close[0]))) if close else None

    def ceiling(self, name: str) -> float | None:
        """Clips a second that a way cannot exceed, by the stages that trials timed; None where that is not known.

        Of the trials of one way the most, as one may be of a busy moment; of several ways the least.
        """
        by_way = []
        for source, timed in self.timed.items():
            each = [
                one.stages.ceilings(one.rows, timed_by=source, devices=self.devices, kind=self.kind).get(name)
                for one in timed
                if one.stages is not None
            ]
            by_way += [max(known)] if (known := [most for most in each if most is not None]) else []
        return min(by_way, default=None)

    def cannot_win(self, name: str) -> bool:
        """True of a way whose ceiling is not clearly above the fastest so far."""
        best, most = self.best(), self.ceiling(name)
        return best is not None and most is not None and most < MARGIN * best[1]

    def skipped(self) -> dict[str, float]:
        """Ways that are not timed because they cannot win, and their ceilings in clips a second."""
        left = (name for name in self.ways if name not in self.timed and name not in self.failed)
        return {name: most for name in left if (most := self.ceiling(name)) is not None and self.cannot_win(name)}

    def next(self) -> str | None:
        """The way to time next, None where the choice is as clear as it becomes.

        First one that tells the times of all stages apart; then each in turn that can win, and one device once, which
        gains are told over; twice each, and the fastest and those close to it again.
        """
        possible = [name for name in self._ordered() if name not in self.failed]
        if len(possible) < 2:
            return next((name for name in possible if name not in self.timed), None)
        wanted = [name for name in possible if self._wants(name)]
        return min(wanted, key=self._count, default=None)

    def expected_seconds(self, name: str) -> float:
        """Seconds of another trial of a way: as its longest, or as others in the mean; 0 where none is known."""
        own = [each.seconds for each in self.timed.get(name, ())]
        if own:
            return max(own)
        return fmean(each.seconds for timed in self.timed.values() for each in timed) if self.timed else 0.0

    def seconds_left(self) -> float:
        """Seconds until the choice is made, where it becomes clear soon."""
        best = self.best()
        possible = [name for name in self.ways if name not in self.failed]
        left = 0.0
        for name in possible if len(possible) > 1 else ():
            due = FEWEST_TRIALS if best is not None and name == best[0] else REPEATED
            left += self.expected_seconds(name) * (max(due - self._count(name), 0) if self._wants(name) else 0)
        return left

    def gains(self) -> dict[str, dict[str, float | None]]:
        """Of each way its clips_per_second, the bound of its gain over one device, and what it reached of that.

        With the fewest timed_steps of a trial that this is from, of its own or of one device's. Of a way that was
        skipped it is the bound alone. Bounds follow from the times of a step's stages; None where these or the rate of
        one device are not known.
        """
        stages = self.stages()
        bounds = {} if stages is None else stages.bounds(self.devices)
        if stages is not None and stages.two_networks:  # of a model of the user's own, whose split has one placement
            bounds[SPLIT] = bounds[ON_DATA if stages.beside_on == "data" else ON_MODEL]
        alone = self.rate(SINGLE)
        return {
            name: {
                "clips_per_second": rate,
                "bound": 1.0 if name == SINGLE else bounds.get(name),
                "reached": rate / alone if alone and rate else None,
                "timed_steps": self._fewest_steps(name) if rate else None,
            }
            for name in (*self.timed, *self.skipped())
            for rate in [self.rate(name)]
        }

    def told_bounds(self) -> Iterator[str]:
        """Sentences on the bounds of what was timed, and on what was reached, by the times of a step's stages."""
        if (stages := self.stages()) is None:
            return
        found = self.gains()
        yield f"a step takes {stages}; most that can be gained over one device, and what was:"
        width = max(len(name) for name in found)
        for name, gain in found.items():
            if name != SINGLE and gain["bound"] is not None:
                reached = "not compared with one device"
                if gain["reached"]:
                    reached = f"reached {gain['reached']:.2f}×{too_few_to_be_sure(gain['timed_steps'])}"
                if name not in self.timed:
                    reached = "not timed: it could not win"
                yield f"  {name:<{width}}  bound {gain['bound']:.2f}×, {reached}"
        if self.kind == "cpu" and self.devices > 1:
            yield "  bounds are of devices of their own: a logical CPU device that is alone has the cores of all"

    def to_json(self) -> dict[str, Any]:
        """What was timed and what failed as plain data."""
        return {
            "timed": {name: [asdict(each) for each in timed] for name, timed in self.timed.items()},
            "failed": self.failed,
        }

    def _fewest_steps(self, name: str) -> int:
        return min(each.steps for way in (name, SINGLE) for each in self.timed.get(way, ()))

    def _ordered(self) -> list[str]:
        first = next((name for name in (ON_DATA, SPLIT, ON_MODEL, SINGLE) if name in self.ways), None)
        return sorted(self.ways, key=lambda name: name != first)

    def _count(self, name: str) -> int:
        return len(self.timed.get(name, ()))

    def _wants(self, name: str) -> bool:
        """True where another trial of a way may change the choice."""
        count = self._count(name)
        if count == 0:
            return name == SINGLE or not self.cannot_win(name)
        if count < REPEATED:
            return True
        close = self.close()
        return name in close and (count < FEWEST_TRIALS or (len(close) > 1 and count < MOST_TRIALS))
