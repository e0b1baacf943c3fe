"""Packages that nothing asks for any more are named, and no others."""

from __future__ import annotations

import sys
from email.message import Message
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

import leftovers


def test_what_no_root_leads_to_is_left() -> None:
    asks = {
        "voxyard": ["click", "rich ; extra == 'show'", "voxyard[more] ; extra == 'all'", "numpy ; extra == 'more'"],
        "click": ["colorama ; sys_platform == 'no such system'", "not-installed"],
        "colorama": [],
        "rich": ["Mark_Down"],
        "mark-down": [],
        "numpy": [],
        "was-removed": ["its-own"],
        "its-own": [],
        "pip": [],
    }
    requires = {name: [Requirement(each) for each in given] for name, given in asks.items()}
    assert leftovers.leftovers(requires, ["voxyard[all,show]", "pip"]) == ["colorama", "its-own", "was-removed"]
    assert "numpy" in leftovers.leftovers(requires, ["voxyard[show]"])


@pytest.fixture
def environment(
    monkeypatch: pytest.MonkeyPatch,
) -> list[SimpleNamespace]:
    """Installed packages: voxyard with one extra, pip, and a package that nothing asks for."""

    def package(name: str, *requires: str, extra: str = "") -> SimpleNamespace:
        metadata = Message()
        metadata["Name"] = name
        if extra:
            metadata["Provides-Extra"] = extra
        return SimpleNamespace(metadata=metadata, requires=list(requires) or None)

    packages = [package("voxyard", "numpy ; extra == 'more'", extra="more"), package("numpy"), package("pip")]
    packages.append(package("Was_Removed"))
    monkeypatch.setattr(leftovers, "distributions", lambda: packages)
    return packages


def test_the_command_to_remove_them_is_printed(
    environment: list[SimpleNamespace], capsys: pytest.CaptureFixture[str]
) -> None:
    assert leftovers.main([]) == 0
    said = f"nothing asks for these packages any more: {sys.executable} -m pip uninstall was-removed\n"
    assert capsys.readouterr().out == said


def test_what_was_installed_by_name_is_kept(
    environment: list[SimpleNamespace], capsys: pytest.CaptureFixture[str]
) -> None:
    assert leftovers.main(["was-removed"]) == 0
    assert capsys.readouterr().out == ""
