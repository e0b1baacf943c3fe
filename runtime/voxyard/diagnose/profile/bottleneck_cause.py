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


@dataclass(frozen=True)
class ReadingThreads:
    """Reading threads of a run, as they worked alone."""

    threads: int
    cores: int  # that the run may use
    computing: float  # share of their time in which they compute, 0…1
    taken: float  # cores that they take together
    from_memory: bool  # clips came from the page cache: nothing is known of the disk


def cause_of(bottleneck: Stage | None, reading: ReadingThreads) -> Cause | None:
    """The cause of a bottleneck; None where there is none, or training is the slowest stage by its nature."""
    if bottleneck is None or bottleneck == "train":
        return None
    return BY_NAME[_of_reading(reading) if bottleneck == "load" else bottleneck]


def _of_reading(reading: ReadingThreads) -> str:
    least, most = ONE_CORE
    takes_turns = reading.threads > 1 and reading.computing < TAKING_TURNS and least < reading.taken < most
    if takes_turns and (reading.cores == 1 or reading.from_memory):
        return "input_one_core"
    if reading.taken > MOST_CORES * reading.cores:
        return "input_decode"
    return "input_storage" if reading.computing < WAITING else "input_workers"
