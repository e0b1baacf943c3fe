"""Thread that has the words of completed documents aligned with their sound, and keeps their times."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from voxyard.service.audio.store import AudioStore
from voxyard.service.audiobook import aligned_words
from voxyard.service.audiobook.aligned_words import AlignedChunk, AlignedDocument, AlignedWord
from voxyard.service.audiobook.timings import text_words
from voxyard.service.documents.records import Document, StoredChunk
from voxyard.service.documents.store import Store
from voxyard.service.errors import NoRoomError, NotFoundError, ServiceError, without_paths
from voxyard.speech.alignment.aligner import text_times
from voxyard.speech.alignment.aligner_process import AlignerProcess
from voxyard.speech.audio.joining import Pauses, Piece
from voxyard.speech.audio.wav import to_bytes
from voxyard.speech.errors import SpeechError
from voxyard.speech.reading.markup import MASK, masked
from voxyard.speech.requests import SAMPLE_RATE
from voxyard.speech.text.chunks import milliseconds
from voxyard.speech.text.sentences import language_code

_log = logging.getLogger(__name__)

SLICE_SECONDS = 10.0
"""Time for a document until it is the turn of the next one."""
IDLE_SECONDS = 60.0
"""Time after which the aligner's process ends, with its memory, where nothing is to do."""
WAITING = "it is not aligned yet"
_COALESCE_SECONDS = 0.2  # a document changes with each of its chunks
RETRY_SECONDS = 60.0
"""Time after which a document that could not be aligned is tried again, where somebody asks for its words."""
_MOST_FAILED = 1000  # documents of which a failure is remembered


@dataclass(frozen=True)
class WordAlignment:
    """Chunks of a document that are aligned; `waiting`: the others will be."""

    chunks: Mapping[int, AlignedChunk]
    waiting: bool


