"""What the pool and a worker's process say to each other over their pipe."""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.speech.engine import EngineName, Ready
from voxyard.speech.queue import Key
from voxyard.speech.requests import Request, Result


@dataclass(frozen=True)
class Open:
    """To the worker, first: the engine, and the seconds between signs of life."""

    engine: EngineName
    beat: float


@dataclass(frozen=True)
class Speak:
    """To the worker: a batch."""

    lease: int
    rows: int  # the engine's batch may not be larger from here on
    requests: tuple[tuple[Key, Request], ...]


@dataclass(frozen=True)
class Stop:
    """To the worker: close the engine and end."""


@dataclass(frozen=True)
class Beat:
    """From the worker: a sign of life."""


@dataclass(frozen=True)
class Opened:
    """From the worker: the engine is ready."""

    ready: Ready


@dataclass(frozen=True, eq=False)
class Spoken:
    """From the worker: a chunk is done."""

    lease: int
    chunk: Key
    result: Result


@dataclass(frozen=True)
class Ended:
    """From the worker: it is through the batch."""

    lease: int


@dataclass(frozen=True)
class Raised:
    """From the worker: the engine raised, and goes on."""

    lease: int
    reason: str
    memory: bool


@dataclass(frozen=True)
class Lost:
    """From the worker, last: why its process ends."""

    reason: str


FromWorker = Beat | Opened | Spoken | Ended | Raised | Lost
