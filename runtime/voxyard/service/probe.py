"""Asks the speech service on this machine whether it is well; `python -m voxyard.service.probe` is the health check."""

from __future__ import annotations

import sys

from voxyard.telemetry.probe import ask

if __name__ == "__main__":
    sys.exit(ask("speech service", "VOXYARD_HOST", "VOXYARD_PORT", 8080))
