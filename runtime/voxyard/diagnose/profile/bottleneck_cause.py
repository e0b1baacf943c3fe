"""Cause of a bottleneck by name, from the table that alerts and dashboards read. No TensorFlow.

The same thresholds as in deploy/prometheus/rules/causes.yaml, on the seconds that a profile measures itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from voxyard.diagnose.profile.stages import Stage
from voxyard.telemetry.causes import BY_NAME, Cause

WAITING = 0.5  # below this share of its time a reading thread waits more than it computes
MOST_CORES = 0.7  # of the usable cores: reading takes all of them
ONE_CORE = (0.7, 1.3)
TAKING_TURNS = 0.75  # a thread that computes more of its time is not held up by the others
LOCK_HELD = 0.5  # share of the looks: somebody always holds the interpreter's lock
QUEUED = 0.2  # share of their time in which threads wait for a core
CONTENDED = 0.3  # share of the cores' time that others took while none was free
SHARING = (0.3, 0.8)  # a thread that computes less may wait for a disk, too, one that computes more has its core
BUSY = 0.7  # share of its time: a GPU that is less busy lacks work, whatever its parts do
SMALL = {"sm": 0.35, "dram": 0.4, "tensor": 0.2}  # under all of them a busy GPU is filled in part
MEMORY_BOUND = (0.6, 0.4)  # bandwidth of the memory above, tensor cores below


@dataclass(frozen=True)
class ReadingThreads:
    """Reading threads of a run, as they worked alone."""

    threads: int
    cores: int  # that the run may use
    computing: float  # share of their time in which they compute, 0…1
    taken: float  # cores that they take together
    lock_held: float  # share of the looks at which one of them held the interpreter's lock, 0…1
    queued: float | None = None  # share of their time in which they could compute and no core was free; None: not known
    in_memory: bool = False  # all that they read lay in memory: they cannot wait for a disk

    @property
    def idle(self) -> float:
        """Share of their time in which they waited, for a core where that is not known apart."""
        return 1 - self.computing - (self.queued or 0.0)


def cause_of(bottleneck: Stage | None, reading: ReadingThreads, *, contended: float = 0.0) -> Cause | None:
    """The cause of a bottleneck; None where there is none or none is known, or training is the slowest by its nature.

    `contended` is the share of the cores' time that other programs took while no core was free.
    """
    if bottleneck is None or bottleneck == "train":
        return None
    name = _of_reading(reading, contended) if bottleneck == "load" else bottleneck
    return None if name is None else BY_NAME[name]


def second_of(first: Cause | None, reading: ReadingThreads) -> tuple[Cause, float] | None:
    """What delays reading threads beside the first cause, and its share of both delays, 0…1; None: nothing does."""
    delays = {"cpu_pressure": reading.queued or 0.0, "input_storage": 0.0 if reading.in_memory else reading.idle}
    if first is None or first.name not in delays or reading.queued is None:
        return None
    (other,) = delays.keys() - {first.name}
    return (BY_NAME[other], delays[other] / sum(delays.values())) if delays[other] > QUEUED else None


def cause_of_activity(utilization: float | None, parts: Mapping[str, float]) -> Cause | None:
    """Why a busy GPU does little, by what its parts do; None where it does much, or where that is not known."""
    if utilization is None or utilization < BUSY or not SMALL.keys() <= parts.keys():
        return None
    least_memory, most_tensor = MEMORY_BOUND
    if parts["dram"] > least_memory and parts["tensor"] < most_tensor:
        return BY_NAME["memory_bound"]
    return BY_NAME["small_kernels"] if all(parts[name] < most for name, most in SMALL.items()) else None


def _of_reading(reading: ReadingThreads, contended: float) -> str | None:
    least, most = ONE_CORE
    takes_turns = reading.threads > 1 and reading.computing < TAKING_TURNS and least < reading.taken < most
    if takes_turns and (reading.cores == 1 or reading.lock_held > LOCK_HELD):
        return "input_one_core"
    if reading.taken > MOST_CORES * reading.cores:
        return "input_decode"
    if reading.queued is not None:
        if reading.queued > QUEUED and reading.queued > reading.idle:
            return "cpu_pressure"
    elif contended > CONTENDED and reading.computing < SHARING[1]:
        return "cpu_pressure" if reading.in_memory or reading.computing >= SHARING[0] else None
    if reading.idle > 1 - WAITING:
        return None if reading.in_memory else "input_storage"
    return "input_workers" if reading.computing >= WAITING else None
