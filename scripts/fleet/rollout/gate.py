"""The gate: a service that was started is healthy, can work, has metrics, and keeps its limits; or it is a failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from fleet.errors import HostFailedError
from fleet.fact import Unknown
from fleet.release.manifest import ServiceEntry
from fleet.remote import Session
from fleet.rollout import commands, gpu_memory
from fleet.rollout.host_state import CONTAINERS, Endpoint, ServiceContainer, container_of

POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Clock:
    """How a rollout waits."""

    wait: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic


def pass_gate(host: str, session: Session, service: ServiceEntry, clock: Clock) -> tuple[str, ...]:
    """Wait until the service is well; what it holds of its limits, in words.

    Raises HostFailedError with what it wrote last when it ends, or is not well in the time that it has.
    """
    place = Endpoint(service.name, service.address, service.port, service.ready)
    end = clock.now() + service.healthy_seconds
    while True:
        answers = session.run([CONTAINERS.command, *place.questions])
        containers, problem = CONTAINERS.among(answers), place.problem(answers)
        if isinstance(containers, Unknown):
            raise HostFailedError(f"{host}: its services cannot be read: {containers.why}")
        container = container_of(containers, service.name)
        if container is not None and _is(container, service) and container.healthy and problem is None:
            if service.name == commands.EXPORTER:  # it reads the GPUs, and computes on none
                return ()
            return gpu_memory.verify(session, f"{host}: {service.name}", container.id, service.gpu_limits)
        if _ended(container) or clock.now() >= end:
            break
        clock.wait(POLL_SECONDS)
    raise HostFailedError(_said(host, session, service, container, problem))


def _is(container: ServiceContainer, service: ServiceEntry) -> bool:
    return container.config == service.config and container.image == service.image


def _ended(container: ServiceContainer | None) -> bool:
    """Whether waiting longer is in vain."""
    if container is None:
        return False
    crashed = container.state == "restarting" and container.exit_code != 0
    return crashed or container.state in ("exited", "dead") or container.health == "unhealthy"


def _said(
    host: str, session: Session, service: ServiceEntry, container: ServiceContainer | None, problem: str | None
) -> str:
    logs = commands.logs(service.name)
    tail = session.run([logs])[logs.name].out.strip() or "(nothing)"
    state = "is not there" if container is None else f"is {container.said}"
    if container is not None and not _is(container, service):
        state = f"runs as {container.config or 'something unknown'} of {container.image}, {state}"
    also = "" if problem is None else f"; {problem}"
    return f"{host}: {service.name} ({service.config}) {state}{also}. It wrote last:\n{tail}"
