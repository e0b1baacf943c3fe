"""Thread that speaks chunks of completed documents again and rebuilds their audio."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from voxyard.service.audio.store import AudioStore
from voxyard.service.audiobook.redos import TakenRedos
from voxyard.service.dispatch.speech_pool import SpeechPool
from voxyard.service.documents.store import Store
from voxyard.service.errors import ServiceError
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.job import Outcome
from voxyard.speech.requests import SAMPLE_RATE, Request

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

_log = logging.getLogger(__name__)

PRIORITY = 1  # before documents: somebody has listened to the chunk, and waits
LEASE_SECONDS = 60.0
_RENEW_SECONDS = 15.0
_STALE_SECONDS = 60.0  # that the audio before a change stays, for those who read it
_RETRY_SECONDS = 10.0  # after an error of store, disk or pool


@dataclass
class RedoWorker:
    """Speaks the chunks of one document after another again. The old audio is served until the new one is whole.

    A service that is killed leaves its chunks to the next start, or to the others on its database.
    """

    store: Store
    audio_store: AudioStore
    pool: SpeechPool
    pauses: Pauses
    on_change: Callable[[str], None]
    poll_seconds: float = 5.0

    def __post_init__(self) -> None:
        self._closing = threading.Event()
        self._wake = threading.Event()
        self._stale: list[tuple[float, str, int]] = []  # when a revision of a document's audio can go
        self._thread = threading.Thread(target=self._run, name="redo", daemon=True)

    def start(self) -> None:
        """Starts with the chunks that an earlier run has left. Raises StoreError."""
        if not self.store.claims.shared:
            self.store.redos.release()
        self._thread.start()

    def wake(self) -> None:
        """Looks for chunks at once."""
        self._wake.set()

    def stop(self) -> None:
        """Ends soon; what is being spoken is left to the next start."""
        self._closing.set()
        self._wake.set()

    def close(self) -> None:
        """Ends."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._remove_stale(math.inf)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                taken = self.store.redos.take(time.time(), LEASE_SECONDS)
                if taken is not None:
                    self._redo(taken)
                    continue
            except (ServiceError, SpeechError) as error:
                _log.warning("chunks cannot be spoken again now, trying again later: %s", error)
                self._closing.wait(_RETRY_SECONDS)
            except Exception:  # noqa: BLE001 — without this thread no chunk is spoken again
                _log.exception("internal error while chunks are spoken again; trying again later")
                self._closing.wait(_RETRY_SECONDS)
            self._remove_stale(time.monotonic())
            self._wake.wait(self.poll_seconds)
            self._wake.clear()

    def _redo(self, taken: TakenRedos) -> None:
        id = taken.document
        document, text, spoken = self.store.document(id), self.store.text(id), self.store.spoken(id)
        chunks = self.store.chunks(id)
        requests = [
            Request(
                redo.index,
                spoken.get(redo.index, text[chunks[redo.index].start : chunks[redo.index].end]),
                voice=redo.voice or document.voice,
                seed=redo.seed,
                seconds=chunks[redo.index].estimated_seconds,
                language=document.language,
            )
            for redo in taken.redos
        ]
        outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        requests = self.store.voices.attach(requests)
        job = self.pool.submit(requests, priority=PRIORITY, tenant=document.owner, deliver=outcomes.put)
        found, renewed = dict[int, Outcome](), time.monotonic()
        while len(found) < len(requests):
            try:
                outcome = outcomes.get(timeout=0.2)
                found[outcome.request.chunk] = outcome
            except queue.Empty:
                if self._closing.is_set() or (job.finished and outcomes.empty()):
                    job.cancel()
                    return  # the lease runs out, or the next start releases it
            if time.monotonic() - renewed > _RENEW_SECONDS:
                renewed = time.monotonic()
                held = self.store.redos.renew(taken, time.time() + LEASE_SECONDS)
                if held is None:
                    job.cancel()
                    return
                taken = held
        self._rebuild(taken, found)

    def _rebuild(self, taken: TakenRedos, found: dict[int, Outcome]) -> None:
        """The document's audio with the new chunks, beside the old; then the change of both at once."""
        id = taken.document
        audio: dict[int, Audio] = {}
        failures: dict[int, str] = {}
        for index, outcome in found.items():
            if outcome.result is None or outcome.failure is not None:
                failures[index] = "not spoken" if outcome.failure is None else outcome.failure.reason
            elif outcome.result.sample_rate != SAMPLE_RATE:
                failures[index] = f"the engine's sample rate is {outcome.result.sample_rate} Hz"
            else:
                audio[index] = outcome.result.audio
        old = self.store.document(id).revision
        held = self.store.redos.renew(taken, time.time() + 10 * LEASE_SECONDS)  # a long file takes a while
        if held is None:
            return
        samples = self.audio_store.rebuild(id, self.store.chunks(id), self.pauses, old, audio) if audio else {}
        if not self.store.redos.finish(held, old + 1, samples, failures):
            return
        if samples:
            self._stale += [(0.0, id, old - 1)] if old else []  # where a service was killed before it did so
            self._stale.append((time.monotonic() + _STALE_SECONDS, id, old))
        self.on_change(id)

    def _remove_stale(self, now: float) -> None:
        """Deletes audio before changes that has been there for long enough."""
        due = [each for each in self._stale if each[0] <= now]
        self._stale = [each for each in self._stale if each[0] > now]
        for _, id, revision in due:
            try:
                self.audio_store.remove_revision(id, revision)
            except ServiceError as error:
                _log.warning("document %s: its audio before a change could not be deleted: %s", id, error)
