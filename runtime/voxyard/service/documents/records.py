"""Stored records of documents and their chunks, frozen; where the chunks are in the joined audio."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from voxyard.speech.audio.joining import JoinTimeline, Pauses, Span
from voxyard.speech.pool.job import OnFailure
from voxyard.speech.reading.lexicon import Lexicon
from voxyard.speech.requests import Boundary

PREFIX_DIGITS = 8
_ID = re.compile(r"[0-9a-f]{32}")


def new_id(instance: str = "") -> str:
    """Random id; of a named instance it begins with the instance's prefix, by which a gateway finds the document."""
    random = uuid.uuid4().hex
    return instance_prefix(instance) + random[PREFIX_DIGITS:] if instance else random


def is_id(text: str) -> bool:
    """True where this can be the id of a document."""
    return _ID.fullmatch(text) is not None


def instance_prefix(instance: str) -> str:
    """First digits of the ids of an instance's documents: the same for the same name, on every machine."""
    return hashlib.sha256(f"voxyard instance {instance}".encode()).hexdigest()[:PREFIX_DIGITS]


State = Literal["pending", "processing", "completed", "failed"]
ChunkState = Literal["waiting", "spoken", "silenced", "failed"]


@dataclass(frozen=True)
class NewChunk:
    """Chunk of a document to store: characters [start, end) of its text."""

    index: int
    start: int
    end: int
    ending: Boundary
    estimated_seconds: float
    pause: float | None = None  # seconds of silence after it, by a pause tag; None: by its ending
    spoken: str | None = None  # where that is not its text
    voice: str | None = None  # of its own, by a tag; None: the document's
    speaker: str | None = None  # name in the text of who speaks it


@dataclass(frozen=True)
class Chapter:
    """Chapter of a document: from its chunk `first` up to the next chapter, or the end."""

    title: str
    level: int  # 1 to 6, as headings have it
    first: int


@dataclass(frozen=True)
class Upload:
    """File whose text is to be extracted; `titled` where its document has a title of the client's."""

    name: str
    media_type: str
    titled: bool
    content: bytes
    read: str | None = None  # kinds that become words; None: the host's
    lexicons: tuple[Lexicon, ...] = ()  # of its request and of its key, as they were then
    cast: Mapping[str, str] = field(default_factory=dict)  # names in the text → voices


@dataclass(frozen=True)
class NewDocument:
    """Document to store; times are Unix seconds."""

    id: str
    owner: str  # name of the API key, "" where none is required
    title: str
    text: str
    chunks: tuple[NewChunk, ...]
    created: float
    voice: str | None = None
    seed: int = 0
    language: str | None = None
    on_failure: OnFailure = "fail"
    webhook: str | None = None
    idempotency_key: str | None = None
    upload: Upload | None = None  # in place of text and chunks, which follow
    fingerprint: str = ""  # of the whole request; must be equal for equal idempotency keys
    chapters: tuple[Chapter, ...] = ()
    cover: bytes | None = None  # JPEG or PNG
    author: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Size:
    """What a document takes of the queue and the disk."""

    chunks: int = 0
    seconds: float = 0.0  # of audio
    uploaded: int = 0  # bytes

    @classmethod
    def of(cls, new: NewDocument) -> Size:
        """Size of a document that is prepared."""
        seconds = sum(chunk.estimated_seconds for chunk in new.chunks)
        return cls(len(new.chunks), seconds, 0 if new.upload is None else len(new.upload.content))


@dataclass(frozen=True)
class Document:
    """Document with its current state; times are Unix seconds."""

    id: str
    owner: str
    title: str
    state: State
    created: float
    started: float | None
    finished: float | None
    voice: str | None
    seed: int
    language: str | None
    on_failure: OnFailure
    characters: int
    chunks: int
    chunks_done: int  # spoken, silenced or failed
    chunks_failed: int
    audio_seconds: float  # synthesized so far, without pauses
    estimated_seconds: float  # of the whole document
    reason: str | None = None  # why it failed
    parked: str | None = None  # why it does not progress for now, such as a full disk
    reduced: bool = False  # in smaller batches for lack of memory or after a crash; samples may differ slightly
    webhook: str | None = None
    revision: int = 0  # counts the changes of its audio since it was completed
    audio: int = 0  # number in the names of its files: of the claim that has made the last change
    redos: int = 0  # chunks that are to be spoken again
    changes: int = 0  # of its chunks so far
    resets: int = 0  # of these, when chunks were set back to waiting
    extracting: bool = False  # its text is still to be extracted from its upload
    code: str | None = None  # of the error for which it failed
    author: str | None = None
    note: str | None = None  # warning for a listener

    @property
    def retriable(self) -> bool:
        """True where it failed for a reason that may be gone: one with the code of its text or file fails again."""
        return self.state == "failed" and self.code in (None, "unavailable")


@dataclass(frozen=True)
class Redo:
    """Wish to have a chunk of a completed document spoken again, and what has become of it so far."""

    seed: int
    voice: str | None  # None: the document's
    samples: int | None = None  # once it is spoken, in a file that has the number of this claim
    claim: int | None = None
    reason: str | None = None  # why it could not be spoken


@dataclass(frozen=True)
class StoredChunk:
    """Chunk with its current state; `samples` of mono audio at 24 kHz, without its pause, once synthesized."""

    index: int
    start: int
    end: int
    ending: Boundary
    estimated_seconds: float
    state: ChunkState
    samples: int | None
    reason: str | None
    pause: float | None = None  # seconds of silence after it, by a pause tag; None: by its ending
    voice: str | None = None  # of its own, by a tag or once it was spoken again; None: the document's
    seed: int | None = None  # likewise
    redo: Redo | None = None
    speaker: str | None = None  # name in the text of who speaks it

    @property
    def waits(self) -> bool:
        """True where it is to be spoken, for the first time or again."""
        if self.redo is None:
            return self.state == "waiting"
        return self.redo.samples is None and self.redo.reason is None

    @property
    def joint(self) -> Boundary | float:
        """Cause of the silence after it: the pause tag's seconds, else the boundary."""
        return self.ending if self.pause is None else self.pause


@dataclass(frozen=True)
class QueueLoad:
    """Backlog of unfinished documents."""

    documents: int = 0  # unfinished
    chunks: int = 0  # of these documents, without an outcome
    estimated_seconds: float = 0.0  # of audio, for these chunks

    @classmethod
    def sum(cls, loads: Iterable[QueueLoad]) -> QueueLoad:
        """Backlog of several keys together."""
        total = cls()
        for each in loads:
            total = cls(
                total.documents + each.documents,
                total.chunks + each.chunks,
                total.estimated_seconds + each.estimated_seconds,
            )
        return total


def with_spans(chunks: Iterable[StoredChunk], pauses: Pauses) -> Iterator[tuple[StoredChunk, Span]]:
    """Chunks with their spans, in text order, up to the first that has no audio (yet)."""
    return spanned(chunks, JoinTimeline(pauses))


def spanned(chunks: Iterable[StoredChunk], timeline: JoinTimeline) -> Iterator[tuple[StoredChunk, Span]]:
    """As `with_spans`, on a timeline that has the chunks before."""
    for chunk in chunks:
        if chunk.samples is None:
            return
        yield chunk, timeline.add(chunk.samples, chunk.joint)
