"""Child processes that answer questions: JSON and bytes over a pipe; they end with their parent, whatever they do."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import IO, Any, Self

_END_SECONDS = 10.0  # for a process that no longer reads or writes


class ChildError(Exception):
    """A child process did not start, or ended; the message is the reason."""


class LateChildError(ChildError):
    """A child process has not answered in time."""


class ChildProcess:
    """A process of one of our modules, which takes its end of the pipe as `Parent`.

    `kill` may be called from any thread, the other methods from one at a time.
    """

    def __init__(self, module: str, *arguments: str, quotes: bool = False) -> None:
        """`quotes`: what it writes to its standard error is the reason of its end, else it is this process's.

        Raises:
            ChildError: it did not start.
        """
        ours, theirs = socket.socketpair()
        self._open = ExitStack()
        self._connection = self._open.enter_context(Connection(ours.detach()))
        self._said: IO[bytes] | None = None
        if quotes:
            self._said = self._open.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 — closed with the pipe
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder)},
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL if quotes else sys.__stderr__ and sys.__stderr__.fileno(),
                    stderr=self._said,
                )
            except OSError as error:
                self._open.close()
                raise ChildError(f"it did not start: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def send(self, question: Mapping[str, Any], *more: bytes) -> None:
        """Sends a question, and bytes that belong to it. Raises ChildError where the process has ended."""
        try:
            self._connection.send_bytes(json.dumps(question).encode())
            for each in more:
                self._connection.send_bytes(each)
        except OSError:
            raise self._ended() from None

    def receive(self, seconds: float | None = None) -> dict[str, Any]:
        """The next answer; `seconds` is the longest wait for it.

        Raises:
            LateChildError: there is none so far.
            ChildError: the process has ended.
        """
        try:
            if not self._connection.poll(seconds):
                raise LateChildError(f"it took more than {seconds} s")
            answer: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (OSError, EOFError):
            raise self._ended() from None
        return answer

    def kill(self) -> None:
        """Ends the process; a call that waits for its answer raises ChildError."""
        self._process.kill()

    def close(self) -> None:
        """Ends the process, and waits for its end."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._open.close()

    def _ended(self) -> ChildError:
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # it has closed its end
            self._process.kill()
            code = self._process.wait()
        lines = []
        if self._said is not None:
            self._said.seek(0)
            lines = [line.strip() for line in self._said.read().decode(errors="replace").splitlines() if line.strip()]
        return ChildError(lines[-1][:300] if lines else f"it ended with exit code {code}")


class Parent:
    """The other end, in the child: its arguments, and the questions to answer."""

    def __init__(self) -> None:
        """Has this process end with its parent, and not by Ctrl-C, which ends the parent."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._connection = Connection(int(sys.argv[1]))
        self.arguments = sys.argv[2:]
        threading.Thread(target=_end_with_parent, daemon=True).start()

    def receive(self) -> dict[str, Any]:
        """The next question; waits for it."""
        question: dict[str, Any] = json.loads(self.receive_bytes())
        return question

    def receive_bytes(self) -> bytes:
        """Bytes that belong to a question."""
        try:
            return self._connection.recv_bytes()
        except EOFError:
            os._exit(0)

    def send(self, answer: Mapping[str, Any]) -> None:
        """Answers a question."""
        self._connection.send_bytes(json.dumps(answer).encode())


def _end_with_parent() -> None:
    """Ends this process with its parent, which keeps our standard input open until its own end."""
    while os.read(0, 1024):  # not through sys.stdin, whose lock would be held when the interpreter ends
        pass
    os._exit(1)
