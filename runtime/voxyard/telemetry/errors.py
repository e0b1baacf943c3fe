"""TelemetryError: the one exception type of the telemetry package."""

from __future__ import annotations

from voxyard.host.errors import UserError


class TelemetryError(UserError):
    """An error of the telemetry, with what to do."""
