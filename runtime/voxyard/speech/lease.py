"""A lease: a batch that a worker has, until it answers, dies or is late."""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.speech.queue import Entry, Key


@dataclass(slots=True, eq=False)
class Lease:
    """Chunks in the hands of one worker. `left` shrinks as it hands them in."""

    number: int
    size: int  # chunks it began with
    rows: int  # the worker's batch limit at the time: out of memory lowers it
    since: float  # seconds of the scheduler's clock
    deadline: float
    left: dict[Key, Entry]

    @property
    def alone(self) -> bool:
        """Whether a failure can only be its one chunk's."""
        return self.size == 1
