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
from fleet.ssh.exchange import Said, SilentError, exchange
from fleet.ssh.login_failure import login_failure, told
from fleet.ssh.route import CONNECT_SECONDS, Way, way_to

BATCH_GRACE_SECONDS = 15
STALL_SECONDS = 300  # without a byte taken by a host that is sent something
_CUT_SECONDS = 3  # from the end of a command that a cut took with it to the end of the connection
_END_SECONDS = 5  # from the word that a master is to end to its end
_LOOK_SECONDS = 0.01
# Whatever becomes of this process: its connection ends with it, and its files go.
_GUARD = 'read -r _; ssh -F /dev/null -S "$1/master" -O exit master 2>/dev/null; rm -rf "$1"'


class SshSession:
    """An open connection to one host, as remote.Session has it."""

    def __init__(self, way: Way, master: subprocess.Popen[bytes], socket: Path) -> None:
        """`master` has logged in and listens at `socket`."""
        self._way, self._master, self._socket = way, master, socket
        self._name = way.host.name
        self._log = way.folder / "commands.err"  # what ssh itself says, apart from what the commands say

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        """The answers of all commands, which are one exchange. Raises HostFailedError."""
        text, marker = script(commands)
        limit = sum(command.seconds for command in commands) + BATCH_GRACE_SECONDS
        done = self._exchange(text, (), limit)
        out, err = _words(done.out), _words(done.err)
        answers = split(out, err, marker)
        if missing := [command.name for command in commands if command.name not in answers]:
            raise self._ended_before(missing[0], done, (err or out).replace(marker, ""))
        return answers

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        """The answer of a command that reads `data`. Raises HostFailedError, and what `data` raises."""
        text, marker = marked(command)
        done = self._exchange(text, data, command.seconds)
        answer = unmarked(_words(done.out), _words(done.err), marker)
        if answer is None:
            raise self._ended_before(command.name, done, _words(done.err))
        return answer

    def _exchange(self, text: str, data: Iterable[bytes], seconds: float) -> Said:
        self._still_there()
        # Without its master, ssh would make a connection of its own, while on the host goes on what the broken one
        # began: the proxy that fails forbids it.
        options = ["-o", "ProxyCommand=false", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"]
        words = ["ssh", "-F", "/dev/null", "-S", str(self._socket), *options, "-E", str(self._log), "master"]
        try:
            return exchange(
                [*words, f"sh -c {shlex.quote(text)}"], data, stall_seconds=min(seconds, STALL_SECONDS), seconds=seconds
            )
        except SilentError as error:
            did = "took nothing for" if error.taking else "did not answer within"
            said = f"{self._name} {did} {error.seconds:g} s: something hangs there; log in and look"
            raise HostFailedError(said) from error

    def _still_there(self) -> None:
        if self._master.poll() is not None:
            raise self._broke()

    def _broke(self) -> HostFailedError:
        words = self._way.words()
        said = told(words) if words else "it was closed"
        return HostFailedError(f"the connection to {self._name} broke ({said}): run the same command again")

    def _ended_before(self, name: str, done: Said, said: str) -> HostFailedError:
        """Error of a session that ended before the command ran: the connection broke, or the login's shell failed."""
        try:
            self._master.wait(_CUT_SECONDS)
        except subprocess.TimeoutExpired:
            words = said.strip()[-300:] or told(self._log.read_text(encoding="utf-8", errors="replace"))
            return HostFailedError(
                f"{self._name} ended the session before it ran {name} (exit code {done.code}): {words}. "
                f"The login shell must run commands: {self._way.hops[-1].by_hand} true"
            )
        return self._broke()


@contextmanager
def logged_in(host: Host) -> Iterator[SshSession]:
    """A connection to `host`, through its jump hosts. Raises FleetError with what to do about it."""
    with way_to(host) as way, _guarded(way.folder):
        socket = way.folder / "master"
        with way.log(way.hops[-1]).open("wb") as said:
            master = subprocess.Popen(
                [*way.command, "-M", "-S", str(socket), "-N", host.address],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,  # a Ctrl-C at the terminal is no matter of the connection's
            )
        try:
            _await(way, master, socket)
            yield SshSession(way, master, socket)
        finally:
            _end(master)


def _await(way: Way, master: subprocess.Popen[bytes], socket: Path) -> None:
    """Until it has logged in: then it listens. Raises FleetError."""
    until = time.monotonic() + CONNECT_SECONDS * (len(way.hops) + 2)
    while not socket.exists():
        interrupt.check()
        if master.poll() is not None:
            raise login_failure(way)
        if time.monotonic() > until:
            raise HostFailedError(
                f"{way.hops[-1].where} cannot be reached (it answers, but no login comes about): log in and look"
            )
        time.sleep(_LOOK_SECONDS)


@contextmanager
def _guarded(folder: Path) -> Iterator[None]:
    """A process that outlives this one, however it ends, and ends the connection then."""
    words = ["sh", "-c", _GUARD, "sh", str(folder)]
    silent = subprocess.DEVNULL
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=silent, stderr=silent, start_new_session=True) as guard:
        yield  # where this is left by an error, an interrupt in the midst of the end too, the guard does its work
        guard.kill()


def _end(master: subprocess.Popen[bytes]) -> None:
    master.terminate()
    try:
        master.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        master.kill()
        master.wait()


def _words(data: bytes) -> str:
    return data.decode(errors="replace")
