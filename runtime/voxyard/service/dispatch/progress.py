"""Progress of documents in dispatch: the storing of outcomes, their throughput, the end."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from voxyard.service.audio.store import SECOND, AudioStore, audio_name
from voxyard.service.documents.records import Document, Redo, StoredChunk
from voxyard.service.documents.store import Store
from voxyard.service.errors import LostAudioError, NoRoomError, NotFoundError, ServiceError
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.pool.job import Outcome
from voxyard.speech.requests import SAMPLE_RATE, Request

_log = logging.getLogger(__name__)
_MAX_QUOTED = 60  # characters of a chunk in a message
LOST = "the audio of the document is missing or incomplete, or was joined with other pauses: submit it again"
WINDOW = 256  # chunks that the estimate covers
UNKNOWN = 30.0  # seconds until a retry, before the first measurement
_LEAST, _MOST = 1.0, 3600.0


class Throughput:
    """Throughput estimate over the last finished chunks. May be used from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._made: deque[tuple[float, float]] = deque(maxlen=WINDOW)  # clock, seconds of audio
        self._lock = threading.Lock()

    def record(self, audio_seconds: float) -> None:
        """Records a finished chunk of so many seconds of audio."""
        with self._lock:
            self._made.append((self._clock(), audio_seconds))

    def rate(self) -> float | None:
        """Seconds of audio per second; None before the second chunk."""
        with self._lock:
            if len(self._made) < 2:
                return None
            (began, first), (ended, _) = self._made[0], self._made[-1]
            made = sum(seconds for _, seconds in self._made) - first
        return made / (ended - began) if ended > began and made > 0 else None

    def retry_after(self, audio_seconds: float) -> float:
        """Estimated seconds until so much audio is synthesized, 1 to 3600."""
        rate = self.rate()
        return UNKNOWN if rate is None else min(_MOST, max(_LEAST, audio_seconds / rate))