class WordAligner:
    """Aligns each completed document once, by turns, in one process of low priority.

    What was aligned is kept beside the document's audio. A document without that, after a kill for example, is aligned
    once somebody asks for its words. Methods may be called from any thread.
    """

    def __init__(self, factory: str, store: Store, audio_store: AudioStore, pauses: Pauses) -> None:
        self._factory, self._store, self._audio_store, self._pauses = factory, store, audio_store, pauses
        self._process = AlignerProcess(factory)
        self._waiting: dict[str, None] = {}  # ids, in the order of their turns
        self._failed: dict[str, tuple[float, str]] = {}  # document → until when it is not tried again, and why
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="word aligner", daemon=True)

    def start(self) -> None:
        """Loads the aligner. Raises ServiceError where it cannot be."""
        try:
            self._process.open()
        except SpeechError as error:
            raise ServiceError(f"--aligner {self._factory}: {error}") from error
        self._thread.start()

    def notice(self, id: str) -> None:
        """A document has changed: it is aligned where it is completed."""
        with self._changed:
            self._waiting.setdefault(id)
            self._changed.notify()

    def found(self, document: Document, chunks: Sequence[StoredChunk]) -> WordAlignment:
        """Aligned words of a document so far, with a reason for each other of these chunks. Raises ServiceError."""
        if document.state != "completed":
            return self._none(chunks, "the document is not completed")
        if (reason := self._unsupported(document)) is not None:
            return self._none(chunks, reason)
        state = aligned_words.state_of(document)
        kept = aligned_words.load(self._audio_store, document.id)
        known = kept.chunks if kept is not None and self._is_of(kept, state) else {}
        if all(chunk.index in known for chunk in chunks):
            return WordAlignment(known, waiting=False)
        failed = self._failed.get(document.id)
        if failed is not None and failed[0] > time.monotonic():
            return WordAlignment({**self._none(chunks, failed[1]).chunks, **known}, waiting=False)
        self.notice(document.id)
        return WordAlignment({**self._none(chunks, WAITING).chunks, **known}, waiting=True)

    def close(self) -> None:
        """Ends; what is aligned so far is kept."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._process.close()
        if self._thread.is_alive():
            self._thread.join()
        self._process.end()

    def _run(self) -> None:
        while (id := self._next()) is not None:
            try:
                if self._slice(id):
                    self.notice(id)  # after the others
            except NotFoundError:
                pass  # deleted, or another chunk was spoken: that is a change of its own
            except (ServiceError, SpeechError) as error:
                self._fail(id, str(error))
            except Exception:  # noqa: BLE001 — without this thread no document is aligned
                _log.exception("internal error while the words of document %s are aligned", id)
                self._fail(id, "internal error")

    def _next(self) -> str | None:
        """The next document; None at the end."""
        with self._changed:
            while not self._waiting and not self._closing:
                if not self._changed.wait(IDLE_SECONDS):
                    self._process.end()
            self._changed.wait_for(lambda: self._closing, _COALESCE_SECONDS)
            if self._closing:
                return None
            id = next(iter(self._waiting))
            del self._waiting[id]
            return id

    def _slice(self, id: str) -> bool:
        """Aligns some of a document's chunks; True where others are left."""
        document, chunks = self._store.snapshot(id)
        if document.state != "completed" or self._unsupported(document) is not None:
            return False
        state, until = aligned_words.state_of(document), time.monotonic() + SLICE_SECONDS
        kept = aligned_words.load(self._audio_store, id)
        old = {} if kept is None or kept.aligner != self._factory else kept.chunks
        known = dict(old) if kept is not None and self._is_of(kept, state) else {}
        first = next((chunk.index for chunk in chunks if chunk.index not in known), None)
        if first is None:
            return False
        if self._audio_store.spare_bytes() < 0:
            raise NoRoomError("there is no room to keep the times of its words")
        self._process.open()
        text, spoken = self._store.text(id), self._store.spoken(id)
        shown = masked(text)
        sums = milliseconds(shown, language_code(document.language))
        for piece in self._audio_store.pieces(id, chunks, self._pauses, first, document.audio):
            if piece.chunk in known:
                continue
            chunk = chunks[piece.chunk]
            own = spoken.get(chunk.index, text[chunk.start : chunk.end])
            before = old.get(chunk.index)
            known[chunk.index] = self._aligned(document, shown, sums, chunk, own, piece, before)
            if self._closing or time.monotonic() > until:
                break
        aligned_words.save(self._audio_store, id, AlignedDocument(self._factory, state, known))
        if not self._store.exists(id):
            self._audio_store.remove(id)  # deleted while the file was written
        return len(known) < len(chunks)

    def _aligned(
        self,
        document: Document,
        text: str,
        sums: Sequence[int],
        chunk: StoredChunk,
        spoken: str,
        piece: Piece,
        before: AlignedChunk | None,
    ) -> AlignedChunk:
        """Words of a chunk; those of `before` where its sound and its words are the same."""
        sound = piece.audio[len(piece.audio) - (piece.end - piece.start) :]
        digest = hashlib.blake2b(to_bytes(sound) + spoken.encode(), digest_size=12).hexdigest()
        if before is not None and before.digest == digest:
            return before
        words = text_words(text, chunk, sums)
        written = [text[word.start : word.end].replace(MASK, "") for word in words]
        said = spoken.split()
        try:
            times = self._process.align(sound, SAMPLE_RATE, said, language_code(document.language) or "")
        except SpeechError as error:
            if self._closing:
                raise
            return AlignedChunk(None, without_paths(str(error)), digest)
        found = text_times(written, [word.weight for word in words], said, times)
        return AlignedChunk(
            tuple(
                AlignedWord(word.start - chunk.start, word.end - chunk.start, round(1000 * begin), round(1000 * end))
                for word, (begin, end) in zip(words, found, strict=True)
            ),
            digest=digest,
        )

    def _unsupported(self, document: Document) -> str | None:
        """Reason why a document's language is not aligned."""
        languages = self._process.languages
        if document.language is None:
            return "the language of the document is not known: name it by `language`, or choose a voice of one"
        if languages is not None and language_code(document.language) not in languages:
            return f"the aligner knows {', '.join(sorted(languages))}; the document's language is {document.language}"
        return None

    def _is_of(self, kept: AlignedDocument, state: str) -> bool:
        return (kept.aligner, kept.state) == (self._factory, state)

    def _none(self, chunks: Sequence[StoredChunk], reason: str) -> WordAlignment:
        return WordAlignment({chunk.index: AlignedChunk(None, reason) for chunk in chunks}, waiting=False)

    def _fail(self, id: str, reason: str) -> None:
        if self._closing:
            return
        _log.warning("document %s: the times of its words are estimated for now: %s", id, reason)
        while len(self._failed) >= _MOST_FAILED:
            self._failed.pop(next(iter(self._failed)))
        self._failed[id] = time.monotonic() + RETRY_SECONDS, without_paths(reason)
