"""A voxyard command in a process of its own: bounded in time, its output kept, nothing of it left running."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from voxyard.host.signal_handlers import handling

MOST_BYTES = 2 << 20
"""Bytes of a command's standard error that are kept, from its end."""


@dataclass(frozen=True)
class CompletedCommand:
    """Exit of a command; `code` is None where it was stopped because its time was up."""

    code: int | None
    out: str
    log: str

    @property
    def log_tail(self) -> str:
        """The last lines of its log that are not empty."""
        return "\n".join([line for line in self.log.splitlines() if line.strip()][-6:])


def voxyard(
    arguments: Sequence[str], directory: Path, *, timeout: float, environ: Mapping[str, str]
) -> CompletedCommand:
    """Runs `voxyard ARGUMENTS` to its end; `directory` takes what it writes and its temporary files.

    It and all that it starts are killed when the time is up, and when this process is interrupted.
    """
    command = [sys.executable, "-m", "voxyard", *arguments]
    with (directory / "out").open("w+b") as out, (directory / "log").open("w+b") as log:
        process: subprocess.Popen[bytes] | None = None
        code: int | None = None
        try:
            with _signals_held_back():
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=True,
                    env={**environ, "TMPDIR": str(directory)},
                )  # fmt: skip
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            pass  # the code stays None: the caller says so
        finally:
            if process is not None:
                _kill_group(process)
        return CompletedCommand(code, _text(directory / "out", None), _text(directory / "log", MOST_BYTES))


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Ends the program on SIGTERM as Ctrl-C does within the block: through its `finally` clauses, with code 143."""

    def stop(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with handling(stop, [signal.SIGTERM]):
        yield


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Delays SIGINT and SIGTERM until the end of the block, so that no process is started without being tracked."""
    came: list[int] = []
    try:
        with handling(lambda which, _: came.append(which)):
            yield
    finally:
        if came:
            signal.raise_signal(came[0])


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _text(path: Path, most: int | None) -> str:
    data = path.read_bytes()
    cut = most is not None and len(data) > most
    text = (data[-most:] if cut and most is not None else data).decode("utf-8", errors="replace")
    return f"[the first {len(data) - (most or 0)} bytes are left out]\n{text}" if cut else text
