"""A suite of tests and its second chance: the files that failed run again, alone, and what passes then is named."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
GOOD = "def test_good(): pass\n"
BROKEN = "def test_broken(): assert 2 + 2 == 5\n"
FLAKY = """
from pathlib import Path

def test_flaky():
    marks = Path("marks")
    marks.write_text(marks.read_text() + "." if marks.exists() else ".")
    assert len(marks.read_text()) % 2 == 0, "the machine is busy"

def test_beside_it():
    pass
"""

BREAKS = """
from pathlib import Path

def pytest_runtest_logreport(report):
    if "test_c" in report.nodeid and not Path("broke").exists():
        Path("broke").touch()
        raise SystemError("recursion depth mismatch")
"""


def _suite(folder: Path, *arguments: str, gate: str | None = "monday") -> tuple[int, str]:
    """Exit code and output of the script in a folder."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("VOXYARD_", "PYTEST_"))}
    command = [sys.executable, str(ROOT / "scripts/suite.py"), *arguments]
    quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin"}
    environ = own | quick | ({"VOXYARD_GATE": gate} if gate else {})
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def _run(folder: Path, *options: str, gate: str | None = "monday") -> tuple[int, str]:
    return _suite(folder, "some tests", ".", "--", "-q", "-p", "no:cacheprovider", *options, gate=gate)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tests that pass."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    (tmp_path / "test_good.py").write_text(GOOD)
    return tmp_path


def test_a_suite_says_how_many_tests_it_has_and_how_long_it_took_the_last_time(folder: Path) -> None:
    code, first = _run(folder)
    assert code == 0
    assert first.splitlines()[0] == "→ some tests"
    told = first.splitlines()[-1]
    assert re.fullmatch(r"→ some tests: 1 test in \d+:\d\d minutes \(\d+\.\d of CPU time\)", told)
    assert _run(folder, gate=None)[1].splitlines()[0] == f"{told} the last time"
    assert _suite(folder, "times") == (0, ""), "it ran in no gate"
    _run(folder)
    assert re.fullmatch(r"some tests . -q .*: 1 test in .*\n", _suite(folder, "times")[1])


def test_outside_a_gate_a_failure_is_red_at_once(folder: Path) -> None:
    (folder / "test_flaky.py").write_text(FLAKY)
    code, said = _run(folder, gate=None)
    assert code == 1
    assert "1 failed, 2 passed" in said
    assert not (folder / "build/gate").exists()


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadfile")], ids=["one process", "two workers"])
def test_what_passes_alone_is_flaky_and_named_with_its_first_failure(folder: Path, workers: tuple[str, ...]) -> None:
    (folder / "test_flaky.py").write_text(FLAKY)
    code, said = _run(folder, *workers)
    assert code == 0
    assert "FAILED test_flaky.py::test_flaky - AssertionError: the machine is busy" in said
    assert "→ some tests: 1 failed; their files run again, alone, after this tier" in said

    code, said = _suite(folder, "again")
    assert code == 0
    assert "→ some tests: test_flaky.py again, alone" in said
    assert "2 passed" in said
    reason = "passes alone, failed before that: AssertionError: the machine is busy (in 1 of the last 1 gates)"
    assert f"FLAKY test_flaky.py::test_flaky: {reason}" in said
    counted = json.loads((folder / "build/flaky.json").read_text())
    assert counted == {"monday": {"test_flaky.py::test_flaky": "AssertionError: the machine is busy"}}
    assert _suite(folder, "again") == (0, ""), "nothing is left of it"


def test_what_fails_alone_too_is_red(folder: Path) -> None:
    (folder / "test_broken.py").write_text(BROKEN)
    (folder / "test_flaky.py").write_text(FLAKY)
    assert _run(folder)[0] == 0
    code, said = _suite(folder, "again")
    assert code == 1
    assert "1 failed in" in said
    assert "FAILED test_broken.py: alone too" in said
    assert "FLAKY test_flaky.py::test_flaky" in said


