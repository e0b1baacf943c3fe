"""Cause of a bottleneck by name, from the table that alerts and dashboards read. No TensorFlow.

The same thresholds as in deploy/prometheus/rules/causes.yaml, on the seconds that a profile measures itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.diagnose.profile.stages import Stage
from voxyard.telemetry.causes import BY_NAME, Cause

WAITING = 0.5  # below this share of its time a reading thread waits more than it computes
MOST_CORES = 0.7  # of the usable cores: reading takes all of them
ONE_CORE = (0.7, 1.3)
TAKING_TURNS = 0.75  # a thread that computes more of its time is not held up by the others
LOCK_HELD = 0.5  # share of the looks: somebody always holds the interpreter's lock
CONTENDED = 0.3  # share of the cores' time that others took while none was free
SHARING = (0.3, 0.8)  # a thread that computes less mostly waits for a disk, one that computes more has its core


@dataclass(frozen=True)
class ReadingThreads:
    """Reading threads of a run, as they worked alone."""

    threads: int
    cores: int  # that the run may use
    computing: float  # share of their time in which they compute, 0…1
    taken: float  # cores that they take together
    lock_held: float  # share of the looks at which one of them held the interpreter's lock, 0…1


def cause_of(bottleneck: Stage | None, reading: ReadingThreads, *, contended: float = 0.0) -> Cause | None:
    """The cause of a bottleneck; None where there is none, or training is the slowest stage by its nature.

    `contended` is the share of the cores' time that other programs took while no core was free.
    """
    if bottleneck is None or bottleneck == "train":
        return None
    return BY_NAME[_of_reading(reading, contended) if bottleneck == "load" else bottleneck]


def _of_reading(reading: ReadingThreads, contended: float) -> str:
    least, most = ONE_CORE
    takes_turns = reading.threads > 1 and reading.computing < TAKING_TURNS and least < reading.taken < most
    if takes_turns and (reading.cores == 1 or reading.lock_held > LOCK_HELD):
        return "input_one_core"
    if reading.taken > MOST_CORES * reading.cores:
        return "input_decode"
    if contended > CONTENDED and SHARING[0] <= reading.computing < SHARING[1]:
        return "cpu_pressure"
    return "input_storage" if reading.computing < WAITING else "input_workers"
