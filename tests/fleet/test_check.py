"""`fab check` over sshd on three hosts: every injected fault is found, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fleet import operators
from tests.fleet.bed import faults
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.gpus import Failure
from tests.fleet.bed.host import GpuHost, HostFactory, three
from tests.fleet.bed.snapshot import differences, snapshot
from tests.fleet.operators import Operator

Plant = Callable[[GpuHost], AbstractContextManager[object]]
Findings = list[dict[str, Any]]


@dataclass(frozen=True)
class Fault:
    """Planted fault: its host, and the message that is expected of it."""

    host: str
    plant: Plant
    level: str
    check: str
    said: str
    services: tuple[str, ...] = ("bark", "trainer", "worker")


ALL = (
    *("exporter", "node-exporter", "bark", "trainer", "gateway", "head", "worker"),
    *("prometheus", "alertmanager", "grafana"),
)
FAULTS = {
    "an old driver": Fault(
        "gpu-pix",
        faults.old_driver,
        "FAIL",
        "driver",
        "470.239.06 does not suit the image of trainer: its base needs CUDA 12.8",
        ("trainer",),
    ),
    "a SYS link": Fault("gpu-pix", faults.link, "WARN", "pair_link", "no better pair exists", ("trainer",)),
    "a low disk": Fault("gpu-pix", faults.low_disk, "FAIL", "disk", "0.3 GiB free under Docker's root", ALL),
    "a taken port": Fault(
        "gpu-one", lambda host: faults.taken_port(host, 8080), "FAIL", "port", "port 8080, for the speech", ("bark",)
    ),
    "the exporter's port": Fault(
        "gpu-pix", lambda host: faults.taken_port(host, 9410), "FAIL", "port", "for the exporter", ("exporter",)
    ),
    "a port of monitoring's": Fault(
        "gpu-sys", lambda host: faults.taken_port(host, 9090), "FAIL", "port", "for Prometheus", ("prometheus",)
    ),
    "a foreign process": Fault(
        "gpu-pix", faults.foreign_process, "FAIL", "gpu_process", "of nobody (/usr/bin/python3), not", ("trainer",)
    ),
    "MIG on": Fault("gpu-one", faults.mig_on, "FAIL", "mig", "GPU 0 is in MIG mode"),
    "a broken driver": Fault("gpu-pix", faults.broken_driver, "FAIL", "nvidia_smi", "couldn't communicate"),
    "a lost GPU": Fault("gpu-pix", faults.lost_gpu, "FAIL", "gpu_inventory", "1 GPUs, the inventory says 2"),
    "no container toolkit": Fault("gpu-pix", faults.no_toolkit, "FAIL", "toolkit", "no NVIDIA container toolkit"),
    "a CDI specification alone": Fault(
        "gpu-pix",
        faults.cdi_alone,
        "FAIL",
        "toolkit",
        "a container with GPUs fails",
        ("exporter", "bark", "trainer", "worker"),
    ),
    "uncorrectable memory errors": Fault(
        "gpu-pix", faults.uncorrectable_errors, "FAIL", "ecc", "GPU 0: 2 uncorrectable"
    ),
    "a row to be remapped": Fault("gpu-pix", faults.remap_pending, "FAIL", "row_remap", "GPU 0: row remapping pending"),
    "a row that cannot be": Fault("gpu-sys", faults.remap_failed, "FAIL", "row_remap", "GPU 0: row remapping failed"),
    "a critical Xid": Fault("gpu-pix", faults.xid, "FAIL", "xid", "min ago: Xid 79"),
    "one process where two are planned": Fault(
        "gpu-one",
        faults.exclusive_process,
        "FAIL",
        "compute_mode",
        "Exclusive_Process), bark and trainer are planned",
        ("bark", "trainer"),
    ),
    "memory that is taken": Fault(
        "gpu-pix", faults.memory_taken, "FAIL", "gpu_memory", "2048 MiB free, the limits need", ("trainer",)
    ),
    "a stopped engine": Fault("gpu-pix", faults.stopped_engine, "FAIL", "docker", "docker does not answer", ALL),
    "a login outside of the group": Fault(
        "gpu-pix", faults.not_in_the_group, "FAIL", "docker", "permission denied", ALL
    ),
    "an old engine": Fault(
        "gpu-pix", faults.old_engine, "FAIL", "docker", "Docker 19.03.15, expected at least 20.10", ALL
    ),
    "an old Compose": Fault("gpu-pix", faults.old_compose, "FAIL", "compose", "2.20.3, expected at least 2.24.4", ALL),
    "no rsync": Fault("gpu-pix", faults.missing_program, "FAIL", "programs", "rsync is not installed", ("trainer",)),
    "persistence off": Fault("gpu-pix", faults.persistence_off, "WARN", "persistence", "GPU 0: persistence", ALL),
    "heat": Fault("gpu-pix", faults.throttled, "WARN", "throttling", "GPU 0 is throttled: heat", ALL),
    "few PCIe lanes": Fault("gpu-pix", faults.few_lanes, "WARN", "pcie_width", "uses 4 of 16 PCIe lanes", ALL),
    "a clock that is ahead": Fault("gpu-pix", faults.skewed_clock, "WARN", "clock", "s ahead of yours", ALL),
    "no NUMA node": Fault("gpu-sys", faults.no_numa_node, "WARN", "numa", "has NUMA node -1", ALL),
    "control groups of systemd": Fault(
        "gpu-pix", faults.systemd_cgroups, "WARN", "cgroup_driver", "a systemd reload removes them", ALL
    ),
}
OTHER_COLUMNS = ("MIG on", "a row to be remapped", "a row that cannot be", "persistence off", "few PCIe lanes")
"""Faults that are read as others are, in one more column of the same table of nvidia-smi."""


@pytest.fixture(scope="module")
def hosts(gpu_host: HostFactory) -> dict[str, GpuHost]:
    """A PIX pair, a SYS pair, one GPU; their disks can be made smaller."""
    return {host.name: host for host in gpu_host.several(*three(docker_disk="16g"))}


@pytest.fixture(scope="module")
def operator(
    hosts: dict[str, GpuHost], engine: Engine, base_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Operator:
    """An operator of the three, whose image of the trainer is made for CUDA 12.8."""
    operators.fake_image(engine, base_image, "trainer", cuda="12.8.1")
    roles = {"gpu-pix": ["trainer"], "gpu-sys": ["trainer", "monitoring"], "gpu-one": ["trainer", "bark"]}
    entries = {
        name: operators.entry(host, roles=roles[name], gpus=len(host.began.scenario.gpus))
        for name, host in hosts.items()
    }
    path = operators.write_fleet(tmp_path_factory.mktemp("operator"), entries)
    return Operator(path, operators.environment(engine))


@pytest.fixture(scope="module")
def healthy(operator: Operator) -> dict[str, Findings]:
    """Findings of the hosts while nothing is planted."""
    return {name: found["findings"] for name, found in check(operator).items()}


def check(operator: Operator, *arguments: str) -> dict[str, dict[str, Any]]:
    """Output of `fab check` for each host."""
    return {each["name"]: each for each in operator.json("check", *arguments)["hosts"]}


def kinds(findings: Findings, *levels: str) -> set[str]:
    """The checks that have something to say on these levels."""
    return {each["check"] for each in findings if each["level"] in levels}


def with_other_keys(operator: Operator, folder: Path, known_hosts: Path, host: str) -> Operator:
    """The operator, who knows one of the hosts by another key."""
    document = yaml.safe_load(operator.inventory.read_text())
    document["hosts"][host]["known_hosts"] = str(known_hosts)
    shutil.copytree(operator.inventory.parent, folder, dirs_exist_ok=True)
    (folder / "hosts.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return Operator(folder / "hosts.yaml", operator.environment)


def test_healthy_hosts_have_no_failure_and_their_limits_are_reported(
    operator: Operator, healthy: dict[str, Findings]
) -> None:
    assert all(kinds(found, "FAIL") == set() for found in healthy.values())
    assert kinds(healthy["gpu-pix"], "WARN") == set()
    assert kinds(healthy["gpu-sys"], "WARN") == {"pair_link"}
    table = operator.good("check")
    assert table.count("limits (recommended)") == 3
    assert "PIX" in table


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[pytest.mark.long] * (each in OTHER_COLUMNS)) for each in FAULTS]
)
def test_a_planted_fault_is_found_and_nothing_else(
    name: str, operator: Operator, hosts: dict[str, GpuHost], healthy: dict[str, Findings]
) -> None:
    fault = FAULTS[name]

    with fault.plant(hosts[fault.host]):
        done = operator.fab("check", "--json", "--host", fault.host)

    (host,) = json.loads(done.stdout)["hosts"]
    before = healthy[fault.host]
    (found,) = [each for each in host["findings"] if (each["level"], each["check"]) == (fault.level, fault.check)]
    assert fault.said in found["found"]
    assert len(found["remedy"]) > 10
    assert tuple(found["services"]) == fault.services
    bad = kinds(host["findings"], "FAIL", "WARN") - kinds(before, "FAIL", "WARN")
    assert bad - {"pair"} == {fault.check}, "the fault itself; and perhaps that no GPU is left"
    assert done.returncode == (1 if fault.level == "FAIL" else 0)


def test_hosts_are_looked_at_side_by_side_and_each_has_its_own_faults(
    operator: Operator, hosts: dict[str, GpuHost]
) -> None:
    with faults.mig_on(hosts["gpu-one"]), faults.old_driver(hosts["gpu-pix"]):
        found = check(operator)

    assert {name: kinds(each["findings"], "FAIL") - {"pair"} for name, each in found.items()} == {
        "gpu-pix": {"driver"},
        "gpu-sys": set(),
        "gpu-one": {"mig"},
    }
    assert {name: each["ok"] for name, each in found.items()} == {"gpu-pix": False, "gpu-sys": True, "gpu-one": False}


def test_a_check_changes_nothing(operator: Operator, hosts: dict[str, GpuHost]) -> None:
    before = [snapshot(host) for host in hosts.values()]

    operator.good("check")

    assert [differences(old, snapshot(host)) for old, host in zip(before, hosts.values(), strict=True)] == [[], [], []]


def test_a_host_whose_sshd_hangs_is_reported_and_does_not_hold_the_others(
    operator: Operator, hosts: dict[str, GpuHost]
) -> None:
    with faults.hanging_sshd(hosts["gpu-sys"]):
        done = operator.fab("check", "--json")

    found = {each["name"]: each for each in json.loads(done.stdout)["hosts"]}
    assert done.returncode == 1
    assert "cannot be reached" in found["gpu-sys"]["error"]
    assert found["gpu-pix"]["error"] is None is found["gpu-one"]["error"]


def test_an_engine_that_hangs_is_reported_and_does_not_hold_the_others(
    operator: Operator, hosts: dict[str, GpuHost]
) -> None:
    with faults.hanging_program(hosts["gpu-sys"], "docker"):
        found = check(operator)

    (docker,) = [each for each in found["gpu-sys"]["findings"] if each["level"] == "FAIL"]
    assert "docker does not answer: timed out" in docker["found"]
    assert found["gpu-pix"]["ok"]


def test_a_driver_that_fails_late_is_waited_for(operator: Operator, hosts: dict[str, GpuHost]) -> None:
    slow = Failure(15, err="Unable to determine the device handle for GPU0000:10:00.0: GPU is lost.\n", seconds=3)
    with faults.broken_driver(hosts["gpu-pix"], slow):
        found = check(operator, "--host", "gpu-pix")["gpu-pix"]["findings"]

    assert "GPU is lost" in found[0]["found"]


def test_after_all_that_the_hosts_are_as_they_were(operator: Operator, healthy: dict[str, Findings]) -> None:
    assert {name: found["findings"] for name, found in check(operator).items()} == healthy
