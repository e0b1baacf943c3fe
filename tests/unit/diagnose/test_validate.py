"""The five checks as a list: what passes, what fails, what is not run; and memory held on cards that are fakes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fake_driver import FakeDriver
from scenario import MIB, Scenario

from voxyard.diagnose.errors import DiagnoseError
from voxyard.diagnose.host_facts import driver_fault, system
from voxyard.diagnose.validate.gpu_memory import GpuMemoryUse, measure, misplaced
from voxyard.diagnose.validate.result import CheckError, Found
from voxyard.diagnose.validate.run import run_checks
from voxyard.host.nvml import Gpu

CARDS = (
    ("data", Gpu(0, "GPU-a", "NVIDIA A10", "00000000:01:00.0", 24564, 24000, (8, 6))),
    ("model", Gpu(1, "GPU-b", "NVIDIA A10", "00000000:02:00.0", 24564, 24000, (8, 6))),
)


def good() -> Found:
    return Found(("all is well",), {"figure": 3})


def failing(error: Exception) -> Callable[[], Found]:
    def check() -> Found:
        raise error

    return check


def test_checks_that_pass_are_numbered_and_have_figures() -> None:
    found = run_checks([("one", good), ("two", good)])
    assert found.exit_code == 0
    assert found.text().splitlines() == [
        "1. ✅ one", "     all is well", "2. ✅ two", "     all is well", "", "2 of 2 checks passed",
    ]  # fmt: skip
    assert json.loads(json.dumps(found.document()))["checks"][1] == {
        "number": 2, "name": "two", "passed": True, "figures": ["all is well"], "measured": {"figure": 3},
        "problem": "", "advice": "", "ran": True,
    }  # fmt: skip


def test_what_stands_on_a_failed_check_is_not_run_and_does_not_pass() -> None:
    ran: list[int] = []

    def second() -> Found:
        ran.append(2)
        return good()

    found = run_checks([("one", failing(DiagnoseError("no GPU here"))), ("two", second), ("three", good)])
    assert (found.exit_code, ran) == (1, [])
    assert [(check.passed, check.ran) for check in found.checks] == [(False, True), (False, False), (False, False)]
    assert "2. ❌ two\n     not run: check 1 did not pass" in found.text()
    assert found.text().endswith("0 of 3 checks passed")


def test_a_failed_check_reports_what_it_found_and_what_to_do() -> None:
    error = CheckError("it computes wrongly", advice="take another card", found=Found(("driver 1",), {"driver": 1}))
    (check,) = run_checks([("one", failing(error))]).checks
    assert check.lines() == ["1. ❌ one", "     driver 1", "     it computes wrongly", "     → take another card"]
    assert check.measured == {"driver": 1}


def test_an_error_of_a_library_is_why_a_check_failed() -> None:
    (check,) = run_checks([("one", failing(MemoryError("no room")))]).checks
    assert check.problem == "MemoryError: no room"
    assert "--batch-size" in check.advice


def test_ctrl_c_is_no_failed_check() -> None:
    def interrupted() -> Found:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_checks([("one", interrupted)])


def test_progress_names_the_check_that_begins() -> None:
    told: list[str] = []
    run_checks([("one", good), ("two", good)], told.append)
    assert told == ["1/2 one", "2/2 two"]


@pytest.mark.parametrize(
    ("driver", "cuda", "fault"),
    [
        ("449.99", "11.8", True), ("450.80", "11.8", False), ("470.1", "12.5", True), ("525.60.13", "12.5", False),
        ("575.57", "13.0", True), ("580.65", "13.0", False), (None, "12.5", False), ("550.1", None, False),
        ("550.1", "64_112", False),
    ],
)  # fmt: skip
def test_a_driver_too_old_for_the_cuda_of_tensorflow_is_named(
    driver: str | None, cuda: str | None, fault: bool
) -> None:
    said = driver_fault(driver, cuda)
    assert (said is not None) == fault
    assert said is None or (driver in said and cuda in said)  # type: ignore[operator]


def test_memory_within_the_limit_and_its_headroom_is_no_fault() -> None:
    found = measure(CARDS, {"GPU-a": 500, "GPU-b": 0}, {"GPU-a": 9000, "GPU-b": 16900}, {"data": 8192, "model": 16384})
    assert [(each.held_mib, each.fault) for each in found] == [(8500, None), (16900, None)]
    assert "8500 MiB held, against a limit of 8192 MiB" in str(found[0])


def test_memory_beyond_limit_and_headroom_is_a_fault_with_figures() -> None:
    (data, _) = measure(CARDS, {"GPU-a": 0, "GPU-b": 0}, {"GPU-a": 9217, "GPU-b": 1}, {"data": 8192, "model": 16384})
    assert data.fault is not None
    assert "holds 9217 MiB, 8192 MiB is the limit" in data.fault


def test_a_limit_that_gives_out_more_is_not_in_force() -> None:
    kept = GpuMemoryUse("model", 1, "A10", 900, 4096, 512, beyond_refused=True)
    assert kept.fault is None
    assert str(kept).endswith("against a limit of 4096 MiB; more than the limit was refused")
    assert "not in force" in (replace(kept, beyond_refused=False).fault or "")


def test_growth_has_no_limit_to_break() -> None:
    (data, _) = measure(CARDS, {"GPU-a": 0, "GPU-b": 0}, {"GPU-a": 24000, "GPU-b": 1}, {"data": None, "model": None})
    assert data.fault is None
    assert "no limit (growth)" in str(data)


def test_work_on_a_card_that_was_not_chosen_is_found_by_its_memory() -> None:
    before = {"GPU-a": 10, "GPU-b": 10, "GPU-c": 10}
    assert misplaced(CARDS, before, {"GPU-a": 400, "GPU-b": 400, "GPU-c": 10}) is None
    said = misplaced(CARDS, before, {"GPU-a": 400, "GPU-b": 10, "GPU-c": 410})
    assert said is not None
    assert "no memory is held on the model GPU 1 (GPU-b)" in said
    assert "instead it grew on GPU-c by 400 MiB" in said


READ = """
import json, sys
from voxyard.diagnose.validate.gpu_memory import measure, misplaced, used_on_every_gpu
from voxyard.host.nvml import every_gpu
before = used_on_every_gpu()
print(json.dumps("ready"), flush=True)
sys.stdin.readline()
now = used_on_every_gpu()
cards = [("data", every_gpu()[0]), ("model", every_gpu()[1])]
memory = measure(cards, before, now, {"data": 8192, "model": 16384})
print(json.dumps([[each.held_mib, each.fault] for each in memory] + [misplaced(cards, before, now)]))
"""


@pytest.mark.parametrize(
    ("data_mib", "model_mib", "faults", "misplaced_on"),
    [(8500, 16000, [False, False], False), (9300, 16000, [True, False], False), (8500, 0, [False, False], True)],
)
def test_memory_is_read_from_the_driver(
    driver: FakeDriver, tmp_path: Path, data_mib: int, model_mib: int, faults: list[bool], misplaced_on: bool
) -> None:
    """The driver's memory before and after, on a fake one."""
    gpus = [driver.gpu("01:00.0", uuid="GPU-a"), driver.gpu("02:00.0", uuid="GPU-b")]
    path = tmp_path / "scenario"
    environment = driver.environment_of(Scenario(gpus), path=path)
    process = subprocess.Popen(
        [sys.executable, "-c", READ], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == '"ready"\n'
    grown = [
        replace(gpu, memory_used=int(gpu.memory_used or 0) + more * MIB)
        for gpu, more in zip(gpus, (data_mib, model_mib), strict=True)
    ]
    Scenario(grown).write(path)
    out, _ = process.communicate("\n", timeout=60)
    *memory, wrong_place = json.loads(out)
    assert [mib for mib, _ in memory] == [data_mib, model_mib]
    assert [fault is not None for _, fault in memory] == faults
    assert (wrong_place is not None) == misplaced_on


def test_the_facts_of_this_machine_are_plain_data(tmp_path: Path) -> None:
    found = json.loads(json.dumps(system((tmp_path, tmp_path / "not/there/yet", Path("relative")))))
    assert found["cores"]["usable"] >= 1
    assert found["memory_available_bytes"] > 0
    sizes = [found["disks"][str(path)]["size"] for path in (tmp_path, tmp_path / "not/there/yet")]
    assert sizes[0] == sizes[1] > 0
