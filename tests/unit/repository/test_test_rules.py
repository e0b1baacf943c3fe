"""The rules of tests/conftest.py: no skip under CI, except for want of a GPU, and that is counted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONFTEST = ROOT / "tests/conftest.py"
TESTS = {
    "good": "def test_good(): pass",
    "skipped": "@pytest.mark.skip(reason='not today')\ndef test_skipped(): pass",
    "late": "def test_late(): pytest.skip('no tool')\n\ndef test_later(): pytest.skip('no tool')",
    "module": "pytest.importorskip('no_such_module')",
    "gpu": "@pytest.mark.gpu\ndef test_gpu(): pytest.skip('not this GPU')",
    "expected": "@pytest.mark.xfail(strict=True)\ndef test_expected(): assert False",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tests that are skipped in every way, under the rules of this repository."""
    shutil.copy(ROOT / "tests/conftest.py", tmp_path / "conftest.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs a GPU\n")
    for name, text in TESTS.items():
        (tmp_path / f"test_{name}.py").write_text(f"import pytest\n\n{text}\n")
    return tmp_path


@pytest.fixture
def folder_of_bark(tmp_path: Path) -> Path:
    """Tests that cannot be imported without torch beside one that can, and a plugin that takes torch away."""
    shutil.copy(ROOT / "tests/conftest.py", tmp_path / "conftest.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs a GPU\naddopts = -p no_torch\n")
    (tmp_path / "no_torch.py").write_text("import sys\n\nsys.modules['torch'] = None\n")
    (tmp_path / "test_good.py").write_text("def test_good(): pass\n")
    (tmp_path / "integration/bark").mkdir(parents=True)
    for name in ("test_engine.py", "test_voice.py"):
        (tmp_path / "integration/bark" / name).write_text("import torch\n\ndef test_of_torch(): pass\n")
    return tmp_path


def _run(folder: Path, *, ci: bool, asked: str = ".", more: tuple[str, ...] = ()) -> str:
    own = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    environ = own | ({"CI": "true"} if ci else {})
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a process starts in half the time
    environ["PYTHONPATH"] = f"{ROOT / 'tests/nvml'}:{ROOT / 'tests/support/service'}:{folder}"  # where the plugins are
    options = ["-q", "-rpfExX", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    command = [sys.executable, "-m", "pytest", *options, *more, asked]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True).stdout


LOGGING = """
import logging, sys

def test_a_command_logs(capsys):
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)
    logging.getLogger("voxyard").setLevel(logging.INFO)

def test_another_says_nothing_of_it(capsys):
    logging.getLogger("voxyard.trainer").info("text: phonemes")
    assert capsys.readouterr().err == ""
"""


@pytest.mark.slow
def test_logging_that_a_test_configures_ends_with_it(folder: Path) -> None:
    (folder / "test_logging.py").write_text(LOGGING)

    assert "2 passed" in _run(folder, ci=True, asked="test_logging.py")


