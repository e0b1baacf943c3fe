"""Rollout context: training runs, alert silencer, cancellation, image cache."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fleet.errors import FleetError
from fleet.images.archive import ImageCache
from fleet.inventory.hosts import MIN_HEALTHY_SECONDS
from fleet.ssh.connection_pool import Session


class RolloutCancelledError(FleetError):
    """The operator wants to stop (Ctrl-C): no further step is begun, but those that take a host back."""

    exit_code = 1


class Cancellation:
    """Cancellation by the operator; threads ask, the one that hears Ctrl-C says so.

    The first request has hosts rolled back that are in between, the second has them left as they are.
    """

    def __init__(self) -> None:
        self._forward = threading.Event()
        self._back = threading.Event()

    def ask(self) -> None:
        """Stop at the next step."""
        (self._back if self.asked else self._forward).set()

    @property
    def asked(self) -> bool:
        """True where somebody asked."""
        return self._forward.is_set()

    @property
    def requested_twice(self) -> bool:
        """True where nothing is to be rolled back either."""
        return self._back.is_set()

    def check(self, *, rolling_back: bool = False) -> None:
        """Raises StoppedError after `ask`, on the way back after the second one."""
        if self.requested_twice if rolling_back else self.asked:
            raise RolloutCancelledError("stopped by Ctrl-C")

    def wait(self, seconds: float, *, rolling_back: bool = False) -> None:
        """Wait for so long, or until somebody asks. Raises StoppedError as `check` does."""
        (self._back if rolling_back else self._forward).wait(seconds)
        self.check(rolling_back=rolling_back)

    def now(self) -> float:
        """Seconds on the clock by which `wait` waits."""
        return time.monotonic()


class RunHooks(Protocol):
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


class Silencer(Protocol):
    """Silencer interface, as in `fleet.monitoring.silence.Silencer`."""

    def silenced(self, hosts: Sequence[str], reason: str, /) -> AbstractContextManager[Any]:
        """Alerts of these hosts are expected for the time of the block."""
        ...

    def begin(self, hosts: Sequence[str], reason: str, /) -> Any:
        """Alerts of these hosts are expected for as long as a silence lasts."""
        ...


class NoRunHooks:
    """Runs where nothing trains anywhere."""

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


class NoSilencer:
    """Silencer that leaves alerts as they are."""

    @contextmanager
    def silenced(self, hosts: Sequence[str], reason: str, /) -> Iterator[None]:
        """Nothing is silenced."""
        yield

    def begin(self, hosts: Sequence[str], reason: str, /) -> None:
        """Nothing is silenced."""


@dataclass(frozen=True, slots=True)
class RolloutContext:
    """Context of one rollout."""

    runs: RunHooks = field(default_factory=NoRunHooks)
    silencer: Silencer = field(default_factory=NoSilencer)
    cancellation: Cancellation = field(default_factory=Cancellation)
    cache: ImageCache = field(default_factory=lambda: ImageCache(Path("build/images-cache")))
    drain: bool = False
    keep: int = 3  # releases of a host, and what they need
    min_healthy_seconds: float = MIN_HEALTHY_SECONDS  # without a restart, before a service is found good
