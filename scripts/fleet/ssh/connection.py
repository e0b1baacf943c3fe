"""SSH connection: OpenSSH's master connection to one host, and commands over it."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fleet.errors import HostFailedError
from fleet.inventory.hosts import Host
from fleet.ssh import interrupt
from fleet.ssh.command_batch import Answer, Command, marked, script, split, unmarked
from fleet.ssh.exchange import ProcessOutput, StalledError, exchange
from fleet.ssh.login_failure import login_failure, on_one_line
from fleet.ssh.route import CONNECT_SECONDS, Route, route_to

BATCH_GRACE_SECONDS = 15
STALL_SECONDS = 300  # without a byte taken by a host that is sent something
_CUT_SECONDS = 3  # from the end of a command that a cut took with it to the end of the connection
_END_SECONDS = 5  # from the word that a master is to end to its end
_POLL_SECONDS = 0.01
# Whatever becomes of this process: its connection ends with it, and its files go.
_GUARD = 'read -r _; ssh -F /dev/null -S "$1/master" -O exit master 2>/dev/null; rm -rf "$1"'


class SshSession:
    """An open connection to one host, as remote.Session has it."""

    def __init__(self, route: Route, master: subprocess.Popen[bytes], socket: Path) -> None:
        """`master` has logged in and listens at `socket`."""
        self._way, self._master, self._socket = route, master, socket
        self._name = route.host.name
        self._log = route.folder / "commands.err"  # what ssh itself says, apart from what the commands say

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        """The answers of all commands, which are one exchange. Raises HostFailedError."""
        text, marker = script(commands)
        limit = sum(command.seconds for command in commands) + BATCH_GRACE_SECONDS
        done = self._exchange(text, (), limit)
        out, err = _decode(done.out), _decode(done.err)
        answers = split(out, err, marker)
        if missing := [command.name for command in commands if command.name not in answers]:
            raise self._incomplete(missing[0], done, (err or out).replace(marker, ""))
        return answers

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        """The answer of a command that reads `data`. Raises HostFailedError, and what `data` raises."""
        text, marker = marked(command)
        done = self._exchange(text, data, command.seconds)
        answer = unmarked(_decode(done.out), _decode(done.err), marker)
        if answer is None:
            raise self._incomplete(command.name, done, _decode(done.err))
        return answer

    def _exchange(self, text: str, data: Iterable[bytes], seconds: float) -> ProcessOutput:
        self._check_alive()
        # Without its master, ssh would make a connection of its own, while on the host goes on what the broken one
        # began: the proxy that fails forbids it.
        options = ["-o", "ProxyCommand=false", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"]
        words = ["ssh", "-F", "/dev/null", "-S", str(self._socket), *options, "-E", str(self._log), "master"]
        try:
            return exchange(
                [*words, f"sh -c {shlex.quote(text)}"], data, stall_seconds=min(seconds, STALL_SECONDS), seconds=seconds
            )
        except StalledError as error:
            did = "took nothing for" if error.sending else "did not answer within"
            said = f"{self._name} {did} {error.seconds:g} s: something hangs there; log in and look"
            raise HostFailedError(said) from error

    def _check_alive(self) -> None:
        if self._master.poll() is not None:
            raise self._connection_lost()

    def _connection_lost(self) -> HostFailedError:
        words = self._way.words()
        said = on_one_line(words) if words else "it was closed"
        return HostFailedError(f"the connection to {self._name} broke ({said}): run the same command again")

    def _incomplete(self, name: str, done: ProcessOutput, said: str) -> HostFailedError:
        """Error of a session that ended before the command ran: the connection broke, or the login's shell failed."""
        try:
            self._master.wait(_CUT_SECONDS)
        except subprocess.TimeoutExpired:
            words = said.strip()[-300:] or on_one_line(self._log.read_text(encoding="utf-8", errors="replace"))
            return HostFailedError(
                f"{self._name} ended the session before it ran {name} (exit code {done.code}): {words}. "
                f"The login shell must run commands: {self._way.hops[-1].login_command} true"
            )
        return self._connection_lost()


@contextmanager
def open_session(host: Host) -> Iterator[SshSession]:
    """A connection to `host`, through its jump hosts. Raises FleetError with what to do about it."""
    with route_to(host) as route, _cleanup_guard(route.folder):
        socket = route.folder / "master"
        with route.log(route.hops[-1]).open("wb") as said:
            master = subprocess.Popen(
                [*route.command, "-M", "-S", str(socket), "-N", host.address],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,  # a Ctrl-C at the terminal is no matter of the connection's
            )
        try:
            _wait_for_login(route, master, socket)
            yield SshSession(route, master, socket)
        finally:
            _terminate(master)


def _wait_for_login(route: Route, master: subprocess.Popen[bytes], socket: Path) -> None:
    """Until it has logged in: then it listens. Raises FleetError."""
    until = time.monotonic() + CONNECT_SECONDS * (len(route.hops) + 2)
    while not socket.exists():
        interrupt.check()
        if master.poll() is not None:
            raise login_failure(route)
        if time.monotonic() > until:
            raise HostFailedError(
                f"{route.hops[-1].target} cannot be reached (it answers, but no login comes about): log in and look"
            )
        time.sleep(_POLL_SECONDS)


@contextmanager
def _cleanup_guard(folder: Path) -> Iterator[None]:
    """A process that outlives this one, however it ends, and ends the connection then."""
    words = ["sh", "-c", _GUARD, "sh", str(folder)]
    silent = subprocess.DEVNULL
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=silent, stderr=silent, start_new_session=True) as guard:
        yield  # where this is left by an error, an interrupt in the midst of the end too, the guard does its work
        guard.kill()


def _terminate(master: subprocess.Popen[bytes]) -> None:
    master.terminate()
    try:
        master.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        master.kill()
        master.wait()


def _decode(data: bytes) -> str:
    return data.decode(errors="replace")
