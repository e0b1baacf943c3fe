"""GPUs that a user names, within CUDA_VISIBLE_DEVICES; MIG instances in place of their GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from fake_driver import FakeDriver
from scenario import GIB, GpuState, MigInstance, Scenario

from voxyard.host.errors import HostError
from voxyard.host.gpu_choice import choose_gpus
from voxyard.host.nvml import Gpu

BIG, HALF = "MIG-aaaaaaaa-0000-0000-0000-000000000000", "MIG-bbbbbbbb-0000-0000-0000-000000000000"

ASK = """
import dataclasses, json, sys
from voxyard.host.errors import HostError
from voxyard.host.nvml import every_device, every_gpu
from voxyard.host.readings import processes_on
found = [dataclasses.asdict(gpu) for gpu in every_device()]
print(json.dumps([found, len(every_gpu()), [len(processes_on(0, number)) for number in (None, 2, 6)]]))
"""


def gpu(index: int, uuid: str = "") -> Gpu:
    return Gpu(index, uuid or f"GPU-{index}{index}", "H200", "00000000:00:00.0", 140_000, 80_000, (9, 0))


def instance(index: int, number: int, uuid: str) -> Gpu:
    memory = 10_000
    return Gpu(index, uuid, "H200 MIG", "", memory, memory, (9, 0), mig_instance=number, mig_gpu=f"GPU-{index}{index}")


HOST = (gpu(0), instance(1, 0, BIG), instance(1, 2, HALF), gpu(2), gpu(3))


def numbers(named: str | None, visible: str | None = None) -> list[str]:
    return [each.number for each in choose_gpus(HOST, named, visible)]


def refused(named: str | None, visible: str | None = None) -> str:
    with pytest.raises(HostError) as found:
        choose_gpus(HOST, named, visible)
    return str(found.value)


@pytest.mark.parametrize(
    ("named", "chosen"),
    [
        (None, ["0", "1:0", "1:2", "2", "3"]),
        ("0,2", ["0", "2"]),
        (" 2 , 0", ["2", "0"]),  # in the order in which they are named
        ("GPU-22", ["2"]),
        ("gpu-2", ["2"]),  # the beginning of a UUID, as in CUDA
        ("1", ["1:0", "1:2"]),  # a GPU in MIG mode stands for its instances
        ("GPU-11", ["1:0", "1:2"]),
        ("1:2", ["1:2"]),
        (f"{HALF},0,{BIG}", ["1:2", "0", "1:0"]),
        ("MIG-a", ["1:0"]),
    ],
)
def test_gpus_are_named_by_number_or_uuid(named: str | None, chosen: list[str]) -> None:
    assert numbers(named) == chosen


@pytest.mark.parametrize(
    ("visible", "left"),
    [
        ("1", ["1:0", "1:2"]),
        ("3,0", ["3", "0"]),  # its order
        (f"GPU-22,{HALF}", ["2", "1:2"]),
        ("GPU-3,2", ["3", "2"]),
        ("", []),
        ("-1", []),
        ("0,2,-1,3", ["0", "2"]),  # CUDA's own example
        ("NoDevFiles", []),  # what a batch system writes for a job without a GPU
        ("0,x,2", ["0"]),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(visible: str, left: list[str]) -> None:
    assert numbers(None, visible) == left


@pytest.mark.parametrize(("visible", "said"), [("0,x", 1), ("NoDevFiles", 1), ("-1", 0), ("", 0), ("0", 0)])
def test_a_text_that_ends_the_variable_is_told(visible: str, said: int, caplog: pytest.LogCaptureFixture) -> None:
    numbers(None, visible)
    assert len(caplog.messages) == said


@pytest.mark.parametrize(
    ("named", "visible", "chosen"),
    [
        ("2", "0,2", ["2"]),  # nvidia-smi's number, not the second of those that are left
        ("2,0", "0,2", ["2", "0"]),
        ("GPU-33", "3", ["3"]),
        ("1", f"{BIG},{HALF}", ["1:0", "1:2"]),
    ],
)
def test_gpus_are_chosen_within_the_variable_by_their_own_numbers(named: str, visible: str, chosen: list[str]) -> None:
    assert numbers(named, visible) == chosen


@pytest.mark.parametrize(
    ("named", "visible", "says"),
    [
        ("0,7", None, "--gpus 0,7: this host has no GPU 7; it has 0: H200, 140000 MiB, GPU-00; 1:0: H200 MIG"),
        ("GPU-9", None, "this host has no GPU GPU-9; it has 0: H200"),
        ("0,0", None, "--gpus 0,0 names 0 twice"),
        ("0,GPU-00", None, "names GPU-00 twice"),
        ("1,MIG-a", None, "names MIG-a twice"),
        ("MIG-", None, f"MIG- is the beginning of {BIG} and of {HALF}: write more of it"),
        ("0,", None, "found '', expected numbers of nvidia-smi such as 0,2, or UUIDs"),
        ("first", None, "found 'first', expected numbers"),
        ("0", "2,3", "--gpus 0: CUDA_VISIBLE_DEVICES=2,3 hides 0; name a GPU that it leaves (2: H200"),
        ("1", BIG, f"CUDA_VISIBLE_DEVICES={BIG} hides 1"),
        ("0", "-1", "hides 0; name a GPU that it leaves (none), or unset it"),
        (None, "0,9", "CUDA_VISIBLE_DEVICES=0,9: this host has no GPU 9; it has 0: H200"),
        (None, "GPU-0,0", "CUDA_VISIBLE_DEVICES=GPU-0,0 names 0 twice, with which CUDA sees no GPU at all"),
    ],
)
def test_what_cannot_be_meant_is_an_error_with_what_there_is(named: str | None, visible: str | None, says: str) -> None:
    assert says in refused(named, visible)


def ask(environment: dict[str, str]) -> Any:
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_instances_stand_in_place_of_a_gpu_in_mig_mode(driver: FakeDriver) -> None:
    instances = {2: MigInstance(BIG, total=40 * GIB, used=GIB, name="H100 MIG 3g.40gb"), 5: MigInstance(HALF)}
    host = Scenario([GpuState.default(0, mig=1, mig_instances=instances), GpuState.default(1)])

    found, gpus, held = ask(driver.environment_of(host))

    assert gpus == 2
    assert [(each["uuid"], each["index"], each["mig_instance"]) for each in found] == [
        (BIG, 0, 2),
        (HALF, 0, 5),
        (GpuState.default(1).uuid, 1, None),
    ]
    assert (found[0]["name"], found[0]["memory_total_mib"], found[0]["memory_free_mib"]) == (
        "H100 MIG 3g.40gb",
        40 * 1024,
        39 * 1024,
    )
    assert [each["mig_gpu"] for each in found] == [GpuState.default(0).uuid] * 2 + [""]
    assert [each["problem"] for each in found] == [None] * 3
    assert held == [0, 0, 0]


def test_a_gpu_in_mig_mode_without_an_instance_has_that_as_its_problem(driver: FakeDriver) -> None:
    found, _, _ = ask(driver.environment_of(Scenario([GpuState.default(0, mig=1)])))

    assert found[0]["problem"].startswith("MIG is on and there is no instance: make one with `nvidia-smi mig -i 0")


def test_a_gpu_whose_mig_mode_is_off_is_itself(driver: FakeDriver) -> None:
    off = GpuState.default(0, mig_instances={0: MigInstance(BIG)})
    found, _, _ = ask(driver.environment_of(Scenario([off, GpuState.consumer(1)])))

    assert [each["uuid"] for each in found] == [GpuState.default(0).uuid, GpuState.consumer(1).uuid]
