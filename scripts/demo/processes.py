"""Child processes of the demo: started, printed, logged, timed, and ended together."""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import subprocess
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TextIO

from voxyard.host.signal_handlers import handling

LAST_LINES = 15
STOP_SECONDS = 10.0
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up before any fork


def bypass_proxies() -> None:
    """Has this process and its children reach what runs on loopback themselves, where the machine has an HTTP proxy."""
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), "localhost,127.0.0.1,::1")))


class DemoError(Exception):
    """Failure of a part of the demo; the message is for the person who started it."""


@dataclass(frozen=True)
class ChildCommand:
    """A program with its arguments; `environment` is what it gets beside the variables of the demo itself."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)  # variables that a person who copies the command needs
    stdout: Path | None = None  # a file instead of the log

    def __str__(self) -> str:
        """The line that a person can paste into a shell."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.shown.items()]
        to_file = [] if self.stdout is None else [f"> {shlex.quote(str(self.stdout))}"]
        return " ".join([*variables, shlex.join(self.arguments), *to_file])


@dataclass
class Record:
    """A command of the demo as the page shows it; `seconds` is None while it runs."""

    purpose: str
    command: str
    log: Path
    seconds: float | None = None
    served: bool = False  # ran beside the others until the demo ended it
    failed: bool = False


