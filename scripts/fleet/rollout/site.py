"""What a rollout takes from its surroundings: work that must not be lost, alerts that are expected, a wish to stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fleet.errors import FleetError
from fleet.images.archive import ImageCache
from fleet.remote import Session
from fleet.rollout.gate import Clock


class StoppedError(FleetError):
    """The operator wants to stop (Ctrl-C): no further step is begun."""

    exit_code = 1


class Stopping:
    """Whether the operator wants to stop; threads ask, the one that hears Ctrl-C says so."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ask(self) -> None:
        """Stop at the next step."""
        self._event.set()

    @property
    def asked(self) -> bool:
        """Whether somebody asked."""
        return self._event.is_set()

    def check(self) -> None:
        """Raises StoppedError after `ask`."""
        if self.asked:
            raise StoppedError("stopped by Ctrl-C")

    def wait(self, seconds: float) -> None:
        """Wait for so long, or until somebody asks. Raises StoppedError then."""
        self._event.wait(seconds)
        self.check()


class Runs(Protocol):
    """Training runs of a host, as `fleet.runs.runs` knows them."""

    def active(self, session: Session, /) -> Sequence[Any]:
        """Those that train now."""
        ...

    def stop(self, session: Session, run: Any, /, *, drained: bool) -> Any:
        """Write a checkpoint and end; `drained`: to be started again."""
        ...

    def waiting(self, session: Session, /) -> Sequence[Any]:
        """Those that were drained, and are not started again yet."""
        ...

    def resume_drained(self, session: Session, release: str | None, /) -> Any:
        """Start those again that were drained, under this release, the current one without."""
        ...


class Quiet(Protocol):
    """What silences alerts, as `fleet.monitoring.silence.Silencer` does."""

    def quiet(self, hosts: Sequence[str], reason: str, /) -> AbstractContextManager[Any]:
        """Alerts of these hosts are expected for the time of the block."""
        ...

    def begin(self, hosts: Sequence[str], reason: str, /) -> Any:
        """Alerts of these hosts are expected for as long as a silence lasts."""
        ...


class NoRuns:
    """Nothing trains anywhere."""

    def active(self, session: Session, /) -> Sequence[Any]:
        """None."""
        return ()

    def stop(self, session: Session, run: Any, /, *, drained: bool) -> None:
        """There is none to stop."""

    def waiting(self, session: Session, /) -> Sequence[Any]:
        """None."""
        return ()

    def resume_drained(self, session: Session, release: str | None, /) -> None:
        """There is none to start."""


class NoQuiet:
    """Alerts stay as they are."""

    @contextmanager
    def quiet(self, hosts: Sequence[str], reason: str, /) -> Iterator[None]:
        """Nothing is silenced."""
        yield

    def begin(self, hosts: Sequence[str], reason: str, /) -> None:
        """Nothing is silenced."""


@dataclass(frozen=True, slots=True)
class Site:
    """The surroundings of one rollout."""

    runs: Runs = field(default_factory=NoRuns)
    silencer: Quiet = field(default_factory=NoQuiet)
    stopping: Stopping = field(default_factory=Stopping)
    cache: ImageCache = field(default_factory=lambda: ImageCache(Path("build/images-cache")))
    drain: bool = False
    keep: int = 3  # releases of a host, and what they need

    @property
    def clock(self) -> Clock:
        """Waits that end when the operator wants to stop."""
        return Clock(wait=self.stopping.wait)
