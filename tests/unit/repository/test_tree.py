"""The tree as it is agreed: what lies where, and what no file may say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tracked_files import ROOT, tracked

TOP = {
    ".ci", ".dockerignore", ".gitignore", "LICENSE", "Makefile", "README.md", "constraints.txt",
    "constraints-tf217.txt", "deploy", "fabfile.py", "grafana", "images", "pyproject.toml", "runtime", "scripts",
    "tests",
}  # fmt: skip
TESTS = {
    "README.md", "bench", "browser", "captures", "claims.md", "conftest.py", "fleet", "integration", "monitoring",
    "nvml", "support", "unit",
}  # fmt: skip
BANNED_NAMES = {"utils", "helper", "helpers", "manager", "common", "misc", "v2", "new"}
FORBIDDEN = {  # with a ¬ in each, which is taken out, so that this file does not match
    "pickled weights": r"weights¬_only\s*=\s*False",
    "pickled arrays": r"allow¬_pickle\s*=\s*True",
    "a registry's host": r"(files\.pytho¬nhosted|pypi¬\.(org|python)|download\.pyt¬orch|registry\.npm¬js)",
}
ALLOWED = {("scripts/install_torch.py", "a registry's host")}  # PyTorch's CPU index, which the user's own lacks


def python_files() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py"]


def faults(text: str) -> list[str]:
    """Forbidden words in `text`, by name."""
    return [name for name, pattern in FORBIDDEN.items() if re.search(pattern.replace("¬", ""), text)]


def test_only_agreed_entries_lie_at_the_top() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in tracked()} <= TOP
    assert {parts[1] for path in tracked() if (parts := path.relative_to(ROOT).parts)[0] == "tests"} <= TESTS


def test_no_file_has_a_name_that_says_nothing() -> None:
    files = [path.relative_to(ROOT) for path in python_files()]  # a checkout may lie below any folder
    assert [str(path) for path in files if BANNED_NAMES & {part.removesuffix(".py") for part in path.parts}] == []


def test_test_files_are_found_by_the_test_runner() -> None:
    """A test in a file that pytest does not collect never fails."""
    folders = (ROOT / "tests/unit", ROOT / "tests/integration")
    for path in python_files():
        if any(folder in path.parents for folder in folders) and not path.name.startswith("test_"):
            assert not re.search(r"^(async )?def test_", path.read_text(encoding="utf-8"), re.MULTILINE), path


def test_no_file_says_what_none_may_say() -> None:
    found = {}
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a sound or a picture
        name = str(path.relative_to(ROOT))
        if wrong := [fault for fault in faults(text) if (name, fault) not in ALLOWED]:
            found[name] = wrong
    assert found == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("torch.load(f, weights¬_only=False)", "pickled weights"),
        ("np.load(f, allow¬_pickle = True)", "pickled arrays"),
        ("pip install -i https://pypi¬.org/simple", "a registry's host"),
    ],
)
def test_a_planted_fault_is_found(text: str, fault: str) -> None:
    assert faults(text.replace("¬", "")) == [fault]
    assert faults(text) == []
