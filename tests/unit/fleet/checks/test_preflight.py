"""Preflight: each injected fault gives one finding; a healthy host has none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import IMAGE, blocked, container, facts, gpu, host, process, uuid

from fleet.checks.finding import ALL_SERVICES, ON_GPUS, Finding, failures
from fleet.checks.preflight import preflight
from fleet.checks.requirements import HostRequirements
from fleet.facts.fact import Unknown
from fleet.facts.gpu_health import CRITICAL_XIDS
from fleet.facts.gpu_use import Numa, XidError
from fleet.facts.host import HostFacts
from fleet.facts.machine import TOOLS, Disk, Docker, EngineLimits, HostImage, Login, Toolkit
from fleet.images.cuda import DEFAULTS, CudaNeed
from fleet.inventory.hosts import Host
from fleet.release.gpu_assignment import assign
from voxyard.trainer.devices.cuda_kernels import CudaKernels

ROOT = Path(__file__).resolve().parents[4]
SYS = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-7\t0\nGPU1\tSYS\t X \t8-15\t1\n"
NO_P2P = " \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n"
BETTER_IS_IN_MIG = """\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPIX\tSYS\t0-7\t0
GPU1\tPIX\t X \tSYS\t0-7\t0
GPU2\tSYS\tSYS\t X \t8-15\t1
"""


def findings_of(found: HostFacts, on: Host, requirements: HostRequirements | None = None) -> tuple[Finding, ...]:
    return preflight(found, on, requirements or HostRequirements(), assign(found, on))


def test_nothing_speaks_against_a_healthy_host() -> None:
    findings = findings_of(facts(), host(gpus=2))
    assert [each.level for each in findings] == ["INFO", "INFO"]
    assert [each.check for each in findings] == ["pair", "limits"]
    assert "PIX" in findings[0].found
    assert "data 8192 MiB, model 16384 MiB, batch 16, ring 3, buffer 50" in findings[1].found
    assert not failures(findings, strict=True)


SINGLE: dict[str, Any] = {"gpus": (gpu(0, compute_mode="Exclusive_Process"),)}
BOTH = {"roles": ("trainer", "bark")}
XID = XidError("0000:02:00", 79, 3 * 3600.0, "Xid 79, GPU has fallen off the bus.")
FAULTS: list[tuple[dict[str, Any], dict[str, Any], str, str, str]] = [
    ({"gpus": Unknown("no driver")}, {}, "FAIL", "nvidia_smi", "nvidia-smi fails: no driver"),
    ({"gpus": (gpu(0),)}, {"gpus": 2}, "FAIL", "gpu_inventory", "1 GPUs, the inventory says 2"),
    ({}, {"gpus": (uuid(0), uuid(7))}, "FAIL", "gpu_inventory", f"missing: {uuid(7)}"),
    ({}, {"gpus": (uuid(0),)}, "INFO", "gpu_inventory", f"not in the inventory, and not used: {uuid(1)}"),
    ({"gpus": (gpu(0, driver_version="470.239.06"),)}, {}, "FAIL", "driver", "the default, needs CUDA 12.8"),
    ({"gpus": (gpu(0, driver_version="unknown"),)}, {}, "WARN", "driver", "unknown driver version"),
    ({"toolkit": Toolkit(hook=False, runtime=False, cdi=False)}, {}, "FAIL", "toolkit", "no NVIDIA container toolkit"),
    ({"toolkit": Unknown("x")}, {}, "FAIL", "toolkit", "no NVIDIA container toolkit"),
    ({"toolkit": Toolkit(hook=True, runtime=False, cdi=False)}, {}, "WARN", "cgroup_driver", "a systemd reload"),
    ({"docker": Unknown("not found")}, {}, "FAIL", "docker", "docker does not answer: not found"),
    ({"docker": Docker("19.3", "19.03.15", "/", "")}, {}, "FAIL", "docker", "expected at least 20.10"),
    (
        {"docker": Docker("28.0", "28.0", "/", "", "aarch64")}, {},
        "FAIL", "architecture", "the host is aarch64, the images are built for x86_64",
    ),
    (
        {"docker": Docker("28.0", "28.0", "/", "", security=frozenset({"rootless"}))}, {},
        "FAIL", "docker_users", "Docker runs rootless",
    ),
    (
        {"docker": Docker("28.0", "28.0", "/", "", security=frozenset({"userns"}))}, {},
        "FAIL", "docker_users", "Docker remaps users",
    ),
    (
        {"docker": Docker("28.0", "28.0", "/", "", security=frozenset({"selinux"}))}, {},
        "WARN", "selinux", "SELinux confines containers",
    ),
    ({"compose": Unknown("unknown flag: --short")}, {}, "FAIL", "compose", "docker compose is not installed"),
    ({"compose": Unknown("not found")}, {}, "FAIL", "compose", "docker compose does not answer: not found"),
    ({"compose": "2.20.3"}, {}, "FAIL", "compose", "Compose 2.20.3, expected at least 2.24.4"),
    ({"disk": Disk("/", 10 << 30, 500 << 20)}, {}, "FAIL", "disk", "0.5 GiB free under Docker's root (/), 1.2 GiB"),
    ({"disk": Unknown("x")}, {}, "WARN", "disk", "under Docker's root is not known: x"),
    ({"home_disk": Disk("/home", 10 << 30, 500 << 20)}, {}, "FAIL", "disk", "0.5 GiB free in the home (/home)"),
    ({"home_disk": Unknown("x")}, {}, "WARN", "disk", "in the home of voxyard is not known: x"),
    ({"engine_limits": EngineLimits(8 << 20, raises=False)}, {}, "FAIL", "memlock", "memlock limit is 8 MiB"),
    ({"engine_limits": EngineLimits(8 << 30, raises=False)}, {}, "FAIL", "memlock", "memlock limit is 8192 MiB"),
    ({"programs": frozenset(TOOLS) - {"rsync"}}, {}, "FAIL", "programs", "rsync is not installed, needed"),
    ({"programs": frozenset(TOOLS) - {"bash"}}, {"roles": ()}, "FAIL", "programs", "bash is not installed"),
    ({"programs": Unknown("x")}, {}, "WARN", "programs", "installed programs are not known: x"),
    ({"ports": frozenset({9410})}, {}, "FAIL", "port", "port 9410, for the exporter, is used"),
    ({"ports": frozenset({8080})}, {"roles": ("bark",)}, "FAIL", "port", "port 8080, for the speech service, is"),
    ({"ports": frozenset({9411})}, {}, "FAIL", "port", "port 9411, for a training run's metrics, is used"),
    ({"ports": frozenset({9090})}, {"roles": ("monitoring",)}, "FAIL", "port", "port 9090, for Prometheus, is used"),
    ({"gpus": (gpu(0, mig=True), gpu(1))}, {}, "FAIL", "mig", "GPU 0 is in MIG mode"),
    ({"gpus": (gpu(0, ecc_uncorrected=3), gpu(1))}, {}, "FAIL", "ecc", "3 uncorrectable ECC errors"),
    ({"gpus": (gpu(0), gpu(1, remap_pending=True))}, {}, "FAIL", "row_remap", "GPU 1: row remapping pending"),
    ({"gpus": (gpu(0), gpu(1, remap_failed=True))}, {}, "FAIL", "row_remap", "GPU 1: row remapping failed"),
    ({"xids": (XID,)}, {}, "FAIL", "xid", "GPU 1, 3 h ago: Xid 79, GPU has fallen off the bus."),
    ({"xids": (replace(XID, bus_id="00000000:02:00"),)}, {}, "FAIL", "xid", "GPU 1, 3 h ago: Xid 79"),
    ({"xids": (replace(XID, bus_id="nvlink"),)}, {}, "FAIL", "xid", "GPU at nvlink, 3 h ago: Xid 79"),
    ({"xids": Unknown("not allowed")}, {}, "INFO", "xid", "are not known: not allowed"),
    (SINGLE, BOTH, "FAIL", "compute_mode", "GPU 0 allows one process (Exclusive_Process), bark and trainer are"),
    ({"gpus": (gpu(0, compute_mode="Prohibited"),)}, {}, "FAIL", "compute_mode", "GPU 0 is in compute mode Prohibited"),
    ({"processes": (process(),)}, {}, "FAIL", "gpu_process", "GPU 0: process 4711 of alice (/usr/bin/python3), not"),
    ({"processes": (process(memory_mib=None),)}, {}, "FAIL", "gpu_process", "holds an unknown amount"),
    ({"processes": (process(memory_mib=256),)}, {}, "FAIL", "gpu_process", "holds 256 MiB"),
    ({"processes": (process(memory_mib=40),)}, {}, "INFO", "gpu_process", "holds 40 MiB"),
    ({"processes": Unknown("x")}, {}, "WARN", "gpu_process", "GPU processes are not known: x"),
    ({"gpus": (gpu(0, memory_free_mib=8000), gpu(1))}, {}, "FAIL", "gpu_memory", "8000 MiB free, the limits need 8192"),
    ({"gpus": (gpu(0, memory_free_mib=8200), gpu(1))}, {}, "WARN", "gpu_memory", "8 MiB free beyond the limits"),
    ({"numa": Numa(2, {"0000:02:00.0": -1})}, {}, "WARN", "numa", "GPU 1 has NUMA node -1 on a machine with 2 nodes"),
    ({"gpus": (gpu(0, persistence=False), gpu(1))}, {}, "WARN", "persistence", "persistence mode is off"),
    ({"gpus": (gpu(0, pcie_width=4), gpu(1))}, {}, "WARN", "pcie_width", "GPU 0 uses 4 of 16 PCIe lanes"),
    ({"gpus": (gpu(0, clock_events=0x48), gpu(1))}, {}, "WARN", "throttling", "hardware slowdown, heat (hardware)"),
    ({"clock_skew": 2.5}, {}, "WARN", "clock", "the clock is 2.5 s ahead of yours"),
    ({"clock_skew": -9.0}, {}, "WARN", "clock", "the clock is 9.0 s behind yours"),
    ({"clock_skew": Unknown("x")}, {}, "WARN", "clock", "the clock cannot be read: x"),
    ({"login": Unknown("x")}, {}, "FAIL", "login", "unexpected output of the login shell: x"),
    ({"login": Login(0, "/root", "192.0.2.1")}, {}, "INFO", "login", "the remote user is root"),
    ({"topology": SYS}, {}, "WARN", "pair_link", "no better pair exists on this host"),
    ({"p2p": NO_P2P}, {}, "INFO", "p2p", "transfers go through host memory"),
    ({"topology": Unknown("cut")}, {}, "WARN", "topology", "the links between the GPUs are not known: cut"),
    ({"topology": "hello\n"}, {}, "WARN", "topology", "the links between the GPUs are not known"),
    ({"p2p": Unknown("old")}, {}, "WARN", "topology", "peer access between the GPUs is not known: old"),
    ({"gpus": (gpu(0, mig=True), gpu(1, mig=True))}, {}, "FAIL", "pair", "no GPUs for the workloads"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "inventory", "level", "check", "said"), FAULTS, ids=[f"{each[3]}: {each[4]}" for each in FAULTS]
)
def test_an_injected_fault_is_found_with_its_fix(
    fault: dict[str, Any], inventory: dict[str, Any], level: str, check: str, said: str
) -> None:
    findings = findings_of(
        facts(**fault),
        host(**inventory),
        HostRequirements(image_bytes=200 << 20, images={"exporter": replace(IMAGE, size_bytes=0, machine="x86_64")}),
    )
    named = [each for each in findings if each.check == check and each.level == level]
    assert len(named) == 1
    assert said in named[0].found
    assert len(named[0].remedy) > 10
    assert bool(failures(findings)) == any(each.level == "FAIL" for each in findings)


def test_gpu_faults_do_not_block_the_exporter() -> None:
    no_toolkit = Toolkit(hook=False, runtime=False, cdi=False)
    on_gpus: list[dict[str, Any]] = [
        {"gpus": Unknown("no driver")}, {"gpus": (gpu(0, mig=True), gpu(1, ecc_uncorrected=1))}, {"xids": (XID,)},
        {"processes": (process(),)}, {"gpus": (gpu(0, driver_version="470.1"), gpu(1))}, {"toolkit": no_toolkit},
    ]  # fmt: skip
    for fault in on_gpus:
        findings = findings_of(facts(**fault), host(gpus=2))
        assert failures(findings)
        assert not failures(findings, services=["exporter"])
        assert blocked(findings) <= set(ON_GPUS)
    assert blocked(findings_of(facts(docker=Unknown("gone")), host())) == set(ALL_SERVICES)


def test_a_taken_port_speaks_against_its_own_service_alone() -> None:
    findings = findings_of(facts(ports=frozenset({9411})), host(roles=("trainer", "bark")))
    assert blocked(findings) == {"trainer"}
    assert [each.check for each in failures(findings, services=["trainer"])] == ["port"]


THREE = (gpu(0), gpu(1), gpu(2))
OUT = "; left out: the services use the other 2"
ONE_SICK: list[tuple[dict[str, Any], Any, str, str, set[int]]] = [
    ({"gpus": (gpu(0), gpu(1, ecc_uncorrected=3), gpu(2))}, None, "ecc", f"loaded ({uuid(1)}){OUT}", {0, 2}),
    ({"gpus": (gpu(0), gpu(1, remap_pending=True), gpu(2))}, 3, "row_remap", f"reset ({uuid(1)}){OUT}", {0, 2}),
    ({"gpus": (gpu(0), gpu(1, remap_failed=True), gpu(2))}, 3, "row_remap", f"failed ({uuid(1)}){OUT}", {0, 2}),
    ({"gpus": THREE, "xids": (XID,)}, 3, "xid", f"off the bus. ({uuid(1)}){OUT}", {0, 2}),
    ({"gpus": (gpu(0), gpu(1))}, 3, "gpu_inventory", f"2 GPUs, the inventory says 3{OUT}", {0, 1}),
    ({"gpus": (gpu(0), gpu(1))}, (uuid(0), uuid(1), uuid(7)), "gpu_inventory", f"missing: {uuid(7)}{OUT}", {0, 1}),
    ({"xids": (replace(XID, bus_id="0000:0c:00"),)}, None, "xid", f"off the bus.{OUT}", {0, 1}),
]


@pytest.mark.parametrize(
    ("fault", "gpus", "check", "said", "used"), ONE_SICK, ids=[f"{each[2]}: {each[3]}" for each in ONE_SICK]
)
@pytest.mark.parametrize("role", ["trainer", "bark"])
def test_a_sick_gpu_is_left_out_with_a_warning_where_enough_others_remain(
    fault: dict[str, Any], gpus: Any, check: str, said: str, used: set[int], role: str
) -> None:
    found, on = facts(topology=THREE_TOPOLOGY, p2p=Unknown("old"), **fault), host(roles=(role,), gpus=gpus)
    findings = findings_of(found, on)
    assert not failures(findings)
    (warning,) = [each for each in findings if each.check == check]
    assert (warning.level, said in warning.found) == ("WARN", True), warning.found
    assert len(warning.remedy) > 10
    assert {each.gpu for each in assign(found, on).workloads} == {uuid(index) for index in used}


THREE_TOPOLOGY = """\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPIX\tPHB\t0-7\t0
GPU1\tPIX\t X \tPHB\t0-7\t0
GPU2\tPHB\tPHB\t X \t0-7\t0
"""


@pytest.mark.parametrize(
    ("roles", "count"), [(("bark",), 1), (("trainer",), 1), (("trainer",), 2), (("trainer", "bark"), 3)]
)
def test_a_sick_gpu_that_a_service_needs_is_a_failure(roles: tuple[str, ...], count: int) -> None:
    cards = tuple(gpu(index, ecc_uncorrected=1 if index == 0 else 0) for index in range(count))
    findings = findings_of(facts(gpus=cards, topology=Unknown("x"), p2p=Unknown("x")), host(roles=roles, gpus=count))
    (finding,) = [each for each in findings if each.check == "ecc"]
    assert finding.level == "FAIL"
    assert "name the GPUs to use, without it, as gpus in the inventory" in finding.remedy


def test_a_gpu_that_the_inventory_does_not_list_may_be_sick() -> None:
    cards = (gpu(0), gpu(1, ecc_uncorrected=1, mig=True, persistence=False))
    found, listed = facts(gpus=cards, xids=(XID, replace(XID, bus_id="0000:0c:00"))), host(gpus=(uuid(0),))
    findings = findings_of(found, listed)
    assert not failures(findings, strict=True)
    assert [each.found for each in findings if each.check == "gpu_inventory"] == [
        f"not in the inventory, and not used: {uuid(1)}"
    ]
    assert len([each for each in findings if each.check == "xid" and each.level == "INFO"]) == 2
    assert {each.gpu for each in assign(found, listed).workloads} == {uuid(0)}


def test_the_link_of_a_pair_is_not_compared_with_that_of_a_gpu_that_is_left_out() -> None:
    found = facts(gpus=(gpu(0, ecc_uncorrected=1), gpu(1), gpu(2)), topology=BETTER_IS_IN_MIG, p2p=Unknown("old"))
    (warning,) = [each for each in findings_of(found, host()) if each.check == "pair_link"]
    assert "GPU0 cannot train (it cannot be used: it is left out for its faults)" in warning.found


def test_our_own_processes_are_no_strangers_and_their_memory_counts_as_free() -> None:
    own = process(cgroup="0::/system.slice/docker-c0ffee.scope", memory_mib=8000)
    held = {"gpus": (gpu(0, memory_free_mib=16000), gpu(1)), "processes": (own,), "containers": (container(),)}
    assert not failures(findings_of(facts(**held), host()))
    assert failures(findings_of(facts(**held | {"containers": (container(id="beef"),)}), host()))
    less = gpu(0, memory_free_mib=1000)
    assert not failures(findings_of(facts(**held | {"gpus": (less, gpu(1))}), host()))
    assert failures(findings_of(facts(**held | {"gpus": (less, gpu(1)), "processes": ()}), host()))


def test_a_gpu_that_nothing_is_planned_on_may_be_used_by_others() -> None:
    third = process(gpu=uuid(2))
    cards = (gpu(0), gpu(1), gpu(2))
    topology = BETTER_IS_IN_MIG
    assert not failures(findings_of(facts(gpus=cards, topology=topology, processes=(third,)), host()))
    assert failures(
        findings_of(facts(gpus=cards, topology=topology, processes=(third,)), host(roles=("trainer", "bark")))
    )


def test_an_exclusive_gpu_is_good_enough_for_one_process() -> None:
    assert not failures(findings_of(facts(**SINGLE), host()))


@pytest.mark.parametrize("xid", [XidError("0000:02:00", 13, 60.0, "Xid 13"), XidError("0000:02:00", 79, 9e5, "Xid 79")])
def test_an_xid_that_is_no_matter_or_long_ago_is_left_out(xid: XidError) -> None:
    assert not failures(findings_of(facts(xids=(xid,)), host()))


def test_a_node_of_minus_one_is_usual_on_a_machine_of_one_node() -> None:
    assert findings_of(facts(numa=Numa(1, {"0000:02:00.0": -1})), host()) == findings_of(facts(), host())


@pytest.mark.parametrize("toolkit", [Toolkit(True, True, cdi=True), Toolkit(True, False, cdi=False, links=True)])
def test_gpus_that_systemd_knows_by_name_stay_in_their_containers(toolkit: Toolkit) -> None:
    assert not failures(findings_of(facts(toolkit=toolkit), host()), strict=True)


def test_an_engine_that_may_raise_its_limits_locks_as_much_as_is_asked() -> None:
    for limits in (EngineLimits(8 << 20, raises=True), EngineLimits(None, raises=False), Unknown("elsewhere")):
        assert not failures(findings_of(facts(engine_limits=limits), host()), strict=True)


def test_locked_memory_speaks_against_the_services_that_request_it(tmp_path: Path) -> None:
    found, both = facts(engine_limits=EngineLimits(8 << 20, raises=False)), host(roles=("trainer", "bark"))
    assert blocked(findings_of(found, both)) == {"trainer", "bark"}
    assert not failures(findings_of(found, host(roles=("monitoring",))))
    own = tmp_path / "own.yaml"
    own.write_text("services:\n  bark:\n    ulimits: !reset null\n")
    assert blocked(findings_of(found, replace(both, compose_overrides=(own,)))) == {"trainer"}
    own.write_text("services:\n  bark:\n    mem_limit: 64g\n")
    assert blocked(findings_of(found, replace(both, compose_overrides=(own,)))) == {"trainer", "bark"}


def test_a_host_that_trains_not_needs_no_rsync() -> None:
    assert not failures(findings_of(facts(programs=frozenset(TOOLS) - {"rsync"}), host(roles=("bark",))))


def test_room_is_needed_for_what_is_not_there_yet_and_twice_for_the_image_that_is_unpacked() -> None:
    gib = 1 << 30
    large = replace(IMAGE, id="sha256:large", size_bytes=10 * gib)
    requirements = HostRequirements(
        images={"exporter": IMAGE, "trainer": large, "bark": replace(large, id="sha256:other")}
    )
    trains = host()
    assert requirements.docker_bytes(trains, ()) == IMAGE.size_bytes + 2 * large.size_bytes + gib
    assert requirements.docker_bytes(trains, {"sha256:large"}) == 2 * IMAGE.size_bytes + gib
    assert requirements.docker_bytes(replace(trains, registry="a.example/b"), ()) == IMAGE.size_bytes + 11 * gib
    nearly = Disk("/var/lib/docker", 99 * gib, 20 * gib)
    assert failures(findings_of(facts(disk=nearly), trains, requirements))
    assert not failures(
        findings_of(facts(disk=nearly, images=(HostImage("sha256:large", frozenset(), ()),)), trains, requirements)
    )


def test_room_for_artefacts_is_needed_in_the_home_or_beside_the_images_where_that_is_one_disk() -> None:
    gib = 1 << 30
    requirements, speaks = HostRequirements(artefact_bytes={"gpu-01": 30 * gib}), host(roles=("bark",))
    small = Disk("/", 99 * gib, 20 * gib)
    (finding,) = failures(findings_of(facts(home_disk=replace(small, path="/home")), speaks, requirements))
    assert "free in the home (/home), 31.0 GiB needed" in finding.found
    (finding,) = failures(findings_of(facts(home_disk=small, disk=small), speaks, requirements))
    assert "under Docker's root (/), 32.0 GiB needed" in finding.found
    assert not failures(
        findings_of(facts(home_disk=small, disk=small, artefact_bytes_present=30 * gib), speaks, requirements)
    )
    assert not failures(findings_of(facts(home_disk=small, disk=small), replace(speaks, name="gpu-02"), requirements))
    home = Disk("/home", 99 * gib, 40 * gib)
    assert not failures(findings_of(facts(home_disk=home, disk=small), speaks, requirements))


def test_an_xid_is_critical_where_the_alert_says_so() -> None:
    rules = yaml.safe_load((ROOT / "deploy/prometheus/rules/gpu_alerts.yaml").read_text(encoding="utf-8"))
    (alert,) = [rule for group in rules["groups"] for rule in group["rules"] if rule.get("alert") == "GpuXidCritical"]
    assert f'xid=~"{"|".join(map(str, sorted(CRITICAL_XIDS)))}"' in alert["expr"]


def test_a_better_pair_that_cannot_be_used_is_named() -> None:
    found = facts(gpus=(gpu(0, mig=True), gpu(1), gpu(2)), topology=BETTER_IS_IN_MIG, p2p=Unknown("old"))
    (warning,) = [each for each in findings_of(found, host()) if each.check == "pair_link"]
    assert "GPU0 and GPU1 have PIX" in warning.found


def test_a_user_outside_the_group_is_told_how_to_get_in() -> None:
    found = facts(docker=Unknown("permission denied while trying to connect"))
    assert "usermod -aG docker voxyard" in findings_of(found, host())[0].remedy


def test_our_own_exporter_may_have_the_port() -> None:
    taken = {"ports": frozenset({9410})}
    assert not failures(findings_of(facts(**taken, containers=(container(),)), host()))
    assert failures(findings_of(facts(**taken, containers=(container(state="exited"),)), host()))
    assert failures(findings_of(facts(**taken, containers=(container(ports=(9999,)),)), host()))


def test_a_speech_service_on_the_hosts_network_has_its_port() -> None:
    taken, speaks = {"ports": frozenset({8080})}, host(roles=("bark",))
    bark = container(service="bark", ports=(), host_network=True)
    assert not failures(findings_of(facts(**taken, containers=(bark,)), speaks))
    assert failures(findings_of(facts(**taken, containers=(replace(bark, service="exporter"),)), speaks))


def test_each_image_wants_the_driver_of_its_cuda() -> None:
    """PyPI's torch brings CUDA 13.0, NVIDIA's TensorFlow CUDA 12.8: a driver may do for the one alone."""
    found = facts(gpus=(gpu(0, driver_version="570.86.10"), gpu(1)))
    findings = findings_of(found, host(roles=("trainer", "bark")), HostRequirements())
    assert blocked(findings) == {"bark"}
    assert not failures(findings_of(found, host(roles=("trainer",)), HostRequirements()))
    cpu = CudaNeed(None, "its torch, built for CPUs,")
    for need in (cpu, CudaNeed((12, 8), "its torch, built for CUDA 12.8,"), CudaNeed((11, 8), "its base")):
        requirements = HostRequirements(cuda={**DEFAULTS, "bark": need})
        assert not failures(findings_of(found, host(roles=("trainer", "bark")), requirements))
    older = facts(gpus=(gpu(0, driver_version="550.90.07"), gpu(1)))
    (finding,) = failures(findings_of(older, host(roles=("trainer",)), HostRequirements()))
    assert "550.90.07 does not suit the image of trainer: NVIDIA's TensorFlow 25.02" in finding.found
    assert "the 570 branch or newer, and reboot; or build trainer for CUDA 12.4 or older" in finding.remedy


PYPI = ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90")


def trainer_image(version: str, *kernels: str) -> HostRequirements:
    built = CudaKernels.of_build(version, {"cuda_compute_capabilities": kernels})
    return HostRequirements(cuda={**DEFAULTS, "trainer": CudaNeed((12, 5), "its tensorflow,", kernels=built)})


def blackwell(*indices: int, **other: Any) -> HostFacts:
    cards = [gpu(index, compute_capability=(12, 0) if index in indices else (8, 9)) for index in range(2)]
    return facts(gpus=tuple(cards), **other)


def test_a_card_without_kernels_in_the_trainers_image_is_refused_before_a_deploy() -> None:
    """PyPI's TensorFlow up to 2.20 on RTX 50xx: tensorflow issues 99592 and 101746."""
    (finding,) = failures(findings_of(blackwell(1), host(), trainer_image("2.19.1", *PYPI)))
    assert finding.check == "cuda_kernels"
    assert finding.found.startswith(
        "GPU 1 (NVIDIA GeForce RTX 4090) cannot run the image of the trainer: TensorFlow 2.19"
    )
    assert "this GPU has 12.0, for which TensorFlow up to 2.20 cannot compile them" in finding.found
    assert "NVIDIA's TensorFlow 25.02" in finding.remedy
    assert "--framework trainer=base" in finding.remedy
    assert blocked((finding,)) == {"trainer"}
    assert not failures(findings_of(blackwell(1), host(roles=("bark",)), trainer_image("2.19.1", *PYPI)))


