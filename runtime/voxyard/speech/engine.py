"""What the pool asks of an engine, and how an engine is named so that only its worker imports it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from voxyard.speech.errors import SpeechError
from voxyard.speech.factory import check_factory, find_factory
from voxyard.speech.requests import SAMPLE_RATE, Request, Result


@dataclass(frozen=True)
class Ready:
    """What an engine found when it loaded its model."""

    batch_limit: int  # chunks it takes at a time
    sample_rate: int = SAMPLE_RATE
    facts: Mapping[str, object] = field(default_factory=dict)  # device, precision, random weights …


class Engine(Protocol):
    """Speaks batches of chunks in one process; knows the model and no process.

    What it raises fails the batch, and the worker goes on, with two exceptions: MemoryError means that the device
    has no room for so many chunks, and EngineLostError or an error of CUDA that only a new process can get over ends
    the process.
    """

    def prepare(self) -> Ready:
        """Load the model and make room for a batch."""

    def speak(self, batch: Sequence[Request]) -> Iterable[Result]:
        """A result for every request, in their order; a generator hands each in as soon as it is done."""

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
    """Whether only a new process gets over the error: most errors of CUDA stick to the process's context."""
    if isinstance(error, EngineLostError):
        return True
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return "AcceleratorError" in kinds or ("RuntimeError" in kinds and "CUDA error" in str(error))
