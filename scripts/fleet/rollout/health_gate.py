"""Health gate: a started service must stay healthy, be ready, export metrics and keep its memory limits."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from fleet.checks.finding import ON_GPUS
from fleet.errors import HostFailedError
from fleet.facts.fact import Unknown, known
from fleet.inventory.ray_clusters import WORKER
from fleet.release.manifest import ServiceEntry
from fleet.rollout import commands, gpu_memory
from fleet.rollout.host_state import CONTAINERS, ServiceContainer, container_of, describe_exit, endpoint
from fleet.ssh.connection_pool import Session
from voxyard.service.healthcheck import CANNOT_WORK

log = logging.getLogger("fleet")

POLL_SECONDS = 1.0
REPORT_SECONDS = 5.0
LOG_LINES = 20
UNREADABLE = 3  # answers in a row that do not say how the containers are: an engine under load times out now and then
_PROBE = re.compile(r'"(GET|HEAD) /(healthz|readyz|metrics)[ ?]|"path": "/(healthz|readyz|metrics)"')


@dataclass(frozen=True, slots=True)
class Clock:
    """Clock for waiting; tests replace it."""

    wait: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic


@dataclass(slots=True)
class HealthWatch:
    """Health of one container over several checks: healthy time and restarts."""

    min_healthy_seconds: float
    fresh: bool = True  # new container: restarts count from zero
    first: ServiceContainer | None = None
    _healthy_since: float | None = None

    def failure(self, container: ServiceContainer | None) -> str | None:
        """Reason to stop waiting; None to continue."""
        first = self.first = self.first or container
        if first is None:
            return None
        if container is None:
            return "has no container any more"
        if container.id != first.id:
            return "was replaced by another container"
        if container.ended or container.health == "unhealthy":
            return f"is {container.description}"
        return "was restarted" if self.restarted(container) else None

    def restarted(self, container: ServiceContainer) -> bool:
        """True where the container was restarted since the first check."""
        known = 0 if self.fresh or self.first is None else self.first.restarts
        return container.restarts > known or (self.first is not None and container.started != self.first.started)

    def stable(self, now: float, *, healthy_now: bool) -> bool:
        """True where it has been healthy for long enough at `now` (seconds)."""
        if not healthy_now:
            self._healthy_since = None
        elif self._healthy_since is None:
            self._healthy_since = now
        return self._healthy_since is not None and now - self._healthy_since >= self.min_healthy_seconds

    def progress(self, now: float, problem: str) -> str:
        """Progress at `now` as text; `problem` where it is not healthy."""
        if self._healthy_since is None:
            return problem
        return f"healthy for {now - self._healthy_since:.0f} of {self.min_healthy_seconds:.0f} s"


def pass_gate(
    host: str,
    session: Session,
    service: ServiceEntry,
    clock: Clock,
    watch: HealthWatch,
    say: Callable[[str], None] = log.info,
) -> tuple[str, ...]:
    """Wait until the service has been healthy for long enough; returns its verified GPU memory limits as text.

    Reports progress every few seconds. Raises HostFailedError with the last log lines when the service exits, is
    restarted, reports that it cannot work, or does not become healthy in time.
    """
    watched = endpoint(service)
    said = clock.now()
    end = said + service.healthy_seconds
    unreadable = 0
    while True:
        now = clock.now()
        answers = session.run([CONTAINERS.command, *watched.probes])
        containers, problem = CONTAINERS.among(answers), watched.problem(answers)
        if isinstance(containers, Unknown):
            unreadable += 1
            if unreadable >= UNREADABLE:
                raise HostFailedError(f"{host}: services cannot be read: {containers.reason}")
            watch.stable(now, healthy_now=False)
            clock.wait(POLL_SECONDS)
            continue
        unreadable = 0
        container = container_of(containers, service.name)
        name = f"{host}: {service.name} ({service.config})"
        if (reason := watch.failure(container)) is not None:
            raise HostFailedError(f"{name} {failure_message(session, container, watch, reason)}")
        wrong = _problem(service, container, problem)
        if container is not None and container.config == service.config and CANNOT_WORK in (problem or ""):
            raise HostFailedError(f"{name} {failure_message(session, container, watch, wrong or '')}")
        if container is not None and watch.stable(now, healthy_now=wrong is None):
            if service.name not in ON_GPUS or service.name == WORKER:  # its workers start with the first speech
                return ()
            return gpu_memory.verify(session, f"{host}: {service.name}", container.id, service.gpu_limits)
        if wrong is not None and now >= end:
            raise HostFailedError(f"{name} {failure_message(session, container, watch, wrong)}")
        if now - said >= REPORT_SECONDS:
            say(f"{host}: waiting for {service.name}: {watch.progress(now, wrong or '')}")
            said = now
        clock.wait(POLL_SECONDS)


def failure_message(session: Session, container: ServiceContainer | None, watch: HealthWatch, reason: str) -> str:
    """Failure message: `reason`, exit code, last log lines up to the exit, not those of the next start."""
    if container is None:
        return reason
    how = ""
    if container.state == "running" and watch.restarted(container):  # the engine reports the restarted process
        deaths, logs = commands.deaths(container.id), commands.logs(container.id, until=container.started)
        answers = session.run([deaths, logs])
        how = _exit_of(answers[deaths.name].out)
    else:
        logs = commands.logs(container.id)
        answers = session.run([logs, CONTAINERS.command])
        later = container_of(known(CONTAINERS.among(answers), ()), container.service)
        if later is not None and later.id == container.id and later.started != container.started:
            answers = session.run([logs := commands.logs(container.id, until=later.started)])
    return f"{reason}{how}. Last log lines:\n{last_log_lines(answers[logs.name].out)}"


def last_log_lines(text: str) -> str:
    """Last lines of a log, without health check requests."""
    lines = [line for line in text.strip().splitlines() if not _PROBE.search(line) or '"trace"' in line]
    return "\n".join(lines[-LOG_LINES:]) or "(none)"


def _problem(service: ServiceEntry, container: ServiceContainer | None, problem: str | None) -> str | None:
    """Reason why the service is not healthy; None where it is."""
    if container is None:
        state = "has no container"
    elif container.config != service.config or container.image != service.image:
        state = f"runs configuration {container.config or 'unknown'} of {container.image}, is {container.description}"
    elif not container.healthy or problem is not None:
        state = f"is {container.description}"
    else:
        return None
    return state if problem is None else f"{state}; {problem}"


def _exit_of(events: str) -> str:
    """Exit code of a container from its events."""
    rows = [line.split() for line in events.splitlines() if line.strip()]
    codes = [row[1] for row in rows if row[0] == "die" and len(row) > 1]
    return f", {describe_exit(codes[-1], out_of_memory=['oom'] in rows)}" if codes else ""
