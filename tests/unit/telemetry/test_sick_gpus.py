"""A sick GPU is marked once, by an Xid or by what the driver asks for; its operator or a reset lets it back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from exporters import exporter
from fake_driver import FakeDriver
from readings import reading
from scenario import GpuState as Scripted
from scenario import Scenario

from voxyard.host.nvml import Gpu
from voxyard.host.out_of_work import VARIABLE, Mark, OutOfWork, SickDevices
from voxyard.telemetry import TelemetryError
from voxyard.telemetry.configuration import sick_policy
from voxyard.telemetry.gpu_state import Xid
from voxyard.telemetry.sampler import GpuState, Snapshot
from voxyard.telemetry.sick_gpus import SickGpus, SickPolicy


def state(index: int, *, action: str | None = "none", **xids: int) -> GpuState:
    """A GPU that answers, with counts of Xids (`x79=1`)."""
    gpu = Gpu(index, f"GPU-{index}", "H100", f"0000:0{index}:00.0", 81920, 80000, (9, 0))
    counts = {int(name[1:]): Xid(count, 0.0, 0.0) for name, count in xids.items()}
    return GpuState(gpu, True, replace(reading(()), recovery_action=action), 0.5, 1.0, counts)


def snapshot(*states: GpuState) -> Snapshot:
    return Snapshot(0.0, 0.0, True, 0.0, 0.1, states, {}, None, None, {}, None)


@pytest.fixture
def file(tmp_path: Path) -> OutOfWork:
    """That of a host; another process reads it by another object."""
    return OutOfWork(tmp_path / "out_of_work.json")


def states(file: OutOfWork) -> dict[str, str]:
    return {uuid: mark.state for uuid, mark in OutOfWork(file.path).marks().items()}


def judged(file: OutOfWork, *snapshots: Snapshot, policy: SickPolicy | None = None, boot: str = "one") -> SickGpus:
    """A new exporter that has seen these passes."""
    sick = SickGpus(file, policy or SickPolicy(), boot=lambda: boot)
    for each in snapshots:
        sick.judge(each)
    return sick


def shown(sick: SickGpus) -> set[tuple[str, str]]:
    return {(each.labels["uuid"], each.labels["state"]) for family in sick.collect() for each in family.samples}


@pytest.mark.parametrize(
    ("seen", "cause"),
    [
        (state(1, x79=1), "Xid 79: the GPU fell off the bus"),
        (state(1, x31=5, x48=1), "Xid 48: uncorrectable memory error"),
        (state(1, action="drain_and_reset"), "the driver asks for its recovery: drain_and_reset"),
    ],
)
def test_a_sick_gpu_is_marked_and_told_once(
    file: OutOfWork, seen: GpuState, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        sick = judged(file, *[snapshot(state(0), seen)] * 5)
    (mark,) = OutOfWork(file.path).marks().values()
    assert (mark.uuid, mark.gpu, mark.state, mark.cause) == ("GPU-1", 1, "out", cause)
    assert len(caplog.records) == 1
    assert all(word in caplog.text for word in ("GPU 1", "GPU-1", mark.cause, mark.cure))
    (sample,) = next(iter(sick.collect())).samples
    assert sample.labels == {"uuid": "GPU-1", "gpu": "1", "state": "out", "cause": mark.cause, "cure": mark.cure}


def test_a_programs_fault_and_one_of_the_fabric_of_hosts_mark_nothing(file: OutOfWork) -> None:
    judged(file, snapshot(state(0, x13=3, x31=1, x94=1), state(1, action="recover_imex_domain")))
    assert states(file) == {}


def test_what_its_operator_returns_stays_at_work_until_it_has_something_new(file: OutOfWork) -> None:
    sick = judged(file, snapshot(state(0, action="reset", x48=1)))
    OutOfWork(file.path).give_back("GPU-0")
    sick.judge(snapshot(state(0, action="reset", x48=1)))
    assert states(file) == {}
    sick.judge(snapshot(state(0, action="reset", x48=2)))
    assert states(file) == {"GPU-0": "out"}


@pytest.mark.parametrize(
    ("after", "boot", "then"),
    [
        (state(0), "one", "out"),  # the exporter alone began again
        (state(0), "two", "reset"),
        (replace(state(0), up=False, reading=None), "two", "out"),  # it is not there after the reboot
    ],
)
def test_a_mark_outlives_the_exporter_and_knows_a_reboot(
    file: OutOfWork, after: GpuState, boot: str, then: str
) -> None:
    judged(file, snapshot(state(0, action=None, x79=1)))
    judged(file, snapshot(after), boot=boot)
    assert states(file) == {"GPU-0": then}


def test_a_driver_that_asks_for_nothing_any_more_has_reset_the_gpu(file: OutOfWork) -> None:
    judged(file, snapshot(state(0, x48=1)), snapshot(state(0, action="reset", x48=1)))  # it asks a pass later
    judged(file, snapshot(state(0)))  # a reset ends the exporter, too
    assert states(file) == {"GPU-0": "reset"}


@pytest.mark.parametrize(("problem", "then"), [(None, {}), ("wrong sums", {"GPU-0": "out"})])
def test_a_self_test_lets_it_in_or_keeps_it_out(file: OutOfWork, problem: str | None, then: dict[str, str]) -> None:
    file.put(Mark("GPU-0", 0, "Xid 48: …", "…", "reset"))
    file.tested(file.marks()["GPU-0"], problem)
    assert states(file) == then
    assert all("wrong sums" in mark.cause for mark in file.marks().values())


def test_no_more_than_the_share_goes_and_the_rest_is_told(file: OutOfWork, caplog: pytest.LogCaptureFixture) -> None:
    gpus = [state(index, x79=1) for index in range(8)]
    judged(file, *[snapshot(*gpus)] * 3)
    assert states(file) == {f"GPU-{index}": "out" if index < 2 else "kept" for index in range(8)}
    assert caplog.text.count("stays at work: 2 GPUs are out of it already, of at most 2") == 6
    assert [file.of(each.gpu) is None for each in gpus] == [False, False, *[True] * 6]


@pytest.mark.parametrize(
    ("policy", "marked"),
    [
        (SickPolicy(most=0), {"GPU-0": "kept", "GPU-1": "kept"}),
        (SickPolicy(most=2, stay=frozenset({"GPU-0"})), {"GPU-1": "out"}),
        (SickPolicy(most=2, stay=None), {}),
    ],
)
def test_what_the_operator_excludes_stays(file: OutOfWork, policy: SickPolicy, marked: dict[str, str]) -> None:
    judged(file, snapshot(state(0, x79=1), state(1, x79=1)), policy=policy)
    assert states(file) == marked


def test_a_mig_instance_is_out_with_its_gpu(file: OutOfWork) -> None:
    judged(file, snapshot(state(0, x79=1)))
    gpu = replace(state(0).gpu, uuid="MIG-1", mig_instance=0, mig_gpu="GPU-0")
    assert file.of(gpu) is not None


def test_a_file_that_cannot_be_used_ends_nothing(file: OutOfWork, caplog: pytest.LogCaptureFixture) -> None:
    file.path.write_text("{")
    judged(file, *[snapshot(state(0, x79=1))] * 3)
    assert caplog.text.count("sick GPUs stay at work") == 1


@pytest.mark.parametrize("damage", ["text", "empty", "directory"])
def test_a_file_that_is_damaged_later_keeps_its_marks_in_the_metric(file: OutOfWork, damage: str) -> None:
    sick = judged(file, snapshot(state(0, x79=1)))
    file.path.unlink()
    if damage == "directory":
        file.path.mkdir()
    else:
        file.path.write_text("{" if damage == "text" else "")
    for _ in range(2):
        sick.judge(snapshot(state(0, x79=1)))
        assert shown(sick) == {("GPU-0", "out"), ("", "unknown")}
    file.path.rmdir() if damage == "directory" else file.path.unlink()
    assert shown(sick) == set()


def test_a_file_that_is_damaged_from_the_start_is_in_the_metric(file: OutOfWork) -> None:
    file.path.write_text("{")
    sick = judged(file, snapshot(state(0)))
    (sample,) = next(iter(sick.collect())).samples
    assert sample.labels["cause"].startswith(f"{file.path}: it is not JSON")
    assert sample.labels["cure"] == "remove the file, and look at the GPUs"


def test_work_stays_away_from_a_sick_gpu_while_the_file_is_damaged(file: OutOfWork) -> None:
    judged(file, snapshot(state(0, x79=1)))
    devices = SickDevices(OutOfWork(file.path))
    assert devices.why(state(0).gpu)
    file.path.unlink()
    file.path.write_text("{")
    assert all(devices.why(state(0).gpu) for _ in range(2))
    assert devices.why(state(1).gpu) is None


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("gpus: 8", SickPolicy()),
        ("sick_gpus: {most: 2, stay: [GPU-1]}", SickPolicy(2, frozenset({"GPU-1"}))),
        ("sick_gpus: {most: 0, stay: true}", SickPolicy(0, None)),
    ],
)
def test_the_plan_says_how_many_and_which(tmp_path: Path, text: str, policy: SickPolicy) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    assert sick_policy(tmp_path / "plan.yaml") == policy


@pytest.mark.parametrize("text", ["sick_gpus: 3", "sick_gpus: {most: -1}", "sick_gpus: {stay: 5}"])
def test_a_plan_that_says_nonsense_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(TelemetryError, match=r"sick_gpus: expected `most`"):
        sick_policy(tmp_path / "plan.yaml")


def test_the_exporter_marks_what_the_driver_reports(driver: FakeDriver, tmp_path: Path, file: OutOfWork) -> None:
    scenario, path = Scenario([Scripted.default(0), Scripted.default(1)]), tmp_path / "scenario"
    environment = driver.environment_of(scenario, path=path) | {VARIABLE: str(file.path)}
    told: Callable[..., float | None]
    with exporter(environment) as running:
        told = running.value
        running.until(lambda: told("voxyard_gpu_up", gpu="1"))
        assert told("voxyard_gpu_out_of_work", gpu="1") is None
        scenario.raising(1, 79).write(path)
        running.until(lambda: told("voxyard_gpu_out_of_work", gpu="1", state="out"))
        assert told("voxyard_gpu_out_of_work", gpu="0") is None
    assert [mark.gpu for mark in OutOfWork(file.path).marks().values()] == [1]
