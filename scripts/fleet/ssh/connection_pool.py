"""Connections to hosts: one a host, several hosts at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from fleet.errors import FleetError
from fleet.inventory.hosts import Host
from fleet.ssh.command_batch import Answer, Command
from fleet.ssh.connection import open_session
from fleet.ssh.interrupt import POLL_SECONDS, InterruptedByOperatorError

PARALLEL = 8  # hosts at a time

T = TypeVar("T")


class Session(Protocol):
    """An open connection to one host, as everything that looks at a host or changes it sees it."""

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        """Run the commands one after the other, in one exchange; answers by the commands' names.

        A command that fails is an answer. Raises HostFailedError when the connection breaks.
        """
        ...

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        """Run one command that reads `data` from its standard input. Raises HostFailedError as `run` does."""
        ...


@dataclass(frozen=True, slots=True)
class GroupResult(Generic[T]):
    """Results of a group of hosts: successes and failures side by side, in the order in which the hosts were given."""

    succeeded: Mapping[str, T]
    failed: Mapping[str, FleetError]


def on_every_host(
    hosts: Sequence[Host], work: Callable[[Host], T], *, parallel: int = PARALLEL, keep: bool = False
) -> GroupResult[T]:
    """Do `work` on several hosts at a time; a host that fails does not hold up the others.

    After Ctrl-C no other host is begun; those that are at work come to their end first, at once in
    `interrupt.reading`. There, with `keep`, what is known by then is the result.
    """
    succeeded: dict[str, T] = {}
    failed: dict[str, FleetError] = {}

    def collect() -> None:
        for host, future in futures:
            while not future.done():  # a signal that came just before a wait is heard at its end
                wait([future], POLL_SECONDS)
            try:
                succeeded[host.name] = future.result()
            except FleetError as error:
                failed[host.name] = error
            except CancelledError:
                failed[host.name] = InterruptedByOperatorError("interrupted before it was asked")

    with ThreadPoolExecutor(max_workers=max(1, min(parallel, len(hosts)))) as pool:
        futures = [(host, pool.submit(work, host)) for host in hosts]
        try:
            collect()
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            if not (keep and isinstance(error, KeyboardInterrupt)):
                raise
            collect()
    return GroupResult(succeeded, failed)


class Connections:
    """The connections of one command: one a host, opened when it is first needed, all closed at the end."""

    def __init__(self, connect: Callable[[Host], AbstractContextManager[Session]] | None = None) -> None:
        """`connect` opens one; over SSH unless given."""
        self._connect = connected if connect is None else connect
        self._open: dict[str, Session] = {}
        self._closing = ExitStack()
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def to(self, host: Host) -> Session:
        """The connection to `host`; threads may share it. Raises HostFailedError where it cannot be opened."""
        with self._lock:
            lock = self._locks.setdefault(host.name, threading.Lock())
        with lock:
            if host.name not in self._open:
                opening = self._connect(host)
                session = opening.__enter__()
                with self._lock:
                    self._closing.push(opening.__exit__)
                    self._open[host.name] = session
            return self._open[host.name]

    @contextmanager
    def shared(self, host: Host) -> Iterator[Session]:
        """The same, for those who close what they opened: here it stays open."""
        yield self.to(host)


@contextmanager
def connected(host: Host) -> Iterator[Session]:
    """A connection to `host`, through its jump hosts. Raises FleetError with what to do about it."""
    with open_session(host) as session:
        yield session
