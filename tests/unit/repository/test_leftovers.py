"""Packages that nothing asks for any more are named, and no others."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def script() -> ModuleType:
    """scripts/leftovers.py as a module."""
    spec = importlib.util.spec_from_file_location("leftovers", ROOT / "scripts/leftovers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_no_root_leads_to_is_left(script: ModuleType) -> None:
    asks = {
        "voxyard": ["click", "rich ; extra == 'show'", "voxyard[more] ; extra == 'all'", "numpy ; extra == 'more'"],
        "click": ["colorama ; sys_platform == 'no such system'"],
        "colorama": [],
        "rich": ["Mark_Down"],
        "mark-down": [],
        "numpy": [],
        "was-removed": ["its-own"],
        "its-own": [],
        "pip": [],
    }
    requires = {name: [Requirement(each) for each in given] for name, given in asks.items()}
    assert script.leftovers(requires, ["voxyard[all,show]", "pip"]) == ["colorama", "its-own", "was-removed"]
    assert "numpy" in script.leftovers(requires, ["voxyard[show]"])
