"""Message protocol between the pool and a worker's process, over their pipe."""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.speech.engine import EngineSpec, Ready
from voxyard.speech.requests import Request, Result, Unspeakable


@dataclass(frozen=True)
class Open:
    """To the worker, first: the engine, and the seconds between signs of life."""

    engine: EngineSpec
    beat: float


@dataclass(frozen=True)
class Begin:
    """To the worker, once it is open and each time it raised: ask for chunks. What it had before is taken back."""

    rows: int  # the engine's batch may not be larger from here on


@dataclass(frozen=True)
class Speak:
    """To the worker: a chunk that it has asked for."""

    lease: int
    request: Request


@dataclass(frozen=True)
class Stop:
    """To the worker: take no more, close the engine and end."""


@dataclass(frozen=True)
class Beat:
    """From the worker: a sign of life."""


@dataclass(frozen=True)
class Opened:
    """From the worker: the engine is ready."""

    ready: Ready


@dataclass(frozen=True)
class Want:
    """From the worker: it has room for one more chunk."""


@dataclass(frozen=True, eq=False)
class Answered:
    """From the worker: a chunk is done, or is refused."""

    lease: int
    answer: Result | Unspeakable


@dataclass(frozen=True)
class Raised:
    """From the worker: the engine raised, with all it had in hand; it waits for Begin."""

    reason: str
    memory: bool


@dataclass(frozen=True)
class Lost:
    """From the worker, last: why its process ends."""

    reason: str


FromWorker = Beat | Opened | Want | Answered | Raised | Lost
ToWorker = Open | Begin | Speak | Stop
