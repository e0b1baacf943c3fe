"""The report of make test-gpu: its steps, the host's cards, failed tests, and a host without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpu_report
from gpu_report import Step

ROOT = Path(__file__).resolve().parents[3]
CARD = "NVIDIA H200, GPU-1f2e, 580.95.05, 143771 MiB, 9.0, Disabled\n"
JUNIT = """<testsuites><testsuite>
<testcase classname="bark.test_engine" name="test_graph"/>
<testcase classname="bark.test_engine" name="test_rows"><failure message="no"/></testcase>
<testcase classname="devices.test_limits" name="test_two"><skipped message="one GPU"/></testcase>
</testsuite></testsuites>"""


def nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, printed: str, code: int = 0) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '{printed}'\nexit {code}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def script(text: str) -> tuple[str, ...]:
    return sys.executable, "-c", text


def test_without_a_gpu_nothing_is_run_and_nothing_installed(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "test-gpu", f"ARGS=--out {tmp_path}/report"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "no NVIDIA GPU found" in done.stderr
    assert "make test-gpu STAND_IN=1" in done.stderr
    assert "installing" not in done.stdout
    assert not (tmp_path / "report").exists()


def test_a_card_is_described_as_nvidia_smi_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, monkeypatch, CARD)
    (card,) = gpu_report.cards()
    assert card["name"] == "NVIDIA H200"
    assert card["driver_version"] == "580.95.05"
    assert gpu_report.main(["--check"]) == 0


def test_a_driver_that_fails_is_no_gpu_and_its_words_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nvidia_smi(tmp_path, monkeypatch, "NVIDIA-SMI has failed", code=9)
    assert gpu_report.main(["--check"]) == gpu_report.NO_GPU
    assert "NVIDIA-SMI has failed" in capsys.readouterr().err


def test_failed_tests_and_those_that_did_not_run_are_named(tmp_path: Path) -> None:
    (tmp_path / "tests.xml").write_text(JUNIT, encoding="utf-8")
    assert gpu_report.test_counts(tmp_path / "tests.xml") == {
        "tests": 3,
        "passed": 1,
        "failed": ["bark.test_engine::test_rows"],
        "not_run": ["devices.test_limits::test_two"],
    }


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_step_that_fails_is_in_the_report_with_its_log(tmp_path: Path, code: int) -> None:
    writes = f"import pathlib, sys; pathlib.Path({str(tmp_path / 'a.xml')!r}).write_text({JUNIT!r}); print('told')"
    step = Step("tests", script(f"{writes}; sys.exit({code})"), "a.xml", gpu_report.test_counts)
    done = gpu_report.run(step, tmp_path)
    assert done["ok"] == (code == 0)
    assert (tmp_path / done["log"]).read_text() == "told\n"
    assert done["result"].get("passed") == (1 if code < 2 else None)
    assert gpu_report.report([done], [], stand_in=False)["ok"] == (code == 0)


def test_a_result_of_an_earlier_run_is_not_reported_again(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(JUNIT, encoding="utf-8")
    done = gpu_report.run(Step("tests", script(""), "a.xml", gpu_report.test_counts), tmp_path)
    assert not done["ok"]
    assert done["result"] == {}


def test_a_stand_in_is_labelled_and_takes_the_same_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, stand_in = (gpu_report.steps(tmp_path, stand_in=each) for each in (False, True))
    assert [each.name for each in real] == [each.name for each in stand_in]
    assert [set(b.command) - set(a.command) for a, b in zip(real, stand_in, strict=True)][-1] == {"--smoke"}

    writes = script(f"open({str(tmp_path / 'a.xml')!r}, 'w').write({JUNIT!r})")
    step = Step("tests", writes, "a.xml", gpu_report.test_counts)
    monkeypatch.setattr(gpu_report, "steps", lambda *_, **__: (step,))
    assert gpu_report.main(["--stand-in", "--out", str(tmp_path)]) == 0
    whole = json.loads((tmp_path / "report.json").read_text())
    assert whole["stand_in"]
    assert whole["note"] == gpu_report.STAND_IN
    assert capsys.readouterr().out.count(gpu_report.STAND_IN) == 2
