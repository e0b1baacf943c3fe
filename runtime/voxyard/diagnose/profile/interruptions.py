"""Interruptions of the steps: one checkpoint and one validation, timed, and the share of a run that they take."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxyard.telemetry.causes import BY_NAME, Cause
from voxyard.trainer import checkpoint

if TYPE_CHECKING:
    from voxyard.trainer.loop import Run

MOST_SHARE = {"checkpoint": 0.25, "validation": 0.50}
"""Shares of a run's time from which alerts name these causes too (deploy/prometheus/rules/causes.yaml)."""


@dataclass(frozen=True)
class Interruption:
    """Work that stops the steps every so often."""

    cause: str  # checkpoint or validation, by the table of causes
    every: int  # steps
    seconds: float | None  # in which the steps wait, each time; None where it was not measured
    note: str  # what was measured, or why nothing was


@dataclass(frozen=True)
class Interruptions:
    """Interruptions of a run, beside the seconds of its steps."""

    step: float
    each: tuple[Interruption, ...] = ()

    def share(self, one: Interruption) -> float | None:
        """Share of the run's time that this one takes; None where it was not measured."""
        if one.seconds is None:
            return None
        per_step = [other.seconds / other.every for other in self.each if other.seconds is not None]
        return one.seconds / one.every / (self.step + sum(per_step))

    @property
    def too_long(self) -> Iterator[tuple[Cause, float]]:
        """Those that take more of the time than alerts let pass, with their share."""
        for one in self.each:
            share = self.share(one)
            if share is not None and share > MOST_SHARE[one.cause]:
                yield BY_NAME[one.cause], share

    def lines(self) -> Iterator[str]:
        """A line for each."""
        for one in self.each:
            share = self.share(one)
            if one.seconds is None or share is None:
                yield f"{one.cause}: not measured: {one.note}"
            else:
                yield f"{one.cause}: {one.seconds:.3g} s every {one.every} steps, {share:.1%} of the time ({one.note})"

    def document(self) -> list[dict[str, Any]]:
        """Everything as plain data."""
        return [asdict(one) | {"share": self.share(one)} for one in self.each]


def measure_interruptions(run: Run, step: float, batches: int, checkpoints: Path) -> Interruptions:
    """Times a checkpoint and a validation of at most so many of its batches; `step` is seconds a step.

    A checkpoint is written beside the steps: they wait for the copy of the state, and where it takes longer than the
    steps up to the next one, for the rest. It is written to where the run's own `checkpoints` are, or to the first
    folder above that there is: on the same disk; and removed again.
    """
    return Interruptions(step, (_checkpoint(run, step, checkpoints.absolute()), _validation(run, batches)))


def _checkpoint(run: Run, step: float, place: Path) -> Interruption:
    every = run.config.training.checkpoint_every
    while not place.is_dir() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryDirectory(prefix=".voxyard-profile-", dir=place) as directory:
            begin = time.perf_counter()
            state = run.step.state()
            copied = time.perf_counter()
            path = checkpoint.save(Path(directory), 0, state, {}, keep=1)
            written = time.perf_counter()
            size = sum(file.stat().st_size for file in path.iterdir())
    except (OSError, checkpoint.CheckpointError) as error:
        return Interruption("checkpoint", every, None, str(error))
    return Interruption(
        "checkpoint",
        every,
        _waited(copied - begin, written - copied, every * step),
        f"{size / 2**20:.0f} MiB, written in {written - copied:.3g} s beside the steps to {place} and removed",
    )


def _waited(copying: float, writing: float, until_next: float) -> float:
    """Seconds for which the steps wait for a checkpoint; the next one is due after so many seconds of steps."""
    return copying + max(0.0, writing - until_next)


def _validation(run: Run, most: int) -> Interruption:
    every, held_out = run.config.training.validate_every, run.open_validation()
    if held_out is None or not held_out.batches:
        return Interruption("validation", every, None, "no clip is held out (--validation-share)")
    held_out.trace(run.step)
    total, stride = held_out.batches, -(-held_out.batches // most)
    begin = time.perf_counter()
    held_out.run(run.step, every=stride)
    seconds, done = time.perf_counter() - begin, -(-total // stride)
    return Interruption("validation", every, seconds / done * total, f"{done} of its {total} batches measured")
