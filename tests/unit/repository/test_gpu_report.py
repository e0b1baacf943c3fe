"""The report of make test-gpu: its steps, the host's cards, failed tests, and a host without a GPU."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from eventually import PATIENCE, eventually

from gpu_report import run as gpu_report
from gpu_report.run import Step
from gpu_report.targets import figures

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
    assert "no NVIDIA GPU that can be used" in done.stderr
    assert "make test-gpu STAND_IN=1" in done.stderr
    assert "installing" not in done.stdout
    assert not (tmp_path / "report").exists()


def test_every_test_marked_gpu_is_among_its_steps() -> None:
    named = [ROOT / gpu_report.TRAINER_TESTS, ROOT / "tests/integration/bark"]
    marked = [path for path in (ROOT / "tests").rglob("test_*.py") if "pytest.mark.gpu" in path.read_text()]
    rest = [path for path in marked if not any(path.is_relative_to(each) for each in named)]
    assert set(rest) == {
        ROOT / "tests/unit/repository/test_suite.py",
        ROOT / "tests/unit/repository/test_test_rules.py",
        Path(__file__),
    }  # which only speak of the mark
    words = [step.command for step in gpu_report.steps(ROOT, stand_in=False)]
    for name, path in zip(("tests-trainer", "tests-bark"), named, strict=True):
        assert any(f"{name}.xml" in " ".join(each) and str(path.relative_to(ROOT)) in each for each in words)


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
    assert [set(b.command) - set(a.command) for a, b in zip(real, stand_in, strict=True)] == [
        {"-k", "split", "not gpu"}, {"--smoke"}, {"--smoke"}, {"--stand-in"}, set(), {"--smoke"},
    ]  # fmt: skip
    assert all(
        {"--device", "gpu"} <= set(each.command) for each in real if each.name in ("bench-trainer", "profile-trace")
    )

    writes = script(f"open({str(tmp_path / 'a.xml')!r}, 'w').write({JUNIT!r})")
    step = Step("tests", writes, "a.xml", gpu_report.test_counts)
    monkeypatch.setattr(gpu_report, "steps", lambda *_, **__: (step,))
    assert gpu_report.main(["--stand-in", "--out", str(tmp_path)]) == 0
    whole = json.loads((tmp_path / "report.json").read_text())
    assert whole["stand_in"]
    assert whole["note"] == gpu_report.STAND_IN
    assert capsys.readouterr().out.count(gpu_report.STAND_IN) == 2


@pytest.mark.parametrize(
    ("printed", "code", "said"),
    [
        ("No devices were found\\n", 0, "nvidia-smi names none: No devices were found"),
        ("WARNING: infoROM is corrupted\\n", 0, "nvidia-smi names none: WARNING"),
        ("\\377\\n", 0, "nvidia-smi names none"),
        ("NVIDIA-SMI has failed\\n", 9, "nvidia-smi failed with exit code 9: NVIDIA-SMI has failed"),
        ("[Unknown Error], [N/A], [N/A], [N/A], [N/A], [N/A]\\n", 0, "nvidia-smi names none"),
        (CARD.replace("Disabled", "Enabled"), 0, "MIG is on (NVIDIA H200)"),
    ],
)
def test_what_nvidia_smi_answers_is_no_gpu_and_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    printed: str,
    code: int,
    said: str,
) -> None:
    nvidia_smi(tmp_path, monkeypatch, printed, code)
    assert gpu_report.main(["--check"]) == gpu_report.NO_GPU
    assert said in capsys.readouterr().err


def test_a_line_before_the_cards_is_no_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, monkeypatch, f"WARNING: infoROM is corrupted\\n{CARD}")
    assert [card["name"] for card in gpu_report.cards()] == ["NVIDIA H200"]


@pytest.mark.parametrize(("driver", "code"), [("550.54.15", 3), ("579.99", 3), ("580.65.06", 0), ("[N/A]", 0)])
def test_a_driver_too_old_for_the_torch_of_pypi_is_told_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], driver: str, code: int
) -> None:
    for name in gpu_report.OTHER_INDEX:
        monkeypatch.delenv(name, raising=False)
    nvidia_smi(tmp_path, monkeypatch, CARD.replace("580.95.05", driver))

    assert gpu_report.main(["--check"]) == code
    said = capsys.readouterr().err
    assert not code or (f"has driver {driver}" in said and "needs driver 580 or newer" in said)

    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://example.org/cu128")
    assert gpu_report.main(["--check"]) == 0


def test_the_driver_is_held_against_the_torch_that_is_pinned() -> None:
    assert f"torch=={gpu_report.TORCH}" in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def test_an_nvidia_smi_that_hangs_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, monkeypatch, "")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(gpu_report, "SMI_SECONDS", 0.2)
    with pytest.raises(gpu_report.NoGpuError, match="no answer"):
        gpu_report.cards()


def test_on_gpus_tests_of_which_none_ran_have_failed(tmp_path: Path) -> None:
    none = '<testsuite><testcase classname="a" name="b"><skipped message="no GPU"/></testcase></testsuite>'
    writes = script(f"open({str(tmp_path / 'a.xml')!r}, 'w').write({none!r})")
    step = Step("tests", writes, "a.xml", gpu_report.test_counts)
    assert not gpu_report.run(step, tmp_path)["ok"]
    assert gpu_report.run(step, tmp_path, stand_in=True)["ok"]


def test_a_result_that_is_cut_off_is_a_step_that_failed(tmp_path: Path) -> None:
    writes = script(f"open({str(tmp_path / 'a.json')!r}, 'w').write('{{')")
    assert not gpu_report.run(Step("bench", writes, "a.json", gpu_report.benchmark), tmp_path)["ok"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_the_steps_before_and_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    """Also a process of the step in a session of its own."""
    passes = f"open({str(tmp_path / 'a.xml')!r}, 'w').write('<t><testcase/></t>')"
    hangs = (
        "import subprocess, time; print(subprocess.Popen(['sleep', '300'], start_new_session=True).pid, flush=True); "
        f"open({str(tmp_path / 'began')!r}, 'w').close(); time.sleep(300)"
    )
    steps = f"""
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
from gpu_report import run
first = run.Step("tests", {script(passes)!r}, "a.xml", run.test_counts)
second = run.Step("exporter", {script(hangs)!r}, "b.json", run.benchmark)
run.steps = lambda *_, **__: (first, second)
sys.exit(run.main(["--stand-in", "--out", {str(tmp_path)!r}]))
"""
    with subprocess.Popen([sys.executable, "-c", steps], stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "began").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(number)
        _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == gpu_report.INTERRUPTED
    assert "interrupted in exporter; the steps before are in" in told
    assert "Traceback" not in told
    whole = json.loads((tmp_path / "report.json").read_text())
    assert [each["name"] for each in whole["steps"]] == ["tests"]
    assert whole["left_out"] == ["exporter: the run was interrupted"]
    pid = int((tmp_path / "exporter.log").read_text())

    def ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    eventually(ended, f"process {pid} has ended")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--keep", "--stand-in", "--only", "exporter"], "leave --keep out"),
        (["--model", "/dev/null/weights"], "expected a folder of weights"),
        (["--stand-in", "--model", "/tmp"], "a run on GPUs"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as refused:
        gpu_report.main(arguments)
    assert refused.value.code == 2
    assert said in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert gpu_report.main(["--stand-in", "--out", str(tmp_path / "file/report")]) == 1
    assert "name another folder with --out" in capsys.readouterr().err


def test_a_run_takes_the_steps_that_it_is_asked_for(tmp_path: Path) -> None:
    asked = gpu_report.steps(tmp_path, stand_in=False, only=["exporter", "bench-bark"])
    assert [each.name for each in asked] == ["exporter", "bench-bark"]


def step_of(name: str, **ratios: float) -> dict[str, object]:
    return {"name": name, "result": {"ratios": ratios}}


def judged(*steps: dict[str, object], stand_in: bool = False, gpus: int = 2) -> dict[str, dict[str, object]]:
    return {each["figure"]: each for each in figures(steps, stand_in=stand_in, gpus=gpus)}


@pytest.mark.parametrize(("value", "met"), [(0.95, True), (0.949, False), (float("nan"), False)])
def test_a_figure_is_judged_by_its_target(value: float, met: bool) -> None:
    assert judged(step_of("bench-trainer", overlap=value, data_vs_model=0.9))["overlap"]["met"] is met


@pytest.mark.parametrize(("value", "met"), [(0.10, True), (0.11, False), (float("nan"), False)])
def test_a_difference_may_be_as_large_as_its_target(value: float, met: bool) -> None:
    assert judged(step_of("profile-trace", train_vs_trace=value))["train_vs_trace"]["met"] is met


@pytest.mark.parametrize(("even", "met"), [(0.7, True), (1.4, True), (0.69, None), (1.41, None)])
def test_an_overlap_is_judged_where_both_stages_take_as_long(even: float, met: bool | None) -> None:
    found = judged(step_of("bench-trainer", overlap=0.99, data_vs_model=even))["overlap"]
    assert found["met"] is met
    assert (found["why"] == "") is (met is True)


def test_with_one_gpu_the_figures_of_two_are_named_as_open() -> None:
    found = judged(step_of("bench-trainer", vs_keras_fit=1.1), gpus=1)
    assert found["mirrored_vs_single"]["why"] == found["overlap"]["why"] == "needs two GPUs"
    assert found["demo_data_wait"]["why"] == "not measured"
    assert found["vs_keras_fit"]["met"]
    assert "readings_that_agree" not in found  # its step was not taken


def test_no_target_is_judged_in_a_stand_in() -> None:
    found = judged(step_of("bench-trainer", overlap=0.2, mirrored_vs_single=9.0, other=1.0), stand_in=True)
    assert {each["met"] for each in found.values()} == {None}
    assert found["overlap"]["why"] == "stand-in"
    assert found["other"]["value"] == 1.0


BENCH = ROOT / "tests/bench"
SMI = {"GPU-1": {"memory.used": 100.0, "power.draw": 200.0, "fan": None}}


@pytest.mark.parametrize(
    ("used", "power", "agree"),
    [(100.0, 200.0, (True, True)), (164.0, 225.0, (True, True)), (165.0, 226.0, (False, False)),
     (35.0, 174.0, (False, False)), (None, 200.0, (False, True))],
)  # fmt: skip
def test_a_reading_agrees_within_what_it_may_differ_by(
    used: float | None, power: float, agree: tuple[bool, bool]
) -> None:
    compare = runpy.run_path(str(BENCH / "exporter_readings.py"))["compare"]
    found = {each["field"]: each for each in compare(SMI, {"GPU-1": {"memory.used": used, "power.draw": power}}, SMI)}
    assert (found["memory.used"]["agrees"], found["power.draw"]["agrees"]) == agree
    assert found["temperature.gpu"]["agrees"] is None  # neither has it


def test_a_gpu_that_the_exporter_does_not_name_is_a_difference() -> None:
    compare = runpy.run_path(str(BENCH / "exporter_readings.py"))["compare"]
    assert False in {each["agrees"] for each in compare(SMI, {}, SMI)}


def test_the_benchmark_takes_the_workload_whose_stages_are_the_most_even() -> None:
    bench = runpy.run_path(str(BENCH / "trainer.py"))
    workload = bench["Workload"]
    rates = {workload("a", "tiny", 1): 0.2, workload("b", "tiny", 2): 1.3, workload("c", "tiny", 3): 0.5}
    assert bench["evenest"](tuple(rates), rates.__getitem__).name == "b"
    (only,) = bench["Plan"]().balanced
    assert bench["evenest"]((only,), lambda _: pytest.fail("not asked")) is only


def test_a_split_of_parts_of_one_gpu_is_told_as_that() -> None:
    """And so it meets no target of two GPUs."""
    bench = runpy.run_path(str(BENCH / "trainer.py"))
    names = ("features", "update", "overlapped", "observed", "serial", "keras fit")
    turns = {name: [{"seconds": 1.0, "wait": 0.0}] for name in names}
    split = {"overlap", "split_vs_single", "split_bound"}

    def ratios(**plan: int) -> set[str]:
        made = bench["Plan"](device="gpu", **plan)
        return set(bench["summary"](turns, fits=["keras fit"], ours=["overlapped"], plan=made)["ratios"])

    alone = ratios(gpus=1)
    assert not alone & split
    assert ratios(gpus=2) - alone == split
    of_parts = ratios(gpus=1, parts=2) - alone
    assert of_parts == {f"parts_of_one_card_{name}" for name in split}
    found = judged(step_of("bench-trainer", **dict.fromkeys(of_parts, 0.99)), gpus=1)
    assert found["overlap"]["why"] == "needs two GPUs"


def test_a_report_of_gpus_is_kept_without_logs_and_a_stand_in_never(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = {"name": "tests", "ok": False, "tail": "secret", "result": {}}
    whole = gpu_report.report([done], [{"name": "NVIDIA H200"}], stand_in=False)
    file = gpu_report.keep(whole, tmp_path / "kept")
    assert "secret" not in file.read_text()
    assert json.loads(file.read_text())["host"]["name"] == ""
    assert whole["steps"][0]["tail"] == "secret"
    with pytest.raises(SystemExit):
        gpu_report.main(["--stand-in", "--keep", "--out", str(tmp_path / "report")])
    assert "leave --keep out" in capsys.readouterr().err
