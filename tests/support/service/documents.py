"""Documents for the queue, a pool without processes, and an engine that leaves a mark for each chunk it synthesizes."""

from __future__ import annotations

import itertools
import os
import queue
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from engines import TonesEngine, sound

from voxyard.service.documents.records import Document, NewChunk, NewDocument, Upload
from voxyard.service.documents.store import Store
from voxyard.speech.engine import Answer, ChunkSource
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.job import ChunkFailedError, Job, OnFailure, Outcome
from voxyard.speech.pool.pool import Pool
from voxyard.speech.requests import SAMPLE_RATE, Request, Result

SAMPLES = 24  # a character of the text


def new_document(number: int, chunks: int = 3, **changes: Any) -> NewDocument:
    """A document of so many chunks; the number makes its id and its words."""
    words = [f"Document {number} says {'more ' * (index % 4)}{index}." for index in range(chunks)]
    text, found, at = " ".join(words), [], 0
    for index, (word, ending) in enumerate(zip(words, itertools.cycle(("sentence", "paragraph", "clause")))):
        found.append(NewChunk(index, at, at + len(word), ending, len(word) * SAMPLES / SAMPLE_RATE))  # type: ignore[arg-type]
        at += len(word) + 1
    fields: dict[str, Any] = {
        "id": f"{number:032x}", "owner": "", "title": f"Document {number}", "text": text, "chunks": tuple(found),
        "created": time.time(), "voice": "en_1", "seed": number,
    }  # fmt: skip
    return NewDocument(**(fields | changes))


def no_upload(document: Document, upload: Upload, cancelled: threading.Event) -> NewDocument:
    """Reads uploads where no document has one."""
    raise AssertionError(f"document {document.id} has an upload")


def words_of(new: NewDocument) -> list[str]:
    """The texts of its chunks."""
    return [new.text[chunk.start : chunk.end] for chunk in new.chunks]


def audio_of(new: NewDocument, index: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Audio of the engine for a chunk."""
    return sound(Request(index, words_of(new)[index], voice=new.voice, seed=new.seed), SAMPLES)


class OwningStore(Store):
    """Store of a service that synthesizes all documents, and so may write their progress."""

    def accept(self, new: NewDocument) -> tuple[Document, bool]:
        accepted = super().accept(new)
        self._take_all()
        return accepted

    def retry(self, id: str) -> Document:
        retried = super().retry(id)
        self._take_all()
        return retried

    def _take_all(self) -> None:
        self.claims.look_again()
        while self.claims.take() is not None:
            pass


class ThreadPool(Pool):
    """A pool of one thread that speaks at once, in any order, what it is asked; it can be held, fail, or end."""

    ended: SpeechError | None = None
    waiting: str | None = None
    rows = 1000

    def __init__(self, *, silent: bool = False) -> None:
        self.submitted: list[tuple[Request, ...]] = []
        self.listening: list[tuple[int, bool]] = []  # job, whether
        self.tenants: list[tuple[str, float]] = []  # of the jobs, with their shares
        self.cancelled: set[int] = set()
        self.most_at_once = 0
        self.fails: Callable[[Request], str | None] = lambda _: None
        self.going = threading.Event()
        if not silent:
            self.going.set()
        self._jobs: dict[int, Job] = {}
        self._numbers = itertools.count()
        self._work: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._random = random.Random(5)
        self._thread = threading.Thread(target=self._speak, name="fake pool", daemon=True)
        self._thread.start()

    def submit(
        self,
        requests: Sequence[Request],
        *,
        priority: int = 0,
        listening: bool = False,
        on_failure: OnFailure = "fail",
        deliver: Callable[[Outcome], None] | None = None,
        tenant: str = "",
        share: float = 1.0,
    ) -> Job:
        """As the pool's."""
        self.tenants.append((tenant, share))
        if self.ended is not None:
            raise self.ended
        number = next(self._numbers)
        job = Job(
            number,
            requests,
            on_failure,
            cancel=lambda: self.cancelled.add(number),
            listen=lambda listening: self.listening.append((number, listening)),
            deliver=deliver,
        )
        if listening:
            self.listening.append((number, True))
        self.submitted.append(tuple(requests))
        self._jobs[number] = job
        self.most_at_once = max(self.most_at_once, sum(not each.finished for each in self._jobs.values()))
        self._work.put(job)
        return job

    def end(self, reason: str) -> None:
        """Break down, as a pool might."""
        self.ended = SpeechError(reason)
        for job in self._jobs.values():
            job.end(self.ended)

    def close(self, seconds: float = 0.0) -> None:
        """End the thread."""
        self.going.set()
        self._work.put(None)
        self._thread.join()

    def _speak(self) -> None:
        while (job := self._work.get()) is not None:
            order = list(range(len(job.requests)))
            self._random.shuffle(order)
            for index in order:
                self.going.wait()
                if job.number in self.cancelled or self.ended is not None:
                    break
                job.add(self._outcome(job, index))

    def _outcome(self, job: Job, index: int) -> Outcome:
        request = job.requests[index]
        reason = self.fails(request)
        if reason is None:
            return Outcome(index, request, Result(request.chunk, sound(request, SAMPLES)))
        silence = Result(request.chunk, np.zeros(round(request.seconds * SAMPLE_RATE), np.float32))
        failure = ChunkFailedError(index, request.text, reason)
        return Outcome(index, request, silence if job.on_failure == "silence" else None, failure)


def marking(settings: Mapping[str, Any]) -> MarkingEngine:
    """The factory of an engine that leaves a file for every chunk it has spoken, before it says so."""
    return MarkingEngine(settings)


class MarkingEngine(TonesEngine):
    """Marks lie in the folder `marks`, named after the document's number (its seed), the chunk, and the process."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._folder = Path(settings["marks"])
        self._numbers = itertools.count()

    def speak(self, source: ChunkSource) -> Iterator[Answer]:
        """Speak, and mark each chunk that is spoken to its end: one that is cancelled is not."""
        for request, answer in super().speak(source):
            if isinstance(answer, Result):
                name = f"{request.seed}-{request.chunk}-{os.getpid()}-{next(self._numbers)}"
                (self._folder / name).touch()
            yield request, answer


def marks(folder: Path) -> dict[tuple[int, int], int]:
    """Number of times that each chunk was spoken: (seed, chunk) → times."""
    found: dict[tuple[int, int], int] = {}
    for path in folder.iterdir():
        if (parts := re.fullmatch(r"(\d+)-(\d+)-\d+-\d+", path.name)) is not None:
            key = int(parts[1]), int(parts[2])
            found[key] = found.get(key, 0) + 1
    return found
