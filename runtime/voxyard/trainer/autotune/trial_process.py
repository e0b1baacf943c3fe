"""Processes of trial.py, as the tuner runs them: one request, one answer, each with a limit of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from voxyard.host.child_process import ChildError, ChildProcess, LateChildError

TRIAL_SECONDS = 1800  # a candidate that takes longer counts as failed


class FailedTrialError(Exception):
    """A candidate that could not be timed; the message is the reason."""


def ask(request: Mapping[str, Any], seconds: float | None = TRIAL_SECONDS) -> dict[str, Any]:
    """Answer of a process of trial.py. Raises FailedTrialError with the end of its output, or with its limit."""
    try:
        with ChildProcess("voxyard.trainer.autotune.trial", quotes=True) as process:
            process.send(request)
            return process.receive(seconds)
    except LateChildError:
        raise FailedTrialError(f"it was ended after {seconds:.0f} s") from None
    except ChildError as error:
        raise FailedTrialError(str(error)) from error
