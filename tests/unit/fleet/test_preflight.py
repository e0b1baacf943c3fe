"""The preflight: one planted fault, one finding; a healthy host has none."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_doubles import container, facts, gpu, host, uuid

from fleet.assignment import assign
from fleet.fact import Unknown
from fleet.facts import HostFacts
from fleet.finding import Finding, failed
from fleet.inventory import Host
from fleet.machine_facts import Disk, Docker, Login, Toolkit
from fleet.preflight import Needs, preflight

SYS = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-7\t0\nGPU1\tSYS\t X \t8-15\t1\n"
NO_P2P = " \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n"
BETTER_IS_IN_MIG = """\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPIX\tSYS\t0-7\t0
GPU1\tPIX\t X \tSYS\t0-7\t0
GPU2\tSYS\tSYS\t X \t8-15\t1
"""


def judged(found: HostFacts, on: Host, needs: Needs | None = None) -> tuple[Finding, ...]:
    return preflight(found, on, needs or Needs(), assign(found, on))


def test_nothing_speaks_against_a_healthy_host() -> None:
    findings = judged(facts(), host(gpus=2))
    assert [each.level for each in findings] == ["INFO", "INFO"]
    assert [each.check for each in findings] == ["pair", "limits"]
    assert "PIX" in findings[0].found
    assert "data 8192 MiB, model 16384 MiB, batch 16, ring 3, buffer 50" in findings[1].found
    assert not failed(findings, strict=True)


FAULTS: list[tuple[dict[str, Any], dict[str, Any], str, str, str]] = [
    ({"gpus": Unknown("no driver")}, {}, "FAIL", "nvidia_smi", "nvidia-smi fails: no driver"),
    ({"gpus": (gpu(0),)}, {"gpus": 2}, "FAIL", "gpu_inventory", "1 GPUs, the inventory says 2"),
    ({}, {"gpus": (uuid(0), uuid(1), uuid(7))}, "FAIL", "gpu_inventory", f"missing: {uuid(7)}"),
    ({}, {"gpus": (uuid(0),)}, "FAIL", "gpu_inventory", f"not in the inventory: {uuid(1)}"),
    ({"gpus": (gpu(0, driver_version="470.239.06"),)}, {}, "FAIL", "driver", "CUDA 12 needs at least 525"),
    ({"gpus": (gpu(0, driver_version="unknown"),)}, {}, "WARN", "driver", "version is not known"),
    ({"toolkit": Toolkit(hook=False, runtime=False, cdi=False)}, {}, "FAIL", "toolkit", "no NVIDIA container toolkit"),
    ({"toolkit": Unknown("x")}, {}, "FAIL", "toolkit", "no NVIDIA container toolkit"),
    ({"docker": Unknown("not found")}, {}, "FAIL", "docker", "docker does not answer: not found"),
    ({"docker": Docker("19.3", "19.03.15", "/", "")}, {}, "FAIL", "docker", "at least 20.10 is needed"),
    ({"compose": Unknown("unknown flag: --short")}, {}, "FAIL", "compose", "docker has no command compose"),
    ({"compose": Unknown("not found")}, {}, "FAIL", "compose", "docker compose does not answer: not found"),
    ({"compose": "2.20.3"}, {}, "FAIL", "compose", "Compose 2.20.3, at least 2.24.4 is needed"),
    ({"disk": Disk("/", 10 << 30, 500 << 20)}, {}, "FAIL", "disk", "0.5 GiB free under Docker's root (/), 1.2 GiB"),
    ({"disk": Unknown("x")}, {}, "WARN", "disk", "is not known: x"),
    ({"ports": frozenset({9410})}, {}, "FAIL", "port", "port 9410 is taken"),
    ({"gpus": (gpu(0, mig=True), gpu(1))}, {}, "FAIL", "mig", "GPU 0 is in MIG mode"),
    ({"gpus": (gpu(0, ecc_uncorrected=3), gpu(1))}, {}, "FAIL", "ecc", "3 uncorrectable memory errors"),
    ({"gpus": (gpu(0), gpu(1, remap_pending=True))}, {}, "FAIL", "row_remap", "GPU 1 waits for a reset"),
    ({"gpus": (gpu(0), gpu(1, remap_failed=True))}, {}, "FAIL", "row_remap", "GPU 1 could not remap"),
    ({"gpus": (gpu(0, persistence=False), gpu(1))}, {}, "WARN", "persistence", "persistence mode is off"),
    ({"gpus": (gpu(0, pcie_width=4), gpu(1))}, {}, "WARN", "pcie_width", "GPU 0 has 4 PCIe lanes of 16"),
    ({"gpus": (gpu(0, clock_events=0x48), gpu(1))}, {}, "WARN", "throttling", "hardware slowdown, heat (hardware)"),
    ({"clock_skew": 2.5}, {}, "WARN", "clock", "the clock is 2.5 s ahead of yours"),
    ({"clock_skew": -9.0}, {}, "WARN", "clock", "the clock is 9.0 s behind yours"),
    ({"clock_skew": Unknown("x")}, {}, "WARN", "clock", "the clock cannot be read: x"),
    ({"login": Unknown("x")}, {}, "FAIL", "login", "the login is not understood: x"),
    ({"login": Login(0, "/root", "192.0.2.1")}, {}, "INFO", "login", "the remote user is root"),
    ({"topology": SYS}, {}, "WARN", "pair_link", "no better pair exists on this host"),
    ({"p2p": NO_P2P}, {}, "INFO", "p2p", "transfers go through the host"),
    ({"topology": Unknown("cut")}, {}, "WARN", "topology", "the links between the GPUs are not known: cut"),
    ({"topology": "hello\n"}, {}, "WARN", "topology", "the links between the GPUs are not known"),
    ({"p2p": Unknown("old")}, {}, "WARN", "topology", "peer access between the GPUs is not known: old"),
    ({"gpus": (gpu(0, mig=True), gpu(1, mig=True))}, {}, "FAIL", "pair", "no GPUs for the trainer"),
]


@pytest.mark.parametrize(("fault", "inventory", "level", "check", "said"), FAULTS, ids=[each[3] for each in FAULTS])
def test_a_planted_fault_is_found_with_what_to_do(
    fault: dict[str, Any], inventory: dict[str, Any], level: str, check: str, said: str
) -> None:
    findings = judged(facts(**fault), host(**inventory), Needs(image_bytes=200 << 20))
    named = [each for each in findings if each.check == check and each.level == level]
    assert len(named) == 1
    assert said in named[0].found
    assert len(named[0].remedy) > 10
    assert failed(findings) == any(each.level == "FAIL" for each in findings)


def test_a_better_pair_that_cannot_be_used_is_named() -> None:
    found = facts(gpus=(gpu(0, mig=True), gpu(1), gpu(2)), topology=BETTER_IS_IN_MIG, p2p=Unknown("old"))
    (warning,) = [each for each in judged(found, host()) if each.check == "pair_link"]
    assert "GPU0 and GPU1 have PIX" in warning.found


def test_a_user_outside_the_group_is_told_how_to_get_in() -> None:
    found = facts(docker=Unknown("permission denied while trying to connect"))
    assert "usermod -aG docker voxyard" in judged(found, host())[0].remedy


def test_our_own_exporter_may_have_the_port() -> None:
    taken = {"ports": frozenset({9410})}
    assert not failed(judged(facts(**taken, containers=(container(),)), host()))
    assert failed(judged(facts(**taken, containers=(container(state="exited"),)), host()))
    assert failed(judged(facts(**taken, containers=(container(ports=(9999,)),)), host()))


def test_cuda_13_wants_a_newer_driver() -> None:
    found = facts(gpus=(gpu(0, driver_version="570.86.10"), gpu(1)))
    assert not failed(judged(found, host(), Needs(cuda=12)))
    assert failed(judged(found, host(), Needs(cuda=13)))


@pytest.mark.parametrize("roles", [(), ("monitoring",)])
def test_a_host_that_needs_no_gpus_may_have_none(roles: tuple[str, ...]) -> None:
    found = facts(gpus=Unknown("sh: 1: nvidia-smi: not found"), toolkit=Toolkit(hook=False, runtime=False, cdi=False))
    assert judged(found, host(roles=roles)) == ()
    assert failed(judged(found, host(roles=roles, gpus=1)))


def test_the_worst_comes_first() -> None:
    found = facts(clock_skew=9.0, compose="2.0")
    assert [each.level for each in judged(found, host())] == ["FAIL", "WARN", "INFO", "INFO"]


def test_a_warning_can_be_acknowledged_and_a_failure_cannot() -> None:
    found = facts(clock_skew=9.0, compose="2.0")
    findings = judged(found, host(acknowledged=frozenset({"clock", "compose"})))
    assert {each.check: each.acknowledged for each in findings if each.level != "INFO"} == {
        "compose": False,
        "clock": True,
    }
    assert failed(findings)


def test_strict_counts_warnings_that_nobody_acknowledged() -> None:
    found = facts(clock_skew=9.0)
    assert not failed(judged(found, host()))
    assert failed(judged(found, host()), strict=True)
    assert not failed(judged(found, host(acknowledged=frozenset({"clock"}))), strict=True)
