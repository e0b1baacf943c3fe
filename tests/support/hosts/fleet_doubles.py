"""Test data of fleet tests: hosts, facts, a recording session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.checks.finding import Finding
from fleet.facts.gpu_use import GpuProcess, Numa
from fleet.facts.gpus import HostGpu
from fleet.facts.host import HostFacts
from fleet.facts.machine import TOOLS, Container, Disk, Docker, EngineLimits, Login, State, Toolkit
from fleet.images.image import LocalImage
from fleet.inventory.hosts import Host
from fleet.ssh.command_batch import Answer, Command

PIX = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-15\t0\nGPU1\tPIX\t X \t0-15\t0\n"
P2P = " \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n"


def uuid(index: int) -> str:
    return f"GPU-0000000{index}-aaaa-bbbb-cccc-000000000000"


def gpu(index: int = 0, **other: Any) -> HostGpu:
    """A healthy RTX 4090."""
    healthy = HostGpu(
        index=index,
        uuid=uuid(index),
        name="NVIDIA GeForce RTX 4090",
        driver_version="580.65.06",
        pci_bus_id=f"00000000:0{index + 1}:00.0",
        memory_total_mib=24564,
        memory_free_mib=24200,
        compute_mode="Default",
        persistence=True,
        pcie_width=16,
        pcie_width_max=16,
        clock_events=1,
        compute_capability=(8, 9),
    )
    return replace(healthy, **other)


def host(**other: Any) -> Host:
    """Host with the role trainer, and a node_exporter of its own."""
    trains = Host(name="gpu-01", address="192.0.2.11", user="voxyard", roles=("trainer",), node_exporter=False)
    return replace(trains, **other)


def state(**other: Any) -> State:
    """Home on a disk of the host, which the login can write."""
    home = "/home/voxyard/.voxyard"
    own = State(home, home, True, "8a4f", "2049", "131074", "1760000000.123456789", "ext4", "/dev/sda1")
    return replace(own, **other)


def facts(**other: Any) -> HostFacts:
    """Facts of a healthy host."""
    healthy = HostFacts(
        login=Login(1000, "/home/voxyard", "192.0.2.11"),
        state=state(),
        gpus=(gpu(0), gpu(1)),
        topology=PIX,
        p2p=P2P,
        processes=(),
        xids=(),
        numa=Numa(2, {"0000:01:00.0": 0, "0000:02:00.0": 0}),
        docker=Docker("27.3.1", "27.3.1", "/var/lib/docker", "systemd", "x86_64"),
        compose="2.29.7",
        toolkit=Toolkit(hook=True, runtime=True, cdi=True),
        disk=Disk("/", 900 << 30, 400 << 30),
        images=(),
        engine_limits=EngineLimits(None, raises=True),
        home_disk=Disk("/home", 900 << 30, 400 << 30),
        memory_mib=128 << 10,
        artefact_bytes_present=0,
        ports=frozenset({22}),
        programs=frozenset(TOOLS),
        containers=(),
        clock_skew=0.0,
    )
    return replace(healthy, **other)


def container(**other: Any) -> Container:
    """Healthy exporter container."""
    healthy = Container(
        name="voxyard-exporter-1",
        service="exporter",
        release="0123456789ab",
        config="",
        image="voxyard-exporter:aa",
        image_id="sha256:aa",
        state="running",
        health="healthy",
        started="2026-01-05T08:00:00Z",
        ports=(9410,),
        id="c0ffee",
    )
    return replace(healthy, **other)


def process(**other: Any) -> GpuProcess:
    """Foreign process on the first GPU, outside of containers."""
    foreign = GpuProcess(uuid(0), 4711, "/usr/bin/python3", 3072, "alice", "0::/user.slice/user-1001.slice")
    return replace(foreign, **other)


IMAGE = LocalImage("sha256:" + "ab" * 32, ("sha256:11", "sha256:22"), 180_000_000)


@dataclass
class RecordingSession:
    """Session with predefined answers that records its commands; the last answer of a list repeats."""

    answers: Mapping[str, Answer | list[Answer]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    received: dict[str, bytes] = field(default_factory=dict)

    def run(self, commands: Sequence[Command]) -> dict[str, Answer]:
        return {command.name: self._answer(command) for command in commands}

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        self.received[command.name] = b"".join(data)
        return self._answer(command)

    def _answer(self, command: Command) -> Answer:
        self.asked.append(command.name)
        self.texts[command.name] = command.text
        answer = self.answers.get(command.name, Answer(""))
        if isinstance(answer, list):
            return answer.pop(0) if len(answer) > 1 else answer[0]
        return answer


def blocked(findings: Iterable[Finding]) -> frozenset[str]:
    """Services that must not be started on a host with these findings."""
    return frozenset(name for each in findings if each.level == "FAIL" for name in each.services)
