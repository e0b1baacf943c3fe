"""Exchange with a subprocess: streams input, collects output, times out on silence."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, cast

from fleet.ssh import interrupt

_CHUNK = 1 << 16  # bytes: the capacity of a pipe
_END_SECONDS = 10  # from the end of the output to the exit


@dataclass(frozen=True, slots=True)
class ProcessOutput:
    """Output and exit code of a program."""

    out: bytes
    err: bytes
    code: int


class StalledError(Exception):
    """Program that made no progress for `seconds`; it was killed."""

    def __init__(self, seconds: float, *, sending: bool) -> None:
        """`sending`: it stopped reading input; otherwise it did not exit."""
        super().__init__(f"{seconds:g} s")
        self.seconds, self.sending = seconds, sending


def exchange(words: Sequence[str], data: Iterable[bytes], *, stall_seconds: float, seconds: float) -> ProcessOutput:
    """Run a program with `data` on its standard input until it exits; it need not read all of it.

    It runs in its own session: a Ctrl-C at the terminal does not reach it. Raises StalledError when it reads no byte
    for `stall_seconds`, or does not exit within `seconds` after the last one; FileNotFoundError where it is not
    installed; InterruptedByOperatorError after a Ctrl-C inside `interrupt.reading`; and what `data` raises.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True) as program:
        try:
            out, err = _PipeExchange(program, data, stall_seconds, seconds).run()
            return ProcessOutput(out, err, program.wait(_END_SECONDS))
        except subprocess.TimeoutExpired:
            raise StalledError(_END_SECONDS, sending=False) from None
        finally:
            if program.poll() is None:
                program.kill()


class _PipeExchange:
    def __init__(
        self, program: subprocess.Popen[bytes], data: Iterable[bytes], stall_seconds: float, seconds: float
    ) -> None:
        self._stdin, *outputs = cast("list[IO[bytes]]", [program.stdin, program.stdout, program.stderr])
        self._output = {output.fileno(): bytearray() for output in outputs}
        self._data, self._stall_seconds, self._seconds = iter(data), stall_seconds, seconds
        self._left: memoryview | None = None  # rest of the current chunk; None: all sent

    def run(self) -> tuple[bytes, bytes]:
        """Run to the end of the output; standard output and standard error."""
        with selectors.DefaultSelector() as pipes:
            for number in self._output:
                pipes.register(number, selectors.EVENT_READ)
            os.set_blocking(self._stdin.fileno(), False)
            pipes.register(self._stdin, selectors.EVENT_WRITE)
            self._advance(pipes)
            while pipes.get_map():
                left = self._until - time.monotonic()
                ready = pipes.select(min(max(0.0, left), interrupt.POLL_SECONDS))
                interrupt.check()
                if not ready and left <= interrupt.POLL_SECONDS:
                    sending = self._left is not None
                    raise StalledError(self._stall_seconds if sending else self._seconds, sending=sending)
                for key, _ in ready:
                    if key.fileobj is self._stdin:
                        self._write(pipes)
                    elif piece := os.read(key.fd, _CHUNK):
                        self._output[key.fd] += piece
                    else:
                        pipes.unregister(key.fd)
        out, err = self._output.values()
        return bytes(out), bytes(err)

    def _write(self, pipes: selectors.BaseSelector) -> None:
        left = self._left or memoryview(b"")
        try:
            self._left = left[os.write(self._stdin.fileno(), left[:_CHUNK]) :]
        except BrokenPipeError:  # it exited before it read all input; its output says why
            self._data, self._left = iter(()), memoryview(b"")
        self._advance(pipes)

    def _advance(self, pipes: selectors.BaseSelector) -> None:
        """Moves to the next chunk where this one is sent, and restarts the timeout."""
        if not self._left:
            chunk = next((each for each in self._data if each), None)
            self._left = None if chunk is None else memoryview(chunk)
        if self._left is None:
            pipes.unregister(self._stdin)
            self._stdin.close()
        self._until = time.monotonic() + (self._seconds if self._left is None else self._stall_seconds)
