"""Rollout context: training runs, alert silencer, cancellation, image cache; and the outcome of a host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from fleet.errors import FleetError
from fleet.images.archive import ImageCache
from fleet.inventory.rollout_settings import MIN_HEALTHY_SECONDS, HookSettings
from fleet.ssh.connection_pool import Session


class RolloutCancelledError(FleetError):
    """Cancelled by the operator (Ctrl-C): only rollback steps follow."""

    exit_code = 1


class Cancellation:
    """Cancellation of a rollout by the operator; shared between threads.

    After the first request hosts in progress are rolled back, after the second they are left as they are.
    """

    def __init__(self) -> None:
        self._forward = threading.Event()
        self._back = threading.Event()

    def ask(self) -> None:
        """Request cancellation before the next step."""
        (self._back if self.asked else self._forward).set()

    @property
    def asked(self) -> bool:
        """True after the first request."""
        return self._forward.is_set()

    @property
    def requested_twice(self) -> bool:
        """True after the second request: skip the rollback."""
        return self._back.is_set()

    def check(self, *, rolling_back: bool = False) -> None:
        """Raises RolloutCancelledError after a request; while rolling back, after the second."""
        if self.requested_twice if rolling_back else self.asked:
            raise RolloutCancelledError("cancelled by Ctrl-C")

    def wait(self, seconds: float, *, rolling_back: bool = False) -> None:
        """Wait, or until cancelled. Raises RolloutCancelledError as `check` does."""
        (self._back if rolling_back else self._forward).wait(seconds)
        self.check(rolling_back=rolling_back)

    def now(self) -> float:
        """Seconds on the clock of `wait`."""
        return time.monotonic()


class RunHooks(Protocol):
    """Rollout hooks of training runs; implemented by `fleet.runs.rollout_hooks`."""

    def active(self, session: Session, /) -> Sequence[Any]:
        """Active runs."""
        return ()

    def stop(self, session: Session, run: Any, /, *, drained: bool) -> Any:
        """Stop a run with a checkpoint; `drained`: to be resumed later."""
        return None

    def waiting(self, session: Session, /) -> Sequence[Any]:
        """Drained runs that are not resumed yet."""
        return ()

    def resume_drained(self, session: Session, release: str | None, /) -> Any:
        """Resume drained runs under this release, or the current one."""
        return None


class Silencer(Protocol):
    """Silences alerts; implemented by `fleet.monitoring.silence.AlertmanagerSilencer`."""

    def silenced(self, hosts: Sequence[str], reason: str, /) -> AbstractContextManager[Any]:
        """Silence alerts of these hosts for the duration of the block."""
        return nullcontext()

    def begin(self, hosts: Sequence[str], reason: str, /) -> Any:
        """Silence alerts of these hosts until the silence expires."""
        return None


class NoRunHooks(RunHooks):
    """Hooks for hosts without training runs."""


class NoSilencer(Silencer):
    """Silencer that silences nothing."""


def no_cluster_gate(_host: str, _session: Session, _cancellation: Cancellation, /) -> None:
    """Gate of a host that completes no Ray cluster."""


@dataclass(frozen=True, slots=True)
class RolloutContext:
    """Dependencies and options of one rollout."""

    runs: RunHooks = field(default_factory=NoRunHooks)
    silencer: Silencer = field(default_factory=NoSilencer)
    cancellation: Cancellation = field(default_factory=Cancellation)
    cache: ImageCache = field(default_factory=lambda: ImageCache(Path("build/images-cache")))
    drain: bool = False
    maintenance_seconds: float = 7200.0  # for which a drained host is expected to be worked on
    keep: int = 3  # releases to keep on a host
    min_healthy_seconds: float = MIN_HEALTHY_SECONDS  # healthy time without a restart that a service needs
    hooks: HookSettings = field(default_factory=HookSettings)
    addresses: Mapping[str, str] = field(default_factory=dict)  # of the inventory, by host; told to the hooks
    cluster_gate: Callable[[str, Session, Cancellation], str | None] = no_cluster_gate
    before_workers: Collection[str] = ()  # hosts whose speech service is not ready until later hosts have changed


Result = Literal[
    "deployed", "rolled back", "drained", "unchanged", "skipped", "unfit", "failed", "interrupted", "not touched",
    "unlocked",
]  # fmt: skip
GOOD: frozenset[Result] = frozenset({"deployed", "rolled back", "drained", "unchanged", "unlocked"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one host."""

    host: str
    result: Result
    before: str = ""  # releases
    after: str = ""
    note: str = ""
    limits: tuple[str, ...] = ()  # verified GPU memory limits, as text
    seconds: float = 0.0
    withheld: tuple[str, ...] = ()  # services that the preflight kept from the release
    hook_failure: str = ""  # of a command after the host was out of work

    @property
    def good(self) -> bool:
        """True where no action is needed."""
        return self.result in GOOD and not self.withheld and not self.hook_failure

    @property
    def failed(self) -> bool:
        """True where the host counts as failed: its change failed, or it may still be out of work."""
        return self.result == "failed" or bool(self.hook_failure)