@pytest.mark.parametrize("workers", [(), ("-n", "1", "--dist", "loadfile")], ids=["one process", "a worker"])
def test_what_never_ran_because_pytest_broke_runs_again_and_counts_once(folder: Path, workers: tuple[str, ...]) -> None:
    (folder / "conftest.py").write_text(BREAKS)
    for name in "abcde":
        (folder / f"test_{name}.py").write_text("def test_one(): pass\n\ndef test_two(): pass\n")
    code, said = _run(folder, *workers)
    assert code == 0, said
    never = re.search(r"0 failed and (\d+) never ran \(.*Error: .+\); their files run", said)
    assert never, said
    assert int(never[1]) >= 4
    code, said = _suite(folder, "again")
    assert code == 0, said
    assert "→ some tests: test_e.py again, alone" in said
    assert said.count("FLAKY") == 1
    assert "FLAKY pytest of some tests: passes alone" in said
    assert _suite(folder, "again") == (0, ""), "nothing is left of it"


def test_a_test_that_only_fails_in_the_second_run_is_red(folder: Path) -> None:
    (folder / "test_flaky.py").write_text(FLAKY.replace("pass\n", "assert len(Path('marks').read_text()) < 2\n"))
    assert _run(folder)[0] == 0
    assert _suite(folder, "again")[0] == 1


def test_a_suite_that_cannot_be_collected_is_red_at_once(folder: Path) -> None:
    (folder / "test_module.py").write_text("import no_such_module\n")
    code, said = _run(folder)
    assert code == 2
    assert "ERROR test_module.py" in said
    assert not (folder / "build/gate").exists()


def test_a_suite_of_which_no_test_is_in_the_tier_has_the_code_of_pytest(folder: Path) -> None:
    assert _run(folder, "-k", "nothing")[0] == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_second_run_picks_the_same_tier(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow: takes long\n")
    slow = "import pytest\n\n@pytest.mark.slow\ndef test_slow(): assert False\n"
    (folder / "test_flaky.py").write_text(f"{FLAKY}\n{slow}")
    assert _run(folder, "-m", "not slow")[0] == 0
    code, said = _suite(folder, "again")
    assert code == 0
    assert "2 passed, 1 deselected" in said


def test_more_than_three_flaky_tests_in_the_tiers_of_a_gate_are_red(folder: Path) -> None:
    four = "".join(FLAKY.replace("flaky():", f"{n}():").replace('"marks"', f'"marks-{n}"') for n in "abcd")
    (folder / "test_flaky.py").write_text(four.replace("def test_beside_it():\n    pass\n", ""))
    for _ in range(2):
        assert _run(folder, "-k", "not test_d")[0] == 0
        assert _suite(folder, "again")[0] == 0
    assert _run(folder)[0] == 0
    code, said = _suite(folder, "again")
    assert code == 1
    assert "FAILED 4 flaky tests in this gate: at most 3 are let pass" in said


def test_the_same_test_flaky_in_two_gates_running_is_red(folder: Path) -> None:
    (folder / "test_flaky.py").write_text(FLAKY)
    said = ""
    for gate, red in (("monday", 0), ("tuesday", 1)):
        (folder / "marks").unlink(missing_ok=True)
        assert _run(folder, gate=gate)[0] == 0
        code, said = _suite(folder, "again", gate=gate)
        assert code == red, said
    assert "FAILED test_flaky.py::test_flaky: flaky in two gates running" in said
    assert "(in 2 of the last 2 gates)" in said


def test_a_gate_without_flaky_tests_lies_between_two_of_them(folder: Path) -> None:
    (folder / "test_flaky.py").write_text(FLAKY)
    for gate in ("monday", "tuesday", "wednesday"):
        if gate != "tuesday":
            (folder / "marks").unlink(missing_ok=True)
            assert _run(folder, gate=gate)[0] == 0
        assert _suite(folder, "again", gate=gate)[0] == 0


def test_what_is_left_out_in_a_gate_is_red_unless_it_is_repeated_with_its_program(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  needs: a program\n  gpu: a GPU\n")
    left_out = "import pytest\n\n\n{mark}def test_tool(): pytest.skip('no tool here')\n"
    for mark in ("@pytest.mark.needs\n", "@pytest.mark.gpu\n"):
        (folder / "test_tool.py").write_text(left_out.format(mark=mark))
        assert _run(folder)[0] == 0
    (folder / "test_tool.py").write_text(left_out.format(mark=""))
    code, said = _run(folder)
    assert code == 1
    assert "LEFT OUT test_tool.py::test_tool: Skipped: no tool here: make prove repeats it only where" in said
    assert _run(folder, gate=None)[0] == 0
