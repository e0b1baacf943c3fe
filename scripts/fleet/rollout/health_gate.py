"""Health gates: a started service stays healthy, is ready, exports metrics and keeps its GPU memory limits.

After the last of a Ray cluster's hosts in a rollout, the cluster lists all of them, and its service is ready.
"""

from __future__ import annotations

import json
import logging
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.checks.finding import ON_GPUS
from fleet.errors import HostFailedError
from fleet.facts.fact import Fact, Unknown, known
from fleet.facts.gpu_use import PROCESSES, GpuProcess
from fleet.facts.machine import Container, container_of, describe_exit
from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import BARK, WORKER, members
from fleet.inventory.secrets import CLUSTER_TOKEN
from fleet.release.manifest import ServiceEntry
from fleet.release.ray_nodes import head_address
from fleet.rollout.change_plan import ChangePlan
from fleet.rollout.context import Cancellation, RolloutContext
from fleet.rollout.host_state import CONTAINERS, probes
from fleet.rollout.host_state import problem as problem_of
from fleet.ssh.command_batch import Answer, Command, host_verb
from fleet.ssh.connection_pool import Connections, Session
from fleet.ssh.verbs import must_know, wait_until
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
    first: Container | None = None
    _healthy_since: float | None = None

    def failure(self, container: Container | None) -> str | None:
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

    def restarted(self, container: Container) -> bool:
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
    said = clock.now()
    end = said + service.healthy_seconds
    unreadable = 0
    while True:
        now = clock.now()
        answers = session.run([CONTAINERS.command, *probes(service)])
        containers, problem = CONTAINERS.among(answers), problem_of(service, answers)
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
            return verify_memory(session, f"{host}: {service.name}", container.id, service.gpu_limits)
        if wrong is not None and now >= end:
            raise HostFailedError(f"{name} {failure_message(session, container, watch, wrong)}")
        if now - said >= REPORT_SECONDS:
            say(f"{host}: waiting for {service.name}: {watch.progress(now, wrong or '')}")
            said = now
        clock.wait(POLL_SECONDS)


def failure_message(session: Session, container: Container | None, watch: HealthWatch, reason: str) -> str:
    """Failure message: `reason`, exit code, last log lines up to the exit, not those of the next start."""
    if container is None:
        return reason
    how = ""
    if container.state == "running" and watch.restarted(container):  # the engine reports the restarted process
        deaths = host_verb("container_deaths", container.id)
        logs = logs_of(container.id, until=container.started)
        answers = session.run([deaths, logs])
        how = _exit_of(answers[deaths.name].out)
    else:
        logs = logs_of(container.id)
        answers = session.run([logs, CONTAINERS.command])
        later = container_of(known(CONTAINERS.among(answers), ()), container.service)
        if later is not None and later.id == container.id and later.started != container.started:
            answers = session.run([logs := logs_of(container.id, until=later.started)])
    return f"{reason}{how}. Last log lines:\n{last_log_lines(answers[logs.name].out)}"


def logs_of(container: str, *, until: str = "") -> Command:
    """Prints the last log lines of a container, optionally up to the time `until`."""
    end = f"--until {shlex.quote(until)} " if until else ""
    return Command("logs", f"docker logs --tail 400 {end}{shlex.quote(container)} 2>&1")


def last_log_lines(text: str) -> str:
    """Last lines of a log, without health check requests."""
    lines = [line for line in text.strip().splitlines() if not _PROBE.search(line) or '"trace"' in line]
    return "\n".join(lines[-LOG_LINES:]) or "(none)"


def _problem(service: ServiceEntry, container: Container | None, problem: str | None) -> str | None:
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


HEADROOM_MIB = 1024
"""Overhead of driver and libraries beyond the limit: context, kernels, workspaces."""


@dataclass(frozen=True, slots=True)
class GpuMemoryUse:
    """Memory use of a service on one GPU."""

    gpu: str
    limit_mib: int
    mib: int | None  # None: not reported by the driver

    @property
    def over_limit(self) -> bool:
        """True where it exceeds the limit plus the overhead."""
        return self.mib is not None and self.mib > self.limit_mib + HEADROOM_MIB

    def __str__(self) -> str:
        if self.mib is None:
            return f"{self.gpu}: memory use not reported by the driver, limit {self.limit_mib} MiB"
        if self.mib == 0:
            return f"{self.gpu}: no memory in use yet, limit {self.limit_mib} MiB"
        if self.over_limit:
            return f"{self.gpu}: uses {self.mib} MiB, allowed {self.limit_mib} + {HEADROOM_MIB} MiB"
        return f"{self.gpu}: verified {self.mib} of {self.limit_mib} MiB"


def verify_memory(session: Session, what: str, container: str, limits: Mapping[str, int]) -> tuple[str, ...]:
    """Verify the GPU memory limits of `container`; one line of text per GPU. `what` is its name in messages.

    Raises HostFailedError where it exceeds a limit by more than 1 GiB, or where the use is unknown.
    """
    if not limits:
        return ("limits: not enforceable on CPU",)
    answers = session.run([PROCESSES.command, processes(container).command])
    otherwise = f"{what}: memory limits cannot be verified"
    apps, pids = must_know(PROCESSES, answers, otherwise), must_know(processes(container), answers, otherwise)
    found = tuple(gpu_memory_use(limits, apps, pids))
    if over := [each for each in found if each.over_limit]:
        raise HostFailedError(
            f"{what} exceeds its memory limits: {'; '.join(map(str, over))}. "
            "Lower memory_policy or the limits, or find the cause of the excess"
        )
    return tuple(map(str, found))


