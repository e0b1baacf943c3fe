"""Paths of the tests' modules, as pytest has them: pyproject.toml's `pythonpath`."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def add() -> None:
    """Puts them in place, for the imports that follow."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        sys.path[:0] = [str(ROOT / path) for path in tomllib.load(file)["tool"]["pytest"]["ini_options"]["pythonpath"]]
