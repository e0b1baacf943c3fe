"""Message protocol between the pool and a worker process, over their pipe."""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.speech.engine import EngineSpec, Ready
from voxyard.speech.requests import Cancelled, Request, Result, Unspeakable


@dataclass(frozen=True)
class OpenEngine:
    """To the worker, first: the engine, and the seconds between heartbeats."""

    engine: EngineSpec
    heartbeat_seconds: float


@dataclass(frozen=True)
class BeginDecoding:
    """To the worker, after EngineReady and after each EngineRaised: ask for chunks; earlier ones are taken back."""

    rows: int  # the engine's batch may not be larger from here on


@dataclass(frozen=True)
class SpeakChunk:
    """To the worker: a chunk that it has asked for."""

    lease: int
    request: Request


@dataclass(frozen=True)
class CancelChunk:
    """To the worker: nobody wants this chunk any more; the answer is Cancelled where it is not spoken yet."""

    lease: int


@dataclass(frozen=True)
class StopWorker:
    """To the worker: take no more, close the engine and end."""


@dataclass(frozen=True)
class Heartbeat:
    """From the worker: its process is alive, and so often its engine has reported progress."""

    progress: int = 0
    pause: float = 0.0  # seconds beyond the timeout that the engine may take until its next report


@dataclass(frozen=True)
class EngineReady:
    """From the worker: the engine has loaded its model."""

    ready: Ready


@dataclass(frozen=True)
class ChunkWanted:
    """From the worker: it has room for one more chunk."""


@dataclass(frozen=True, eq=False)
class ChunkDone:
    """From the worker: a chunk is spoken, cannot be, or was cancelled."""

    lease: int
    answer: Result | Unspeakable | Cancelled


@dataclass(frozen=True)
class EngineRaised:
    """From the worker: the engine raised, with all its chunks; the worker waits for BeginDecoding."""

    reason: str
    out_of_memory: bool


@dataclass(frozen=True)
class EngineFailed:
    """From the worker, last: why its process ends."""

    reason: str


FromWorker = Heartbeat | EngineReady | ChunkWanted | ChunkDone | EngineRaised | EngineFailed
ToWorker = OpenEngine | BeginDecoding | SpeakChunk | CancelChunk | StopWorker
