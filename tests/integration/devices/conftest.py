"""NVIDIA's libraries of tests/nvml, for these tests."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "nvml"))
driver = importlib.import_module("driver_fixture").driver
