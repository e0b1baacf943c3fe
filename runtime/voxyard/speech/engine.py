"""Engine protocol of the pool, and the engine's name, so that only its worker imports it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, cast

from voxyard.speech.errors import SpeechError
from voxyard.speech.factory import check_factory, find_factory
from voxyard.speech.requests import SAMPLE_RATE, Request, Result, Unspeakable


@dataclass(frozen=True)
class Ready:
    """Properties of an engine with its model loaded."""

    batch_limit: int  # rows: chunks that it decodes together
    sample_rate: int = SAMPLE_RATE
    facts: Mapping[str, object] = field(default_factory=dict)  # device, precision, random weights …


Chunk_co = TypeVar("Chunk_co", covariant=True)


class Source(Protocol[Chunk_co]):
    """An engine's supply: it takes a next chunk whenever it has room for one."""

    def take(self, room: int, *, wait: bool) -> Sequence[Chunk_co]:
        """Up to `room` chunks that are there now; with `wait` at least one, or none as no more will come."""


class Chunks(Generic[Chunk_co]):
    """A source that has all its chunks from the start, and gives them out in their order."""

    def __init__(self, chunks: Iterable[Chunk_co]) -> None:
        self._left = deque(chunks)

    def take(self, room: int, *, wait: bool) -> Sequence[Chunk_co]:
        """The next ones."""
        return [self._left.popleft() for _ in range(min(room, len(self._left)))]


Answer = tuple[Request, Result | Unspeakable]


class Engine(Protocol):
    """Speaks chunks in one process; knows the model and no process.

    What it raises fails all that it has in hand, and the worker goes on, with two exceptions: MemoryError means that
    the device has no room for so many rows, and EngineLostError or an error of CUDA that only a new process can get
    over ends the process.
    """

    def prepare(self) -> Ready:
        """Load the model and make room for a batch."""

    def speak(self, source: Source[Request]) -> Iterator[Answer]:
        """An answer for every chunk of the source, each as soon as it is done, until no more come."""

    def shrink(self, rows: int) -> None:
        """Use the memory of batches of so many rows from here on: the device had no room for more."""

    def close(self) -> None:
        """Give everything back; the process ends."""


class EngineLostError(Exception):
    """The engine cannot speak any more in this process; raised by an engine, never by the pool."""


@dataclass(frozen=True)
class EngineName:
    """An engine as `package.module:factory`; the factory takes the settings, which must be JSON."""

    factory: str
    settings: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_factory("engine", self.factory)
        try:
            json.dumps(self.settings)
        except (TypeError, ValueError) as error:
            raise SpeechError(f"engine {self.factory}: its settings cannot be written as JSON: {error}") from error

    def create(self) -> Engine:
        """The engine, not yet prepared.

        Raises:
            SpeechError: there is no such module or factory.
        """
        return cast("Engine", find_factory("engine", self.factory)(self.settings))


def is_lost(error: BaseException) -> bool:
    """True where only a new process gets over the error: most errors of CUDA stick to the process's context."""
    if isinstance(error, EngineLostError):
        return True
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return "AcceleratorError" in kinds or ("RuntimeError" in kinds and "CUDA error" in str(error))
