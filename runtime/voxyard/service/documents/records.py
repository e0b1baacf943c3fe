"""Stored records of documents and their chunks; frozen, without behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from voxyard.speech.pool.job import OnFailure
from voxyard.speech.requests import Boundary

State = Literal["pending", "processing", "completed", "failed"]
ChunkState = Literal["waiting", "spoken", "silenced", "failed"]


@dataclass(frozen=True)
class NewChunk:
    """A chunk of a document that is being accepted: characters [start, end) of its text."""

    index: int
    start: int
    end: int
    ending: Boundary
    estimated_seconds: float


@dataclass(frozen=True)
class NewDocument:
    """A document that is being accepted; times are Unix seconds."""

    id: str
    owner: str  # name of the API key, "" where none is asked for
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
    fingerprint: str = ""  # of the whole request: the same idempotency key must come with the same one


@dataclass(frozen=True)
class Document:
    """A document as it stands."""

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
    audio_seconds: float  # of the chunks that are spoken, without pauses
    estimated_seconds: float  # of the whole
    reason: str | None = None  # why it failed
    parked: str | None = None  # why it does not go on for now: a full disk
    reduced: bool = False  # out of memory changed a batch's shape, and so perhaps the last digits of the sound
    webhook: str | None = None


@dataclass(frozen=True)
class Chunk:
    """A chunk as it stands; `samples` of mono sound at 24 kHz, without its pause, once it is spoken."""

    index: int
    start: int
    end: int
    ending: Boundary
    estimated_seconds: float
    state: ChunkState
    samples: int | None
    reason: str | None
