"""Speaks a script from beginning to end, in order, into an audio sink."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from voxyard.speech.audio.joining import Joiner, Pauses
from voxyard.speech.pool.job import ChunkFailedError, Job, Outcome, Progress
from voxyard.speech.pool.pool import Pool
from voxyard.speech.script import Script

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

PROGRESS_SECONDS = 0.5  # between two progress reports
IN_ORDER_SECONDS = 600.0  # longer texts are spoken in text order: audio that waits for its turn is kept in memory


@dataclass
class SynthesisResult:
    """Result of a synthesis; filled while `synthesize` runs, so that an interrupt can report it."""

    total: int
    chunks: int = 0  # joined and written
    spoken: int = 0  # without those that failed; those too that wait for one before them; known at the end
    samples: list[int] = field(default_factory=list)  # of each chunk's sound
    audio_seconds: float = 0.0  # with the pauses
    seconds: float = 0.0  # since it began
    failures: list[ChunkFailedError] = field(default_factory=list)  # of chunks replaced by silence
    reduced: int = 0  # chunks spoken in batches made smaller by a lack of memory or a crash
    batch_sizes: Counter[int] = field(default_factory=Counter)  # chunks by rows of their batch, as the engine reports
    faults: dict[str, int] = field(default_factory=dict)  # of the engine's quality check, after its retries

    @property
    def real_time_factor(self) -> float | None:
        """Seconds of work for a second of audio; below 1 is faster than real time."""
        return self.seconds / self.audio_seconds if self.audio_seconds else None

    def to_json(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            "chunks": self.chunks,
            "total_chunks": self.total,
            "audio_seconds": round(self.audio_seconds, 3),
            "seconds": round(self.seconds, 3),
            "real_time_factor": self.real_time_factor,
            "failed": [{"index": each.index, "text": each.text, "reason": each.reason} for each in self.failures],
            "reduced_batches": self.reduced > 0,
            "batch_sizes": {str(rows): self.batch_sizes[rows] for rows in sorted(self.batch_sizes)},
            "quality": self.faults,
        }


def synthesize(
    script: Script,
    pool: Pool,
    write: Callable[[Audio], None],
    pauses: Pauses,
    result: SynthesisResult,
    progress: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Speak the script and write its audio piece by piece; `result` holds the state at any moment.

    A chunk that fails becomes silence of its estimated length and is listed in `result.failures`: the caller decides
    if that is acceptable. An exception of `write` ends the job.

    Raises:
        JobEndedError: the pool has ended.
    """
    began = time.monotonic()
    job = pool.submit(script.requests, listening=script.estimated_seconds > IN_ORDER_SECONDS, on_failure="silence")
    joiner, endings = Joiner(pauses), [chunk.joint for chunk in script.chunks]
    try:
        with _progress_reports(job, progress):
            for outcome in job.outcomes():
                if outcome.result is None:
                    raise outcome.failure or RuntimeError(f"chunk {outcome.index} has neither audio nor failure")
                _add(result, outcome)
                piece = joiner.add(outcome.result, endings[outcome.index])
                write(piece.audio)
                result.samples.append(piece.end - piece.start)
                result.chunks += 1
                result.audio_seconds += len(piece.audio) / piece.sample_rate
    finally:
        result.seconds, ended = time.monotonic() - began, job.progress
        result.spoken = ended.done - ended.failed
        job.cancel()


def _add(result: SynthesisResult, outcome: Outcome) -> None:
    if outcome.failure is not None:
        result.failures.append(outcome.failure)
    result.reduced += outcome.reduced
    facts = {} if outcome.result is None else outcome.result.facts
    if isinstance(rows := facts.get("batch_size"), int):
        result.batch_sizes[rows] += 1
    faults = facts.get("faults", ())
    for fault in faults if isinstance(faults, (list, tuple)) else ():
        result.faults[fault] = result.faults.get(fault, 0) + 1


@contextmanager
def _progress_reports(job: Job, progress: Callable[[Progress], None]) -> Iterator[None]:
    """Report the job's progress, also while its first chunk is still being spoken."""
    stopped = threading.Event()

    def report() -> None:
        while not stopped.wait(PROGRESS_SECONDS):
            progress(job.progress)

    thread = threading.Thread(target=report, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        progress(job.progress)
