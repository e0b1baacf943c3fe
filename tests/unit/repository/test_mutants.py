"""Mutation testing: faults are planted where they are said to be, survivors are named, nothing is left changed."""

from __future__ import annotations

import ast
import json
import tempfile
from pathlib import Path

import pytest
from eventually import PATIENCE

import mutants

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
LEFT_ALONE = """
__all__ = ["a" + "b"]
if TYPE_CHECKING:
    assert 1 < 2

def wait(kind: Literal[3], seconds: int = 30) -> Literal[4]:
    log.info("taken", 3 + 4)
    assert kind > 2
    time.sleep(2)
    while time.monotonic() < until:
        most, colours = 8192, secrets.token_hex(8)
    COLOURS = [3, 4]
    ask("--wait", timeout=5, help=f"at most {3 * 4}")
    raise NotImplementedError

if __name__ == "__main__":
    sys.exit(wait(1))
"""


def test_each_fault_changes_one_place() -> None:
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


def test_what_no_test_can_see_is_left_alone() -> None:
    assert [fault.old.partition("(")[0] for fault in mutants.faults("m.py", LEFT_ALONE)] == ["time.sleep", "ask"]


def test_a_change_elsewhere_does_not_change_which_faults_a_seed_chooses(project: Path) -> None:
    path = project / "runtime/voxyard/yard/sums.py"
    path.write_text(path.read_text() + "".join(f"\n\ndef sum_{n}(a):\n    return a + {n}\n" for n in range(20)))
    before, possible = mutants.chosen("yard", 12, 1, project)
    assert (len(before), possible) == (12, 42)
    path.write_text(path.read_text().replace("def unseen(a, b):", "def more(a):\n    return a\n\n\ndef unseen(a, b):"))
    after, _ = mutants.chosen("yard", 12, 1, project)
    assert [(fault.old, fault.new) for fault in after] == [(fault.old, fault.new) for fault in before]
    assert mutants.chosen("yard", 12, 2, project)[0] != after


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


