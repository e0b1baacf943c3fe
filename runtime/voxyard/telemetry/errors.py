"""TelemetryError: the one exception type of the telemetry package."""

from __future__ import annotations


class TelemetryError(Exception):
    """A message for the user: what was found, and what to do. `exit_code` is the command's."""

    exit_code: int = 2

    def __init__(self, message: str, *, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
