"""All facts about a host, collected in three exchanges."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet.facts.fact import Fact, Unknown
from fleet.facts.gpu_start import GpuStart
from fleet.facts.gpu_use import NUMA, OUT_OF_WORK, PROCESSES, XIDS, GpuProcess, Marks, Numa, XidError
from fleet.facts.gpus import CARDS, GPUS, OF_EACH, P2P, TOPOLOGY, HostGpu, merged, with_host_memory
from fleet.facts.machine import (
    CLOCK,
    COMPOSE,
    CONTAINERS,
    DISK,
    DOCKER,
    ENGINE_LIMITS,
    HOME_DISK,
    IMAGES,
    KEPT,
    LOGIN,
    MEMORY,
    PORTS,
    PROGRAMS,
    STATE,
    TOOLKIT,
    Container,
    Disk,
    Docker,
    EngineLimits,
    HostImage,
    Login,
    State,
    Toolkit,
)
from fleet.facts.ray_reach import RayReach
from fleet.facts.shared_documents import SharedDocuments
from fleet.ssh.command_batch import Answer
from fleet.ssh.connection_pool import Session

# By the field of HostFacts. Only where nvidia-smi and Docker answer: a hanging program would hang every time.
_OF_GPUS = {"topology": TOPOLOGY, "p2p": P2P, "processes": PROCESSES, "numa": NUMA}
_OF_DOCKER = {"compose": COMPOSE, "toolkit": TOOLKIT, "disk": DISK, "images": IMAGES, "containers": CONTAINERS}
_FIRST = {
    "login": LOGIN,
    "state": STATE,
    "gpus": GPUS,
    "gpu_cards": CARDS,
    "docker": DOCKER,
    "xids": XIDS,
    "out_of_work": OUT_OF_WORK,
    "engine_limits": ENGINE_LIMITS,
    "home_disk": HOME_DISK,
    "memory_mib": MEMORY,
    "artefact_bytes_present": KEPT,
    "ports": PORTS,
    "programs": PROGRAMS,
}
_NEWER_FIELD = "not a valid field to query"  # words of nvidia-smi, of an older driver


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts about one host; unavailable ones are Unknown."""

    login: Login | Unknown
    state: State | Unknown
    gpus: tuple[HostGpu, ...] | Unknown
    topology: str | Unknown  # nvidia-smi topo -m, as printed
    p2p: str | Unknown  # nvidia-smi topo -p2p r, as printed
    processes: tuple[GpuProcess, ...] | Unknown  # on the GPUs
    xids: tuple[XidError, ...] | Unknown
    numa: Numa | Unknown
    docker: Docker | Unknown
    compose: str | Unknown
    toolkit: Toolkit | Unknown
    disk: Disk | Unknown  # of Docker's images
    images: tuple[HostImage, ...] | Unknown
    engine_limits: EngineLimits | Unknown
    home_disk: Disk | Unknown
    memory_mib: int | Unknown  # of the host
    artefact_bytes_present: int | Unknown  # weights and voices on the host
    ports: frozenset[int] | Unknown  # TCP ports in use
    programs: frozenset[str] | Unknown  # those of TOOLS and TLS_TOOL that are installed
    containers: tuple[Container, ...] | Unknown
    clock_skew: float | Unknown  # seconds that the host is ahead of the operator, at least
    out_of_work: Marks | Unknown = ()  # sick GPUs, as the host's exporter marks them
    shared_documents: SharedDocuments | Unknown | None = None  # None: the documents of the host are its own
    ray_reach: RayReach | None = None  # None: the host is in no Ray cluster
    gpu_cards: int | Unknown | None = None  # of NVIDIA, on the PCI bus
    unread_health: tuple[str, ...] = ()  # queries of the GPUs' health that fail, each with the reason
    gpu_start: GpuStart | Unknown | None = None  # of a container with the release's GPU request; None: not tried


def collect(session: Session, now: Callable[[], float] = time.time) -> HostFacts:
    """Collect all facts. Raises HostFailedError when the connection breaks."""
    before = now()
    clock = CLOCK.among(session.run([CLOCK.command]))
    after = now()
    answers = dict(session.run([fact.command for fact in _FIRST.values()]))
    gpus = GPUS.among(answers)
    more: list[Fact[Any]] = []
    for source, facts in (
        (gpus, (*OF_EACH, *_OF_GPUS.values())),
        (DOCKER.among(answers), tuple(_OF_DOCKER.values())),
    ):
        if isinstance(source, Unknown):
            answers |= {fact.name: Answer("", source.reason, 1) for fact in facts}
        else:
            more += facts
    if more:
        answers |= session.run([fact.command for fact in more])
    health = [fact.among(answers) for fact in OF_EACH]
    if not isinstance(gpus, Unknown):
        gpus = with_host_memory(merged(gpus, health), MEMORY.among(answers))
    found: dict[str, Any] = {name: fact.among(answers) for name, fact in {**_FIRST, **_OF_GPUS, **_OF_DOCKER}.items()}
    found |= {
        "gpus": gpus,
        "unread_health": tuple(
            f"{fact.name}: {each.reason}"
            for fact, each in zip(OF_EACH, health, strict=True)
            if isinstance(each, Unknown) and not isinstance(gpus, Unknown) and _NEWER_FIELD not in each.reason
        ),
        "clock_skew": clock if isinstance(clock, Unknown) else _ahead(clock, before, after),
    }
    return HostFacts(**found)


def _ahead(clock: float, before: float, after: float) -> float:
    """Clock skew beyond the duration of the exchange."""
    return min(0.0, clock - before) or max(0.0, clock - after)
