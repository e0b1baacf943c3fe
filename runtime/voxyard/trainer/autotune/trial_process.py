"""Processes of trial.py, as the tuner runs them: one request, one answer, each with a limit of time."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

TRIAL_SECONDS = 1800  # a candidate that takes longer counts as failed


class FailedTrialError(Exception):
    """A candidate that could not be timed; the message is the reason."""


def ask(request: Mapping[str, Any], seconds: float | None = TRIAL_SECONDS) -> dict[str, Any]:
    """Answer of a process of trial.py. Raises FailedTrialError with the end of its output, or with its limit."""
    command = [sys.executable, "-m", "voxyard.trainer.autotune.trial"]
    late = threading.Event()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True)
        try:
            out = _talk(process, json.dumps(request), seconds, late)
        finally:
            process.kill()
            process.wait()
        if process.returncode == 0:
            answer: dict[str, Any] = json.loads(out.splitlines()[-1])
            return answer
        if late.is_set():
            raise FailedTrialError(f"it was ended after {seconds:.0f} s")
        said.seek(0)
        lines = [line.strip() for line in said.read().splitlines() if line.strip()]
    raise FailedTrialError(lines[-1][:300] if lines else f"it ended with exit code {process.returncode}")


def _talk(process: subprocess.Popen[str], request: str, seconds: float | None, late: threading.Event) -> str:
    """The answer; standard input stays open until then, since its end ends the other process."""
    if process.stdin is None or process.stdout is None:
        raise FailedTrialError("it has no pipes")

    def end() -> None:
        late.set()
        process.kill()

    process.stdin.write(request + "\n")
    process.stdin.flush()
    timer = threading.Timer(seconds, end) if seconds is not None else None
    try:
        if timer is not None:
            timer.start()
        out = process.stdout.read()
        process.wait()
        return out
    finally:
        if timer is not None:
            timer.cancel()
        process.stdin.close()