def _slow() -> tuple[str, ...]:
    """The list of slow proofs in tests/conftest.py."""
    found = re.search(r"_SLOW = \((.*?)\n\)", CONFTEST.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return tuple(re.findall(r'"(.+?)",', found[1]))


@pytest.mark.slow
def test_what_is_slow_is_there_and_left_out_of_the_quick_tier(tmp_path: Path) -> None:
    assert _slow()
    assert [path for path in _slow() if not (ROOT / "tests" / path).exists()] == []
    shutil.copy(CONFTEST, tmp_path / "conftest.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow: takes long\n")
    for path in ("unit/service/test_kill.py", "unit/service/test_quick.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("def test_it(): pass\n")
    assert "PASSED unit/service/test_quick.py" in (quick := _run(tmp_path, ci=True, more=("-m", "not slow")))
    assert "test_kill" not in quick
    assert "PASSED unit/service/test_kill.py" in (slow := _run(tmp_path, ci=True, more=("-m", "slow")))
    assert "test_quick" not in slow


@pytest.mark.slow
def test_a_make_that_a_test_starts_knows_nothing_of_the_one_that_runs_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(CONFTEST, tmp_path / "conftest.py")
    (tmp_path / "Makefile").write_text("all:\n\t@echo $(MAKELEVEL) '$(ROOM)'\n")
    (tmp_path / "test_make.py").write_text(
        "import subprocess\n\n\ndef test_it():\n    assert subprocess.check_output(['make'], text=True) == '0 \\n'\n"
    )
    for name, value in {"MAKEFLAGS": "-j2 --jobserver-auth=3,4 -- ROOM=speech", "MAKELEVEL": "1"}.items():
        monkeypatch.setenv(name, value)
    assert "PASSED test_make.py" in _run(tmp_path, ci=True)


@pytest.mark.slow
def test_programs_of_tests_hear_ctrl_c_also_where_the_tests_run_in_the_background(folder: Path) -> None:
    (folder / "test_good.py").write_text(
        "import signal, subprocess, sys\n\n\ndef test_it():\n"
        "    program = 'import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)'\n"
        "    assert subprocess.check_output([sys.executable, '-c', program], text=True) == 'True\\n'\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_good.py"]
    ignored = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    path = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(ignored, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert "1 passed" in done.stdout, done.stdout


def test_the_table_of_promises_names_the_tier_of_each_test() -> None:
    slow = _slow()
    table = (ROOT / "tests/README.md").read_text(encoding="utf-8").partition("## Promises")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:4] for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for promise, quick, proof in rows:
        links = [re.findall(r"\]\((.+?)\)", cell) for cell in (quick, proof)]
        assert any(links), promise
        assert not [path for path in links[0] if f"{path}/".startswith(slow)], promise
        assert not [path for path in links[1] if not f"{path}/".startswith(slow)], promise


@pytest.mark.slow
def test_a_skip_is_a_skip_at_home(folder: Path) -> None:
    said = _run(folder, ci=False)
    assert "1 passed, 5 skipped, 1 xfailed" in said


@pytest.mark.slow
def test_what_was_left_out_is_a_line_for_each_reason(folder: Path) -> None:
    said = _run(folder, ci=False).splitlines()
    assert "2 tests not run: no tool" in said
    assert "1 test not run: not today" in said
    assert not [line for line in said if line.startswith("SKIPPED")]


@pytest.mark.slow
def test_a_skip_is_a_failure_under_ci_unless_a_gpu_is_missing(folder: Path) -> None:
    said = _run(folder, ci=True)
    assert "1 skipped, 1 xfailed" in said
    assert "PASSED test_good.py::test_good" in said
    for name in ("test_skipped.py::test_skipped", "test_late.py::test_late"):
        assert f"FAILED {name}" in said or f"ERROR {name}" in said
    assert "ERROR test_module.py" in said
    assert "skipped, which counts as a failure under CI" in said


@pytest.mark.slow
def test_tests_that_need_a_gpu_are_counted(folder: Path) -> None:
    counted = "1 test not run: marked gpu, and this machine has no NVIDIA GPU"
    assert (counted in _run(folder, ci=True)) == (not Path("/dev/nvidiactl").exists())


@pytest.mark.slow
@pytest.mark.parametrize("asked", [".", "integration/bark"])
def test_without_torch_its_tests_are_left_out_with_one_sentence(folder_of_bark: Path, asked: str) -> None:
    said = _run(folder_of_bark, ci=False, asked=asked)
    assert said.count("all tests of bark need torch, which is not installed: make setup TORCH=auto") == 1
    assert ("1 passed, 1 skipped" if asked == "." else "1 skipped") in said
    assert "rror" not in said


@pytest.mark.slow
def test_without_torch_its_tests_are_a_failure_under_ci(folder_of_bark: Path) -> None:
    said = _run(folder_of_bark, ci=True)
    assert (
        "all tests of bark need torch, which is not installed: make setup TORCH=auto; that counts as a failure" in said
    )
    assert "1 passed, 1 error" in said
