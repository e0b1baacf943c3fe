"""What everybody can see: metrics of the trainer and of the GPUs, for Prometheus."""

from __future__ import annotations

from voxyard.telemetry.errors import TelemetryError

__all__ = ["TelemetryError"]
