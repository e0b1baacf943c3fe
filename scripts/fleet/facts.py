"""What is known of a host: all facts, collected in two exchanges, as one frozen thing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fleet.fact import Unknown
from fleet.gpu_facts import CLOCKS, GPUS, HEALTH, P2P, REMAPS, TOPOLOGY, HostGpu, merged
from fleet.machine_facts import (
    CLOCK,
    COMPOSE,
    CONTAINERS,
    DISK,
    DOCKER,
    LOGIN,
    PORTS,
    TOOLKIT,
    Container,
    Disk,
    Docker,
    Login,
    Toolkit,
)
from fleet.remote import Session

_ALL = (LOGIN, GPUS, HEALTH, REMAPS, CLOCKS, TOPOLOGY, P2P, DOCKER, COMPOSE, TOOLKIT, DISK, PORTS, CONTAINERS)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One host as it is now; a fact that could not be had is Unknown."""

    login: Login | Unknown
    gpus: tuple[HostGpu, ...] | Unknown
    topology: str | Unknown  # nvidia-smi topo -m, as printed
    p2p: str | Unknown  # nvidia-smi topo -p2p r, as printed
    docker: Docker | Unknown
    compose: str | Unknown
    toolkit: Toolkit | Unknown
    disk: Disk | Unknown
    ports: frozenset[int] | Unknown  # TCP ports on which something listens
    containers: tuple[Container, ...] | Unknown
    clock_skew: float | Unknown  # seconds by which the host is at least ahead of the operator


def collect(session: Session, now: Callable[[], float] = time.time) -> HostFacts:
    """Ask the host for everything. Raises HostFailedError when the connection breaks."""
    before = now()
    clock = CLOCK.among(session.run([CLOCK.command]))
    after = now()
    answers = session.run([fact.command for fact in _ALL])
    gpus = GPUS.among(answers)
    if not isinstance(gpus, Unknown):
        gpus = merged(gpus, HEALTH.among(answers), REMAPS.among(answers), CLOCKS.among(answers))
    return HostFacts(
        login=LOGIN.among(answers),
        gpus=gpus,
        topology=TOPOLOGY.among(answers),
        p2p=P2P.among(answers),
        docker=DOCKER.among(answers),
        compose=COMPOSE.among(answers),
        toolkit=TOOLKIT.among(answers),
        disk=DISK.among(answers),
        ports=PORTS.among(answers),
        containers=CONTAINERS.among(answers),
        clock_skew=clock if isinstance(clock, Unknown) else _ahead(clock, before, after),
    )


def _ahead(clock: float, before: float, after: float) -> float:
    """How far the host's clock is outside the time that the question took: a slow answer is no skew."""
    return min(0.0, clock - before) or max(0.0, clock - after)