def test_a_survivor_is_named_and_the_files_are_as_they_were(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (project / "runtime/voxyard/yard/sums.py").read_text()
    assert mutants.main(["yard"], root=project) == 1
    said = capsys.readouterr().out
    killer = "tests/unit/yard/test_sums.py::test_sum"
    assert f"killed   runtime/voxyard/yard/sums.py:2: a + b  →  (a - b)  ({killer})" in said
    assert "SURVIVED runtime/voxyard/yard/sums.py:6: a + b  →  (a - b)\n" in said
    assert "yard: 1 of 2 killed, of 2 that can be planted" in said
    assert "| yard | 2 | 1 |" in said
    survivors = json.loads((project / "build/mutants/yard.json").read_text())["survivors"]
    assert [each["line"] for each in survivors] == [6]
    assert (project / "runtime/voxyard/yard/sums.py").read_text() == before


def test_only_survivors_are_planted_again(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "build/mutants").mkdir(parents=True)
    survivor = {"file": "runtime/voxyard/yard/sums.py", "old": "a + b", "new": "(a - b)", "number": 2}
    (project / "build/mutants/yard.json").write_text(json.dumps({"survivors": [survivor]}))
    assert mutants.main(["yard", "--again"], root=project) == 1
    said = capsys.readouterr().out
    assert "0 of 1 killed" in said
    assert "sums.py:2" not in said


def test_the_tests_that_execute_the_line_run_and_all_where_none_does(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = project / "tests/unit/yard"
    (tests / "test_first.py").write_text(
        "from voxyard.yard import sums\n\n\ndef test_else():\n    open('ran', 'a').write('else ')\n"
    )
    (tests / "test_script.py").write_text(
        "import subprocess, sys\n\nCODE = 'from voxyard.yard.sums import unseen; print(unseen(2, 3))'\n\n\n"
        "def test_in_a_process():\n    assert subprocess.check_output([sys.executable, '-c', CODE]) == b'5\\n'\n"
    )
    (tests / "test_sums.py").write_text(
        "from voxyard.yard.sums import summed\n\n\ndef test_sum():\n    open('ran', 'a').write('sum ')\n"
        "    assert summed(2, 3) == 5\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        copy = mutants.Copy(Path(folder), project)
        suite = copy.measured(["tests/unit/yard"], Path("runtime/voxyard/yard"))
        first, second = mutants.chosen("yard", 2, 0, project)[0]
        seen, unseen = (first, second) if first.line == 2 else (second, first)
        (Path(folder) / "ran").unlink()
        assert copy.killed_by(seen, [suite]) == "tests/unit/yard/test_sums.py::test_sum"
        assert set((Path(folder) / "ran").read_text().split()) == {"sum"}
        assert copy.killed_by(unseen, [suite]) == "tests/unit/yard/test_script.py::test_in_a_process"


def test_a_hang_and_changed_ids_are_told_from_a_failure(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = project / "runtime/voxyard/yard/sums.py"
    sums.write_text("CASES = [1 + 1]\n\n\ndef down(n):\n    while n > 0:\n        n = n - 1\n    return n\n")
    (project / "tests/unit/yard/test_sums.py").write_text(
        "import pytest\nfrom voxyard.yard.sums import CASES, down\n\n\n"
        "@pytest.mark.parametrize('n', CASES)\ndef test_down(n):\n    assert down(n) == 0\n"
    )
    monkeypatch.setattr(mutants.Suite, "limit", lambda *_: 3)
    with tempfile.TemporaryDirectory() as folder:
        copy = mutants.Copy(Path(folder), project)
        suite = copy.measured(["tests/unit/yard"], Path("runtime/voxyard/yard"))
        by_text = {(fault.old, fault.new): fault for fault in mutants.chosen("yard", 99, 0, project)[0]}
        assert copy.killed_by(by_text["n - 1", "(n + 1)"], [suite]) == "a hang of 3 s"
        monkeypatch.setattr(mutants.Suite, "limit", lambda *_: PATIENCE)
        assert copy.killed_by(by_text["1 + 1", "(1 - 1)"], [suite]) is None


def test_a_fault_in_a_size_does_not_take_the_machines_memory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums = project / "runtime/voxyard/yard/sums.py"
    sums.write_text("def blank(size):\n    return bytearray(size // 2)\n")
    (project / "tests/unit/yard/test_sums.py").write_text(
        "from voxyard.yard.sums import blank\n\n\ndef test_blank():\n    assert blank(1 << 30)\n"
    )
    monkeypatch.setattr(mutants, "MOST_DATA", 1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        copy = mutants.Copy(Path(folder), project)
        suite = copy.measured(["tests/unit/yard"], Path("runtime/voxyard/yard"))
        (twice,) = (fault for fault in mutants.chosen("yard", 99, 0, project)[0] if fault.old == "size // 2")
        assert copy.killed_by(twice, [suite]) == "tests/unit/yard/test_sums.py::test_blank"


def test_tests_that_fail_by_themselves_prove_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tests/unit/yard/test_sums.py").write_text("def test_sum():\n    assert False\n")
    with pytest.raises(SystemExit, match="2"):
        mutants.main(["yard"], root=project)
    assert "tests/unit/yard fail without any fault" in capsys.readouterr().err


def test_a_package_that_is_not_there_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        mutants.main(["yrd"], root=project)
    assert ended.value.code == 2
    assert "mutants: yrd: no such package" in capsys.readouterr().err


def test_every_room_has_files_and_tests() -> None:
    rooms = mutants.every_room()
    assert {"speech", "trainer", "demo", "tasks", "fleet/rollout", "grafana"} <= set(rooms)
    for room in rooms:
        assert mutants.files_of(room), room
        paths = [path for suite in mutants.suites_of(room) for path in suite]
        assert [path for path in paths if not (ROOT / path).exists()] == [], room


def test_a_test_that_fails_once_and_passes_alone_kills_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flaky = (
        "from pathlib import Path\nfrom voxyard.yard.sums import unseen\n\n\ndef test_flaky():\n    unseen(2, 3)\n"
        "    done = Path('done')\n    done.write_text((done.read_text() if done.exists() else '') + '.')\n"
        "    assert len(done.read_text()) % 2 == 0, 'the machine is busy'\n"
    )
    (project / "tests/unit/yard/test_flaky.py").write_text(flaky)
    assert mutants.main(["yard"], root=project) == 1
    said = capsys.readouterr().out
    assert "SURVIVED runtime/voxyard/yard/sums.py:6: a + b  →  (a - b)" in said
    assert "yard: 1 of 2 killed" in said
