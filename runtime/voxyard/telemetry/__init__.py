"""Telemetry for Prometheus: metrics of the trainer and of the GPUs."""

from __future__ import annotations

from voxyard.telemetry.errors import TelemetryError

__all__ = ["TelemetryError"]