def test_kernels_that_the_driver_can_compile_or_that_are_there_stop_nothing() -> None:
    newer = findings_of(blackwell(0, 1), host(), trainer_image("2.21.0", *PYPI))
    assert [each.level for each in newer if each.check == "cuda_kernels"] == ["INFO", "INFO"]
    for requirements in (trainer_image("2.17.0+nv25.2", *PYPI[:-1], "sm_120"), HostRequirements()):
        assert "cuda_kernels" not in {each.check for each in findings_of(blackwell(0, 1), host(), requirements)}
    unknown = facts(gpus=(gpu(0, compute_capability=None), gpu(1, compute_capability=None)))
    assert not failures(findings_of(unknown, host(), trainer_image("2.19.1", *PYPI)))


def test_only_the_gpus_that_train_count() -> None:
    cards = (gpu(0), gpu(1), gpu(2, compute_capability=(12, 0), memory_total_mib=8192, memory_free_mib=8000))
    assert not failures(findings_of(facts(gpus=cards), host(), trainer_image("2.19.1", *PYPI)))


def test_a_driver_that_needs_the_bases_libraries_is_warned_of() -> None:
    require = "cuda>=12.8 brand=geforce,driver>=550,driver<551"
    need = CudaNeed((12, 8), "its tensorflow, built for CUDA 12.8,", require, (12, 8))
    requirements = HostRequirements(cuda={**DEFAULTS, "trainer": need})
    older = facts(gpus=(gpu(0, driver_version="550.90.07"), gpu(1)))
    (finding,) = (each for each in findings_of(older, host(), requirements) if each.check == "driver_compat")
    assert finding.level == "WARN"
    assert "driver 550.90.07 is older than CUDA 12.8 of the image of trainer" in finding.found
    assert "Toolkit 1.17.7" in finding.remedy
    assert "570" in finding.remedy
    recent = facts(gpus=(gpu(0, driver_version="570.86.10"), gpu(1)))
    assert "driver_compat" not in {each.check for each in findings_of(recent, host(), requirements)}