def gpu_memory_use(
    limits: Mapping[str, int], apps: Iterable[GpuProcess], pids: frozenset[int]
) -> Iterable[GpuMemoryUse]:
    """GPU memory use of the processes `pids`, per GPU."""
    ours = [app for app in apps if app.pid in pids]
    for gpu, limit in limits.items():
        parts = [app.memory_mib for app in ours if app.gpu == gpu]
        yield GpuMemoryUse(gpu, limit, None if None in parts else sum(part or 0 for part in parts))


def processes(container: str) -> Fact[frozenset[int]]:
    """Process ids of a container."""
    return Fact("processes", f"docker top {shlex.quote(container)} -eo pid", _pids)


def _pids(text: str) -> frozenset[int]:
    head, *rows = text.splitlines()
    if head.strip() != "PID":
        raise ValueError("expected a column PID")
    return frozenset(int(row) for row in rows)


CLUSTER_SECONDS = 180
_POLL_SECONDS = 5


@dataclass(frozen=True, slots=True)
class ClusterGate:
    """Cluster that a host completes: its head, the workers that it must list, and services of the host that can ask."""

    cluster: str
    head: str  # HOST:PORT
    workers: tuple[str, ...]
    services: tuple[str, ...]
    speech: Host | None = None  # with the cluster's speech service, where it is in the rollout


def with_cluster_gates(
    context: RolloutContext, order: Sequence[Host], changes: Mapping[str, ChangePlan], connections: Connections
) -> RolloutContext:
    """Context with the gates of the clusters of a rollout in this order; `changes` are those of its hosts, by name."""
    gates = cluster_gates(order, [name for name, change in changes.items() if not change.nothing])

    def passed(host: str, session: Session, cancellation: Cancellation) -> str | None:
        if (gate := gates.get(host)) is None:
            return None
        complete = pass_cluster_gate(host, session, gate, cancellation)
        service = None if gate.speech is None else changes[gate.speech.name].manifest.service(BARK)
        if gate.speech is None or service is None:
            return complete
        wait_until_ready(gate.speech.name, connections.to(gate.speech), service, cancellation)
        return f"{complete}; the service of {gate.speech.name} is ready"

    return replace(context, cluster_gate=passed, before_workers=before_workers(order, gates))


def before_workers(order: Sequence[Host], gates: Mapping[str, ClusterGate]) -> frozenset[str]:
    """Hosts of speech services that change before the last host of their cluster: they may lack workers until then."""
    names = [host.name for host in order]
    return frozenset(
        gate.speech.name
        for last, gate in gates.items()
        if gate.speech is not None and names.index(gate.speech.name) < names.index(last)
    )


def cluster_gates(order: Sequence[Host], changed: Collection[str]) -> Mapping[str, ClusterGate]:
    """Gate of each host, by name, that is the last of its cluster to change; `order` is that of the rollout."""
    found = {}
    for name, those in members(order).items():
        last = next((host for host in reversed(those) if host.name in changed), None)
        workers = tuple(host.name for host in those if WORKER in host.roles)
        if last is not None and workers:
            speech = next((host for host in those if BARK in host.roles), None)
            found[last.name] = ClusterGate(name, head_address(last), workers, last.ray_roles, speech)
    return found


def pass_cluster_gate(host: str, session: Session, gate: ClusterGate, cancellation: Cancellation) -> str:
    """Wait until the cluster lists all its workers; returns them as text.

    Raises HostFailedError where some are missing after three minutes, or nothing on the host can ask.
    """
    containers = known(CONTAINERS.among(session.run([CONTAINERS.command])), ())
    asking = next((each for name in gate.services if (each := container_of(containers, name)) is not None), None)
    if asking is None:
        raise HostFailedError(f"{host}: no container can ask the cluster {gate.cluster} for its hosts")
    command = cluster_status(asking.id, gate.head, gate.workers)
    problem = wait_until(
        lambda: _cluster_problem(session.run([command])[command.name]), CLUSTER_SECONDS, cancellation, _POLL_SECONDS
    )
    if problem is not None:
        raise HostFailedError(
            f"{host}: the cluster {gate.cluster} is not complete after {CLUSTER_SECONDS} s: {problem}: see the logs of "
            "its worker and its head, and that its ports are open between its hosts"
        )
    return f"the cluster {gate.cluster} has {', '.join(gate.workers)}"


def cluster_status(container: str, head: str, workers: Sequence[str]) -> Command:
    """Prints the hosts of a Ray cluster as JSON, with those of `workers` that are missing; asked in a container."""
    words = ("docker", "exec", container, "voxyard", "cluster", "status", "--cluster", head, "--cluster-token")
    expected = ("--json", "--expect", ",".join(workers))
    return Command("cluster-status", shlex.join((*words, f"/run/secrets/{CLUSTER_TOKEN}", *expected)), 60)


def wait_until_ready(host: str, session: Session, service: ServiceEntry, cancellation: Cancellation) -> None:
    """Wait until the speech service of a complete cluster is ready. Raises HostFailedError where it is not in time."""
    problem = wait_until(
        lambda: problem_of(service, session.run(probes(service))), service.healthy_seconds, cancellation, _POLL_SECONDS
    )
    if problem is not None:
        raise HostFailedError(
            f"{host}: {service.name} is not ready {service.healthy_seconds} s after its cluster was complete: "
            f"{problem}: see its log, which says why workers are refused"
        )


def _cluster_problem(answer: Answer) -> str | None:
    """Missing hosts and devices in words, by the answer of `voxyard cluster status --json`; None where nothing is."""
    try:
        missing = json.loads(answer.out)["missing"]
    except (ValueError, LookupError, TypeError):
        return f"`voxyard cluster status` fails: {answer.message or ' '.join(answer.out.split())[-300:]}"
    return f"{', '.join(missing)} missing" if missing else None
