"""Connection pool: one SSH connection per host, several hosts in parallel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from fleet.errors import FleetError
from fleet.inventory.hosts import Host
from fleet.ssh.command_batch import Answer, Command
from fleet.ssh.connection import open_session
from fleet.ssh.interrupt import POLL_SECONDS, InterruptedByOperatorError

PARALLEL = 8  # hosts in parallel

T = TypeVar("T")


class Session(Protocol):
    """Open connection to one host."""

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        """Run the commands in order, in one exchange; answers by command name.

        A failed command is an answer. Raises HostFailedError when the connection breaks.
        """
        ...

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        """Run one command that reads `data` from its standard input. Raises HostFailedError as `run` does."""
        ...


@dataclass(frozen=True, slots=True)
class GroupResult(Generic[T]):
    """Results of a group of hosts: successes and failures, in the order of the hosts."""

    succeeded: Mapping[str, T]
    failed: Mapping[str, FleetError]


def on_every_host(
    hosts: Sequence[Host], work: Callable[[Host], T], *, parallel: int = PARALLEL, keep: bool = False
) -> GroupResult[T]:
    """Run `work` on several hosts in parallel; a failing host does not stop the others.

    After Ctrl-C no further host is started and running hosts finish first, immediately inside `interrupt.reading`.
    There, with `keep`, the results so far are returned.
    """
    succeeded: dict[str, T] = {}
    failed: dict[str, FleetError] = {}
    futures: dict[str, Future[T]] = {}

    def collect() -> None:
        for name, future in futures.items():
            while not future.done():  # a signal just before a wait is handled at its end
                wait([future], POLL_SECONDS)
            try:
                succeeded[name] = future.result()
            except FleetError as error:
                failed[name] = error
            except CancelledError:
                failed[name] = InterruptedByOperatorError("interrupted before it was contacted")

    with ThreadPoolExecutor(max_workers=max(1, min(parallel, len(hosts)))) as pool:
        try:
            for host in hosts:
                futures[host.name] = pool.submit(work, host)
            collect()
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            if not (keep and isinstance(error, KeyboardInterrupt)):
                raise
            collect()
            for host in hosts:
                if host.name not in futures:
                    failed[host.name] = InterruptedByOperatorError("interrupted before it was contacted")
    return GroupResult(succeeded, failed)


class Connections:
    """Connections of one command: one per host, opened on first use, all closed at the end."""

    def __init__(self, connect: Callable[[Host], AbstractContextManager[Session]] | None = None) -> None:
        """`connect` opens a connection; SSH by default."""
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
        """Connection to `host`; shared between threads. Raises HostFailedError where it cannot be opened."""
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
        """Connection as a context manager that leaves it open."""
        yield self.to(host)


@contextmanager
def connected(host: Host) -> Iterator[Session]:
    """Connection to `host`, through its jump hosts. Raises FleetError with the fix."""
    with open_session(host) as session:
        yield session