@pytest.mark.parametrize("roles", [(), ("monitoring",)])
def test_a_host_that_needs_no_gpus_may_have_none(roles: tuple[str, ...]) -> None:
    found = facts(gpus=Unknown("sh: 1: nvidia-smi: not found"), toolkit=Toolkit(hook=False, runtime=False, cdi=False))
    assert findings_of(found, host(roles=roles)) == ()
    assert failures(findings_of(found, host(roles=roles, gpus=1)))


def test_the_worst_comes_first() -> None:
    found = facts(clock_skew=9.0, compose="2.0")
    assert [each.level for each in findings_of(found, host())] == ["FAIL", "WARN", "INFO", "INFO"]


def test_a_warning_can_be_acknowledged_and_a_failure_cannot() -> None:
    found = facts(clock_skew=9.0, compose="2.0")
    findings = findings_of(found, host(acknowledged=frozenset({"clock", "compose"})))
    assert {each.check: each.acknowledged for each in findings if each.level != "INFO"} == {
        "compose": False,
        "clock": True,
    }
    assert failures(findings)


def test_strict_counts_warnings_that_nobody_acknowledged() -> None:
    found = facts(clock_skew=9.0)
    assert not failures(findings_of(found, host()))
    assert failures(findings_of(found, host()), strict=True)
    assert not failures(findings_of(found, host(acknowledged=frozenset({"clock"}))), strict=True)
