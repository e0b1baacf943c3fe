"""Mutation testing: faults are planted where they are said to be, survivors are named, nothing is left changed."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = '''"""Module."""

def limit(size: int, most: int) -> int:
    """At most `most`."""
    if size > most and not most < 0:
        raise ValueError("größer als 3")
    log.info("taken")
    note(size)
    return size + 1
'''


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts/mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_each_fault_changes_one_place(mutants: ModuleType) -> None:
    found = list(mutants.faults("m.py", SOURCE))
    changes = {(fault.line, fault.old, fault.new) for fault in found}
    assert (5, "size > most", "(size >= most)") in changes
    assert (5, "not most < 0", "(most < 0)") in changes
    assert (6, 'raise ValueError("größer als 3")', "pass") in changes
    assert (8, "note(size)", "pass") in changes
    assert (9, "size + 1", "(size - 1)") in changes
    assert not [fault for fault in found if "log.info" in fault.old]
    for fault in found:
        planted = fault.planted(SOURCE)
        ast.parse(planted)
        assert planted != SOURCE
        assert len(set(planted.splitlines()) ^ set(SOURCE.splitlines())) == 2, str(fault)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package with a test that looks at half of it."""
    package = tmp_path / "runtime/voxyard/yard"
    package.mkdir(parents=True)
    (tmp_path / "runtime/voxyard/__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "sums.py").write_text("def summed(a, b):\n    return a + b\n\n\ndef unseen(a, b):\n    return a + b\n")
    tests = tmp_path / "tests/unit/yard"
    tests.mkdir(parents=True)
    (tests / "test_sums.py").write_text(
        "from voxyard.yard.sums import summed\n\n\ndef test_sum():\n    assert summed(2, 3) == 5\n"
    )
    return tmp_path


def test_a_survivor_is_named_and_the_files_are_as_they_were(
    mutants: ModuleType, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (project / "runtime/voxyard/yard/sums.py").read_text()
    assert mutants.main(["yard"], root=project) == 1
    said = capsys.readouterr().out
    assert "killed   runtime/voxyard/yard/sums.py:2: a + b  →  (a - b)" in said
    assert "SURVIVED runtime/voxyard/yard/sums.py:6: a + b  →  (a - b)" in said
    assert "1 of 2 killed (50%), of 2 that can be planted" in said
    assert [each["line"] for each in json.loads((project / "build/mutants.json").read_text())["survivors"]] == [6]
    assert (project / "runtime/voxyard/yard/sums.py").read_text() == before


def test_tests_that_fail_by_themselves_prove_nothing(
    mutants: ModuleType, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "tests/unit/yard/test_sums.py").write_text("def test_sum():\n    assert False\n")
    assert mutants.main(["yard"], root=project) == 2
    assert "the tests fail without any fault" in capsys.readouterr().err


def test_a_package_that_is_not_there_is_named(mutants: ModuleType, project: Path) -> None:
    with pytest.raises(SystemExit, match="yrd: no such package"):
        mutants.main(["yrd"], root=project)
