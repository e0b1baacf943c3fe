"""Engine protocol of the pool, and an engine's import name and settings: only its worker imports it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from voxyard.speech.errors import SpeechError
from voxyard.speech.requests import SAMPLE_RATE, Cancelled, Request, Result, Unspeakable


@dataclass(frozen=True)
class Ready:
    """Properties of an engine with its model loaded."""

    batch_limit: int  # rows: chunks that it decodes together
    sample_rate: int = SAMPLE_RATE
    facts: Mapping[str, object] = field(default_factory=dict)  # device, precision, random weights …
    meant_rows: int = 0  # of the settings, where the memory that is free now is for fewer


class ChunkSource(Protocol):
    """Supply of chunks: the engine takes one whenever a row is free."""

    def take(self, room: int, *, wait: bool) -> Sequence[Request]:
        """Up to `room` chunks that are there now; with `wait` at least one, or none when no more will come."""

    def cancelled(self) -> Sequence[Request]:
        """Chunks that were taken and that nobody wants any more, each once; costs little.

        An engine that looks between its steps answers them with Cancelled and has their rows free; one that does not
        speaks them to their end, for nobody.
        """

    def progress(self, pause: float = 0.0) -> None:
        """Report that the work on the chunks goes on; costs next to nothing.

        An engine calls it from the loop that does the work, several times in the pool's `progress_timeout` also on a
        slow device; a worker with chunks that does not report for so long counts as hung and is ended. `pause` is the
        time in seconds that the next piece of work may take beyond that, where it cannot report, as in a library.
        """


Answer = tuple[Request, Result | Unspeakable | Cancelled]


class Engine(Protocol):
    """Speaks chunks in one process; knows the model and nothing of processes. It reports its progress to the source.

    An exception fails all chunks that it has, and the worker continues, with two exceptions: after MemoryError the
    worker continues with fewer rows, and EngineLostError or a CUDA error that is fatal for the process ends the worker.
    """

    def prepare(self) -> Ready:
        """Load the model and make room for a batch."""

    def speak(self, source: ChunkSource) -> Iterator[Answer]:
        """Answer every chunk of the source as soon as it is done, until no more come; urgent ones before the others."""

    def shrink(self, rows: int) -> None:
        """Use the memory of batches of so many rows from here on: the device has no memory for more."""

    def close(self) -> None:
        """Free everything; the process ends."""


class EngineLostError(Exception):
    """The engine cannot speak any more in this process; raised by an engine, never by the pool."""


@dataclass(frozen=True)
class EngineSpec:
    """An engine as `package.module:factory`; the factory takes the settings, which must be JSON.

    `weights` is a digest of the model's files on this host, "" where there is none: an engine on another host has the
    same in `Ready.facts["weights"]`, or must not speak. `name` is the model's name in the API, "" for that of the
    factory's package.
    """

    factory: str
    settings: Mapping[str, object] = field(default_factory=dict)
    weights: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        check_factory("engine", self.factory)
        try:
            json.dumps(self.settings)
        except (TypeError, ValueError) as error:
            raise SpeechError(f"engine {self.factory}: its settings cannot be written as JSON: {error}") from error

    @property
    def model(self) -> str:
        """Name of the model: its own, else the package of its factory: `bark` of `voxyard.bark.engine:create`."""
        module, _, factory = self.factory.partition(":")
        packages = module.split(".")
        return self.name or (packages[-2] if len(packages) > 1 else factory)

    def create(self) -> Engine:
        """The engine, not yet prepared.

        Raises:
            SpeechError: there is no such module or factory.
        """
        return cast("Engine", find_factory("engine", self.factory)(self.settings))


def is_lost(error: BaseException) -> bool:
    """True where the error is fatal for the process: most CUDA errors corrupt its context."""
    if isinstance(error, EngineLostError):
        return True
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return "AcceleratorError" in kinds or ("RuntimeError" in kinds and "CUDA error" in str(error))


def check_factory(what: str, factory: str) -> tuple[str, str]:
    """Module and name; `what` is what the factory makes, for the message.

    Raises:
        SpeechError: that is no `package.module:factory`.
    """
    module, colon, name = factory.partition(":")
    if not (module and colon and name):
        raise SpeechError(
            f"{what} {factory!r}: expected package.module:factory, a module that can be imported and what to call in it"
        )
    return module, name


def find_factory(what: str, factory: str) -> Callable[..., Any]:
    """The factory itself.

    Raises:
        SpeechError: there is no such module or factory, or it is nothing to call.
    """
    module, name = check_factory(what, factory)
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, TypeError) as error:
        raise SpeechError(f"{what} {factory}: {error}; expected package.module:factory") from error
    if not callable(found):
        raise SpeechError(
            f"{what} {factory}: found {type(found).__name__} {found!r}, which cannot be called; expected a factory, as "
            "package.module:factory"
        )
    return found
