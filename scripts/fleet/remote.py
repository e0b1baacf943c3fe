"""The only place that opens connections: one per host, its key checked, several hosts at a time."""

from __future__ import annotations

import shlex
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

import fabric
import invoke
import paramiko

from fleet.batch import Answer, Command, script, split
from fleet.errors import FleetError, HostFailedError
from fleet.host_keys import RefuseUnknown, changed_key, known_keys
from fleet.inventory.hosts import Host

CONNECT_SECONDS = 10
BATCH_GRACE_SECONDS = 15
STALL_SECONDS = 300  # without a byte taken by a host that is sent something
PARALLEL = 8  # hosts at a time
_CHUNK = 1 << 18

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
    """What came of each host: the good and the bad side by side, in the order in which the hosts were given."""

    succeeded: Mapping[str, T]
    failed: Mapping[str, FleetError]


def on_every_host(hosts: Sequence[Host], work: Callable[[Host], T], *, parallel: int = PARALLEL) -> GroupResult[T]:
    """Do `work` on several hosts at a time; a host that fails does not hold up the others.

    After Ctrl-C no other host is begun; those that are at work come to their end first.
    """
    succeeded: dict[str, T] = {}
    failed: dict[str, FleetError] = {}
    with ThreadPoolExecutor(max_workers=max(1, min(parallel, len(hosts)))) as pool:
        futures = [(host, pool.submit(work, host)) for host in hosts]
        try:
            for host, future in futures:
                try:
                    succeeded[host.name] = future.result()
                except FleetError as error:
                    failed[host.name] = error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
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
    """A connection to `host`, through its jump hosts. Raises HostFailedError with what to do about it."""
    hops = _hops(host)
    try:
        yield _Ssh(host, _open(host, hops))
    finally:
        for hop in reversed(hops):
            hop.close()


class _Ssh:
    def __init__(self, host: Host, connection: fabric.Connection) -> None:
        self._host, self._connection = host, connection

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        limit = sum(command.seconds for command in commands) + BATCH_GRACE_SECONDS
        text, marker = script(commands)
        with self._breaking():
            self._still_there()
            done = self._connection.run(
                f"sh -c {shlex.quote(text)}", hide=True, warn=True, in_stream=False, pty=False, timeout=limit
            )
            self._still_there()
        answers = split(done.stdout, done.stderr, marker)
        if missing := [command.name for command in commands if command.name not in answers]:
            said = (done.stderr or done.stdout).replace(marker, "").strip()[-300:]
            raise HostFailedError(
                f"{self._host.name} ended the session before it ran {missing[0]} (exit code {done.exited}): "
                f"{said or 'it said nothing'}. The login shell must run commands: ssh {self._host.address} true"
            )
        return answers

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        with self._breaking():
            self._still_there()
            channel = self._connection.transport.open_session(timeout=CONNECT_SECONDS)
            with channel:
                channel.settimeout(min(command.seconds, STALL_SECONDS))
                channel.exec_command(command.text)
                _pour(channel, data)
                channel.settimeout(command.seconds)
                out, err = channel.makefile("r").read(), channel.makefile_stderr("r").read()
                code = channel.recv_exit_status()
            if code < 0:
                self._still_there()
            return Answer(_words(out), _words(err), code)

    def _still_there(self) -> None:
        """fabric would open a new connection: what an old command still does there would go on beside the new one."""
        if not self._connection.is_connected:
            raise EOFError("it was closed")

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Turns what breaks a connection into a sentence about the host."""
        name = self._host.name
        try:
            yield
        except invoke.exceptions.CommandTimedOut as error:
            raise HostFailedError(
                f"{name} did not answer within {error.timeout} s: something hangs there; log in and look"
            ) from error
        except (TimeoutError, OSError, EOFError, paramiko.SSHException) as error:
            said = str(error) or type(error).__name__
            raise HostFailedError(f"the connection to {name} broke ({said}): run the same command again") from error


def _pour(channel: paramiko.Channel, data: Iterable[bytes]) -> None:
    """Everything to standard input; a command that ends early says why itself."""
    try:
        for chunk in data:
            for start in range(0, len(chunk), _CHUNK):
                channel.sendall(chunk[start : start + _CHUNK])
    except OSError:
        if not channel.status_event.wait(2):
            raise
    channel.shutdown_write()


def _words(data: bytes | str) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data


def _hops(host: Host) -> list[fabric.Connection]:
    """Connections from the first jump host to the host itself, none of them open."""
    # Nothing is taken from ~/.ssh/config: for a ProxyJump there, fabric makes connections that accept any host key.
    config = fabric.Config(overrides={"load_ssh_configs": False})
    hops: list[fabric.Connection] = []
    steps = [*((jump.address, jump.user or host.user, jump.port) for jump in host.jump)]
    for address, user, port in [*steps, (host.address, host.user, host.port)]:
        connection = fabric.Connection(
            address,
            user=user,
            port=port,
            gateway=hops[-1] if hops else None,
            config=config,
            connect_timeout=CONNECT_SECONDS,
            connect_kwargs={
                "key_filename": str(host.identity_file) if host.identity_file else None,
                "look_for_keys": host.identity_file is None,
                "banner_timeout": CONNECT_SECONDS,
                "auth_timeout": CONNECT_SECONDS,
                "channel_timeout": CONNECT_SECONDS,
            },
        )
        known_keys(connection.client, host)
        connection.client.set_missing_host_key_policy(RefuseUnknown(host, address, port))
        hops.append(connection)
    return hops


def _open(host: Host, hops: Sequence[fabric.Connection]) -> fabric.Connection:
    for hop in hops:
        where = f"{hop.user}@{hop.host}:{hop.port}"
        on_the_way = "" if hop is hops[-1] else f" (the way to {host.name} leads over it)"
        try:
            hop.open()
            hop.transport.set_keepalive(15)
        except paramiko.BadHostKeyException as error:
            raise changed_key(host, hop.host, hop.port, error) from error
        except paramiko.AuthenticationException as error:
            raise HostFailedError(
                f"{where} refuses the login{on_the_way} ({error}): put your public key into "
                f"~{hop.user}/.ssh/authorized_keys there, and have the key in your SSH agent or in identity_file"
            ) from error
        except socket.gaierror as error:
            raise HostFailedError(
                f"the address {hop.host} is not known here ({error.strerror}){on_the_way}: correct it in the inventory"
            ) from error
        except (OSError, EOFError, paramiko.SSHException) as error:
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise HostFailedError(
                f"{where} cannot be reached{on_the_way} ({said}): is the host up, and sshd there?"
            ) from error
    return hops[-1]
