"""Speaks a script from beginning to end, in order, into an audio sink."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from voxyard.speech.audio.joining import Pauses, join
from voxyard.speech.pool.job import ChunkFailedError, Job, Outcome, Progress
from voxyard.speech.pool.pool import Pool
from voxyard.speech.requests import Boundary, Result
from voxyard.speech.script import Script

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

LOOK = 0.5  # seconds between two reports of the progress
IN_ORDER = 600.0  # seconds of sound from which on chunks are spoken in text order: what waits for its turn is in memory


@dataclass
class Narration:
    """State of a narration; filled while `narrate` runs, so that an interrupt can report it."""

    total: int
    chunks: int = 0  # joined and handed on
    audio_seconds: float = 0.0  # with the pauses
    seconds: float = 0.0  # since it began
    failures: list[ChunkFailedError] = field(default_factory=list)  # silence stands in their places
    reduced: int = 0  # chunks of batches that an out-of-memory error had made smaller
    objections: dict[str, int] = field(default_factory=dict)  # what the engine's quality gate could not mend

    @property
    def real_time_factor(self) -> float | None:
        """Seconds of work for a second of sound; below 1 is faster than real time."""
        return self.seconds / self.audio_seconds if self.audio_seconds else None

    def to_json(self) -> dict[str, Any]:
        """For a program to read."""
        return {
            "chunks": self.chunks,
            "total_chunks": self.total,
            "audio_seconds": round(self.audio_seconds, 3),
            "seconds": round(self.seconds, 3),
            "real_time_factor": self.real_time_factor,
            "failed": [{"index": each.index, "text": each.text, "reason": each.reason} for each in self.failures],
            "reduced_batches": self.reduced > 0,
            "quality": self.objections,
        }


def narrate(
    script: Script,
    pool: Pool,
    write: Callable[[Audio], None],
    pauses: Pauses,
    narration: Narration,
    progress: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Speak the script and hand its sound on piece by piece; `narration` tells at any moment how far it is.

    A chunk that fails becomes silence of its length and is named in `narration.failures`; whether that is good
    enough is the caller's to say. What `write` raises ends the job.

    Raises:
        JobEndedError: the pool has ended.
    """
    began = time.monotonic()
    job = pool.submit(script.requests, listening=script.estimated_seconds > IN_ORDER, on_failure="silence")
    endings = [chunk.ending for chunk in script.chunks]

    def spoken() -> Iterator[tuple[Result, Boundary]]:
        for outcome in job.outcomes():
            if outcome.result is None:
                raise outcome.failure or RuntimeError(f"chunk {outcome.index} has neither sound nor failure")
            _note(narration, outcome)
            yield outcome.result, endings[outcome.index]

    try:
        with _watching(job, progress):
            for piece in join(spoken(), pauses):
                write(piece.audio)
                narration.chunks += 1
                narration.audio_seconds += len(piece.audio) / piece.sample_rate
                narration.seconds = time.monotonic() - began
    finally:
        narration.seconds = time.monotonic() - began
        job.cancel()


def _note(narration: Narration, outcome: Outcome) -> None:
    if outcome.failure is not None:
        narration.failures.append(outcome.failure)
    narration.reduced += outcome.reduced
    faults = outcome.result.facts.get("faults", ()) if outcome.result is not None else ()
    for fault in faults if isinstance(faults, (list, tuple)) else ():
        narration.objections[fault] = narration.objections.get(fault, 0) + 1


@contextmanager
def _watching(job: Job, progress: Callable[[Progress], None]) -> Iterator[None]:
    """Reports how far the job is, also while its first chunk is still being spoken."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK):
            progress(job.progress)

    thread = threading.Thread(target=look, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        progress(job.progress)
