"""Trials of the ways to train: what was timed, and which of them is to be timed next. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, median
from typing import Any, Self

from voxyard.trainer.autotune.candidates import comparable, contenders
from voxyard.trainer.devices.placement import Kind
from voxyard.trainer.reporting.bounds import ON_DATA, ON_MODEL, SINGLE, SPLIT, StepStages

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
    steps: int | None = None  # that were timed; None: an older version kept the trial

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

    def fewest_steps(self) -> dict[str, int]:
        """The fewest timed steps of a trial of each way; without the ways of which that is not known."""
        known = {name: [one.steps for one in timed if one.steps is not None] for name, timed in self.timed.items()}
        return {name: min(steps) for name, steps in known.items() if steps}

    def of_disk(self) -> set[str]:
        """Ways all of whose trials read from where training reads."""
        return {name for name, timed in self.timed.items() if all(each.of_disk for each in timed)}

    def close(self) -> tuple[str, ...]:
        """Those of the comparable ones that may be the fastest, the fastest first; none where there are no trials."""
        compared, _ = comparable(self.timed, self.of_disk())
        return contenders({name: self.rates(name) for name in self.timed if name in compared}) if compared else ()

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

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """The trials as plain data."""
        return {name: [asdict(each) for each in timed] for name, timed in self.timed.items()}

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