class Child:
    """A process in a group of its own, so that Ctrl-C reaches the demo alone and it can end the child's children."""

    def __init__(self, name: str, command: ChildCommand, record: Record, say: Callable[[str], None] | None) -> None:
        self.name, self.record = name, record
        self._begun = time.monotonic()
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        parent = os.getpid()
        with nullcontext() if command.stdout is None else command.stdout.open("wb") as to_file:
            try:
                self._process = subprocess.Popen(
                    command.arguments,
                    env={**os.environ, **command.environment, "PYTHONUNBUFFERED": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=to_file or subprocess.PIPE,
                    stderr=subprocess.PIPE if to_file else subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                    preexec_fn=lambda: _end_with(parent),  # noqa: PLW1509 (it takes no lock)
                )
            except OSError as error:
                raise DemoError(f"{command.arguments[0]} cannot be started: {error.strerror}") from error
        if (output := self._process.stdout or self._process.stderr) is None:
            raise RuntimeError("a pipe was asked for, and there is none")
        self._reader = threading.Thread(target=self._read, args=(output, say), name=f"output of {name}", daemon=True)
        self._reader.start()

    @property
    def group(self) -> int:
        """The number of its process group, which is its own process's."""
        return self._process.pid

    def ended(self) -> bool:
        """True where it has ended. Its number is kept until `close`, so that no other process can have it."""
        if self._process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def has_failed(self) -> bool:
        """True where it has ended by a signal or with an exit code other than 0."""
        if self._process.returncode is not None:
            return self._process.returncode != 0
        end = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return end is not None and (end.si_code != os.CLD_EXITED or end.si_status != 0)

    def ask_to_end(self) -> None:
        """Sends SIGTERM to its group, where it still runs."""
        if not self.ended():
            _signal_group(self.group, signal.SIGTERM)

    def close_within(self, seconds: float) -> None:
        """Waits so long for its end, then kills its group."""
        deadline = time.monotonic() + seconds
        while not self.ended() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.close()

    def close(self) -> int:
        """Ends what is left of its group, and gives its exit status."""
        if self._process.returncode is None:
            _signal_group(self.group, signal.SIGKILL)
            self._process.wait()
            self.record.seconds = time.monotonic() - self._begun
            self._reader.join(STOP_SECONDS)
        return int(self._process.returncode)

    def failure(self) -> DemoError:
        """The error for a child that has ended and should not have, or not so, with its last lines."""
        code = self.close()
        self.record.failed = True
        said = "\n".join(f"  {line}" for line in self._last) or "  (it printed nothing)"
        how = f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
        return DemoError(f"{self.name} {how}; its last lines were:\n{said}\nall of them: {self.record.log}")

    def _read(self, output: TextIO, say: Callable[[str], None] | None) -> None:
        with output, self.record.log.open("w", encoding="utf-8") as log:
            log.write(f"$ {self.record.command}\n")
            for line in output:
                log.write(line)
                log.flush()
                self._last.append(line.rstrip("\n"))
                if say is not None:
                    say(f"  {self.name:9} {line.rstrip()}")


class Children:
    """All child processes of a demo; leaving the block ends those that still run."""

    def __init__(self, logs: Path, say: Callable[[str], None]) -> None:
        self.records: list[Record] = []
        self._logs, self._say = logs, say
        self._running: list[Child] = []

    def __enter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_all()

    def start(self, name: str, purpose: str, command: ChildCommand, *, quiet: bool = False) -> Child:
        """Starts a command and prints it; its output goes to its log and, unless `quiet`, to the terminal."""
        record = Record(purpose, str(command), self._logs / f"{len(self.records) + 1:02}-{name}.log")
        self._say(f"  $ {record.command}")
        child = Child(name, command, record, None if quiet else self._say)
        self.records.append(record)
        self._running.append(child)
        return child

    def serve(self, name: str, purpose: str, command: ChildCommand) -> Child:
        """Starts a program that is to run until the demo ends it; its output goes to its log alone."""
        child = self.start(name, purpose, command, quiet=True)
        child.record.served = True
        return child

    def run(self, name: str, purpose: str, command: ChildCommand, *, quiet: bool = False) -> float:
        """Runs a command to its end: seconds. Raises DemoError where it fails."""
        return self.finish(self.start(name, purpose, command, quiet=quiet))

    def finish(self, child: Child) -> float:
        """Waits for a command that was started: seconds. Raises DemoError where it, or another program, fails."""
        self.until(child.ended)
        self._forget(child)
        if child.close() != 0:
            raise child.failure()
        return child.record.seconds or 0.0

    def until(
        self, holds: Callable[[], bool], *, seconds: float | None = None, pause: float = 0.1, say: str = ""
    ) -> None:
        """Waits until something holds. Raises DemoError where a program that runs fails, or the time is up.

        A server fails by ending; a program that has failed is reported once.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while not holds():
            for child in self._running:
                if child.has_failed() or (child.record.served and child.ended()):
                    self._forget(child)
                    raise child.failure()
            if deadline is not None and time.monotonic() > deadline:
                raise DemoError(f"after {seconds:.0f} s still not: {say}")
            time.sleep(pause)

    def _forget(self, child: Child) -> None:
        self._running = [each for each in self._running if each is not child]

    def stop_all(self) -> None:
        """Ends all that still run; a second Ctrl-C does not keep it from that."""
        with handling(signal.SIG_IGN, INTERRUPTS):  # where they could reach the block
            for child in self._running:
                child.ask_to_end()
            for child in self._running:
                child.close_within(STOP_SECONDS)
        self._running = []


def command(*arguments: object, stdout: Path | None = None) -> ChildCommand:
    """A command without variables of its own."""
    return ChildCommand(tuple(map(str, arguments)), stdout=stdout)


def near(path: Path) -> str:
    """A path as a person types it who stands in the working directory, the top of the repository."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def answers(url: str) -> Callable[[], bool]:
    """A function that is True once a page answers with a success."""

    def asked() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 (on loopback)
                return True
        except OSError:  # refused, or 503
            return False

    return asked


def with_variables(made: ChildCommand, variables: Mapping[str, str], shown: Sequence[str]) -> ChildCommand:
    """The same with an environment, of which `shown` are printed with it."""
    return ChildCommand(made.arguments, variables, {name: variables[name] for name in shown}, made.stdout)


def _end_with(parent: int) -> None:
    """Asks the kernel, in a child before its exec, for SIGTERM at the parent's death, whatever that dies of."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)  # it died before


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return  # all of it has ended
