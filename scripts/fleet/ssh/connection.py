"""SSH connection: an OpenSSH master connection to one host, and commands over it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fleet.errors import HostFailedError
from fleet.inventory.hosts import Host
from fleet.ssh import interrupt
from fleet.ssh.command_batch import Answer, Command, decoded, for_any_shell, marked, script, split, unmarked
from fleet.ssh.exchange import ProcessOutput, StalledError, exchange
from fleet.ssh.login_failure import login_failure, on_one_line
from fleet.ssh.route import CONNECT_SECONDS, Route, route_to

BATCH_GRACE_SECONDS = 15
STALL_SECONDS = 300  # without a byte accepted by the host
_CUT_SECONDS = 3  # wait for the master to end after a command was cut off
_END_SECONDS = 5  # grace period of the master after SIGTERM
_POLL_SECONDS = 0.01
_NO_SESSION = "refused by peer"
_REFUSED = "Its sshd allows too few sessions of one connection: MaxSessions 10 in its sshd_config"
_SHELL = "The login shell must run commands: {} true"
# Watchdog: when this process ends, closes the connection and removes the files.
_GUARD = 'read -r _; ssh -F /dev/null -S "$1/master" -O exit master 2>/dev/null; rm -rf "$1"'


class SshSession:
    """Open connection to one host; implements connection_pool.Session."""

    def __init__(self, route: Route, master: subprocess.Popen[bytes], socket: Path) -> None:
        """`master` has logged in and listens at `socket`."""
        self._way, self._master, self._socket = route, master, socket
        self._name = route.host.name
        self._log = route.folder / "commands.err"  # messages of ssh itself, not of the commands

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        """Run all commands in one exchange; answers by name. Raises HostFailedError."""
        text, marker = script(commands, self._way.host.state_dir)
        limit = sum(command.seconds for command in commands) + BATCH_GRACE_SECONDS
        done = self._exchange(text, (), limit)
        out, err = decoded(done.out), decoded(done.err)
        answers = split(out, err, marker)
        if missing := [command.name for command in commands if command.name not in answers]:
            raise self._incomplete(missing[0], done, (err or out).replace(marker, ""))
        return answers

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        """Run one command that reads `data`. Raises HostFailedError, and what `data` raises."""
        text, marker = marked(command, self._way.host.state_dir)
        done = self._exchange(text, data, command.seconds)
        answer = unmarked(decoded(done.out), decoded(done.err), marker)
        if answer is None:
            raise self._incomplete(command.name, done, decoded(done.err))
        return answer

    def _exchange(self, text: str, data: Iterable[bytes], seconds: float) -> ProcessOutput:
        # Without the master, ssh would open a new connection while the host still runs the commands of the broken
        # one: the failing proxy command prevents that.
        options = ["-o", "ProxyCommand=false", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"]
        words = ["ssh", "-F", "/dev/null", "-S", str(self._socket), *options, "-E", str(self._log), "master"]
        try:
            return exchange(
                [*words, for_any_shell(text)], data, stall_seconds=min(seconds, STALL_SECONDS), seconds=seconds
            )
        except StalledError as error:
            did = "accepted no data for" if error.sending else "did not answer within"
            said = f"{self._name} {did} {error.seconds:g} s: log in and check for hanging processes"
            raise HostFailedError(said) from error

    def _connection_lost(self) -> HostFailedError:
        words = self._way.words()
        said = on_one_line(words) if words else "closed"
        return HostFailedError(f"the connection to {self._name} was lost ({said}): run the same command again")

    def _incomplete(self, name: str, done: ProcessOutput, said: str) -> HostFailedError:
        """Error of a session that ended before the command ran: the connection broke, or the login's shell failed."""
        try:
            self._master.wait(_CUT_SECONDS)
        except subprocess.TimeoutExpired:
            words = said.strip()[-300:] or on_one_line(self._log.read_text(encoding="utf-8", errors="replace"))
            return HostFailedError(
                f"{self._name} ended the session before it ran {name} (exit code {done.code}): {words}. "
                f"{_REFUSED if _NO_SESSION in words else _SHELL.format(self._way.hops[-1].login_command)}"
            )
        return self._connection_lost()


@contextmanager
def open_session(host: Host) -> Iterator[SshSession]:
    """Open connection to `host`, through its jump hosts. Raises FleetError with the fix."""
    with route_to(host) as route, _cleanup_guard(route.folder):
        socket = route.folder / "master"
        with route.log(route.hops[-1]).open("wb") as said:
            master = subprocess.Popen(
                [*route.command, "-M", "-S", str(socket), "-N", host.address],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,  # a Ctrl-C at the terminal does not reach it
            )
        try:
            _wait_for_login(route, master, socket)
            yield SshSession(route, master, socket)
        finally:
            _terminate(master)


def _wait_for_login(route: Route, master: subprocess.Popen[bytes], socket: Path) -> None:
    """Wait until the master has logged in and listens. Raises FleetError."""
    until = time.monotonic() + CONNECT_SECONDS * (len(route.hops) + 2)
    while not socket.exists():
        interrupt.check()
        if master.poll() is not None:
            raise login_failure(route)
        if time.monotonic() > until:
            raise HostFailedError(
                f"{route.hops[-1].target} accepts connections but no login completes: log in by hand, check sshd"
            )
        time.sleep(_POLL_SECONDS)


@contextmanager
def _cleanup_guard(folder: Path) -> Iterator[None]:
    """Watchdog process that outlives this one and closes the connection then."""
    words = ["sh", "-c", _GUARD, "sh", str(folder)]
    silent = subprocess.DEVNULL
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=silent, stderr=silent, start_new_session=True) as guard:
        yield  # after an error or an interrupt the guard cleans up
        guard.kill()


def _terminate(master: subprocess.Popen[bytes]) -> None:
    master.terminate()
    try:
        master.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        master.kill()
        master.wait()