@dataclass
class DocumentProgress:
    """Progress in the store, and the audio that belongs to it. Its methods raise ServiceError, as both do."""

    store: Store
    audio_store: AudioStore
    pauses: Pauses
    throughput: Throughput = field(default_factory=Throughput)
    _rebuilding: threading.Lock = field(default_factory=threading.Lock, init=False)

    def clean(self) -> dict[str, int]:
        """Deletes audio that a service which was killed has left: of deleted documents, and chunks of joined ones.

        Returns the number of the audio of each document: there may be audio of before.
        """
        numbers = {}
        for id in self.audio_store.ids():
            try:
                numbers[id] = self.remove_late_chunks(id)
            except NotFoundError:
                self.audio_store.remove(id)
        return numbers

    def remove_late_chunks(self, id: str) -> int:
        """Deletes chunks that were written after their document was completed; returns the number of its audio.

        Raises NotFoundError.
        """
        document = self.store.document(id)
        if document.state == "completed":
            self.audio_store.remove_late_chunks(id, document.audio)
        return document.audio

    def chunks_with_audio(self, document: Document) -> tuple[StoredChunk, ...]:
        """The document's chunks; those whose audio file is missing or incomplete are reset to waiting.

        Of a completed document only those that are spoken again are read; it has none where its own audio is missing.
        """
        id = document.id
        if document.state == "completed":
            if self.audio_store.size(id, audio_name(document.audio)) is None:
                self.store.failed(id, time.time(), LOST)
            for chunk in self.store.asked_again(id):
                redo = chunk.redo
                if redo and redo.samples and not self.audio_store.has(id, chunk.index, redo.samples, redo.claim):
                    self.store.redo_ended(id, chunk.index, redo, None, None)
            return self.store.asked_again(id)
        chunks = self.store.chunks(id)
        if all(chunk.samples is not None for chunk in chunks) and self.audio_store.is_assembled(
            id, chunks, self.pauses
        ):
            return chunks
        lost = [
            chunk.index
            for chunk in chunks
            if chunk.samples is not None and not self.audio_store.has(id, chunk.index, chunk.samples)
        ]
        if not lost:
            return chunks
        _log.warning(
            "document %s: the audio of %d chunks is missing or incomplete: synthesizing them again", id, len(lost)
        )
        self.store.reset_chunks(id, lost)
        return self.store.chunks(id)

    def check_room(self, document: Document, waiting: Sequence[StoredChunk]) -> None:
        """Checks that the disk has room for the chunks, and for the joined file beside them. Raises NoRoomError."""
        seconds = sum(chunk.estimated_seconds for chunk in waiting)
        need = round((2 * seconds + document.audio_seconds) * SECOND)
        if self.audio_store.free_bytes() < need:
            raise NoRoomError(
                f"not enough disk space: its audio needs about {need / 2**20:.1f} MiB; it resumes when there is room"
            )

    def begin(self, document: Document, waiting: Sequence[StoredChunk]) -> list[Request]:
        """Marks a document as processing; returns the requests for its chunks."""
        words = self.store.words(document.id, waiting)
        requests = [
            Request(
                chunk.index,
                words[chunk.index],
                voice=(chunk.redo.voice if chunk.redo else chunk.voice) or document.voice,
                seed=chunk.redo.seed if chunk.redo else document.seed,
                seconds=chunk.estimated_seconds,
                language=document.language,
            )
            for chunk in waiting
        ]
        requests = self.store.voices.attach(requests)
        if document.state != "completed":
            self.store.started(document.id, time.time())
        return requests

    def add(self, id: str, chunk: StoredChunk, outcome: Outcome) -> None:
        """Stores the outcome of a chunk: first its audio, then its state."""
        index, result = chunk.index, outcome.result
        reason = None if outcome.failure is None else outcome.failure.reason
        if result is not None and result.sample_rate != SAMPLE_RATE:
            reason = f"the engine's sample rate is {result.sample_rate} Hz, expected {SAMPLE_RATE} Hz"
            result = None
        if result is None:
            reason = reason or "the engine returned neither audio nor a reason"
        if chunk.redo is not None:
            claim = self.store.claims.number(id)
            samples = None if result is None else self.audio_store.put(id, index, result.audio, claim)
            self.store.redo_ended(id, index, chunk.redo, samples, reason if result is None else None)
            return
        if result is None:
            self.store.chunk_failed(id, index, reason or "")
            return
        samples = self.audio_store.put(id, index, result.audio)
        self.store.chunk_spoken(
            id, index, samples, reduced=outcome.reduced, silenced=outcome.failure is not None, reason=reason
        )
        self.throughput.record(result.seconds)

    def refusal(self, id: str, outcome: Outcome) -> str:
        """Error message of a document one of whose chunks the engine refuses."""
        index = outcome.request.chunk
        return _failure_message(self.store.chunks_from(id, index, 1), self.store.text(id))

    def rebuild(self, id: str, redos: Mapping[int, Redo], claim: int, cancelled: threading.Event) -> None:
        """Makes the audio of a document anew with chunks that were spoken again, beside that which is served.

        May be called from any thread; one at a time writes. Raises LostAudioError where there is no whole one.
        """
        with self._rebuilding:
            document, chunks = self.store.snapshot(id)
            if not self.audio_store.is_assembled(id, chunks, self.pauses, document.audio):
                raise LostAudioError(LOST)
            self.audio_store.rebuild(id, chunks, redos, self.pauses, document.audio, claim, cancelled)

    def finish(self, id: str) -> None:
        """Completes or fails a document whose chunks all have an outcome."""
        chunks = self.store.chunks(id)
        failed = [chunk for chunk in chunks if chunk.state == "failed"]
        if failed:
            self.store.failed(id, time.time(), _failure_message(failed, self.store.text(id)))
            return
        if not self.audio_store.is_assembled(id, chunks, self.pauses):
            self.audio_store.assemble(id, chunks, self.pauses)
        self.store.completed(id, time.time())
        self.audio_store.remove_chunks(id)


def delete_document(store: Store, audio_store: AudioStore, id: str) -> None:
    """Deletes a document; its audio too, where that can be reached now: else the dispatcher does that later.

    On a full disk its audio goes first, which frees the space that the store needs.
    """
    try:
        store.delete(id)
    except NoRoomError:
        audio_store.remove(id)
        store.delete(id)
    with suppress(ServiceError):
        audio_store.remove(id)


def _failure_message(failed: Sequence[StoredChunk], text: str) -> str:
    """Error message of a failed document: the first failed chunk with its text, and how many more."""
    first = failed[0]
    words = text[first.start : first.end]
    shown = words if len(words) <= _MAX_QUOTED else words[: _MAX_QUOTED - 1] + "…"
    others = len(failed) - 1
    more = f" (and {others} more {'chunk' if others == 1 else 'chunks'})" if others else ""
    return f"chunk {first.index} ({shown!r}) could not be synthesized: {first.reason}{more}"
