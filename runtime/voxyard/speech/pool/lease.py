"""Lease: a chunk that a worker holds until it answers, dies or times out."""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.speech.pool.queue import Entry


@dataclass(frozen=True, slots=True, eq=False)
class Lease:
    """One chunk in the hands of one worker, which may have several."""

    number: int
    entry: Entry
    since: float  # seconds of the scheduler's clock
