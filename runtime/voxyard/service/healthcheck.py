"""Health check of the speech service on this machine: `python -m voxyard.service.healthcheck`."""

from __future__ import annotations

import sys

from voxyard.telemetry.healthcheck import ask

CANNOT_WORK = "the service cannot work until it is restarted"
"""Begins the reason of `/readyz` where waiting does not help; the health gate of a deploy ends at it."""

if __name__ == "__main__":
    sys.exit(ask("speech service", "VOXYARD_SERVICE_HOST", "VOXYARD_SERVICE_PORT", 8080))
