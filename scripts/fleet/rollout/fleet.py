"""Rollout over several hosts: inspect, plan; then lock, plan again, apply in waves."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fleet.checks.finding import EXPORTER, has_failures
from fleet.errors import FleetError, HostFailedError
from fleet.images.cuda import DEFAULTS, CudaNeed
from fleet.images.image import LocalImage, built_tag, find_image
from fleet.inventory.hosts import Host
from fleet.lock import locked, refusal
from fleet.release.artefact import ChecksumCache
from fleet.release.manifest import manifest_of
from fleet.release.release import Release, read_inputs, render, wanted_images
from fleet.rollout.apply import apply
from fleet.rollout.change_plan import ChangePlan, plan_change
from fleet.rollout.context import RolloutContext
from fleet.rollout.host_state import HostState, endpoints, read_state
from fleet.rollout.inspect import HostSnapshot, inspect_host
from fleet.rollout.outcome import Outcome
from fleet.rollout.waves import roll, waves
from fleet.ssh.connection_pool import Connections, GroupResult, Session, on_every_host

log = logging.getLogger("fleet")

Images = Mapping[str, Mapping[str, LocalImage]]  # by host, then by role


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """Release and planned change of one host."""

    release: Release
    change: ChangePlan


def find_images(hosts: Sequence[Host], references: Mapping[str, str]) -> Images:
    """Images that each host needs; `references` replaces the last built ones, by role.

    Raises FleetError for one that is missing locally, or was not pushed to the host's registry.
    """
    found: dict[tuple[str, str | None], LocalImage] = {}
    for host in hosts:
        for role in wanted_images(host):
            if (role, host.registry) not in found:
                reference = references.get(role, built_tag(role))
                image = find_image(reference, role, registry=host.registry)
                if host.registry and image.digest is None:
                    raise FleetError(
                        f"{host.name}: the current {reference} was not pushed to the registry {host.registry}: "
                        f"fab images --push {host.registry}, or remove registry from the inventory"
                    )
                found[role, host.registry] = image
    return {host.name: {role: found[role, host.registry] for role in wanted_images(host)} for host in hosts}


def inspect_hosts(
    hosts: Sequence[Host],
    connections: Connections,
    needed: Images,
    cuda: Mapping[str, Mapping[str, CudaNeed]] | None = None,
) -> GroupResult[HostSnapshot]:
    """Inspect all hosts in parallel; `cuda`: CUDA requirements by host and role, of default images without it."""
    needs = {host.name: DEFAULTS for host in hosts} | dict(cuda or {})
    return on_every_host(
        hosts, lambda host: inspect_host(connections.to(host), host, needed[host.name], needs[host.name])
    )


def refuse_locked(snapshots: Mapping[str, HostSnapshot]) -> None:
    """Raises HostFailedError where a host is locked."""
    if locks := [refusal(name, each.lock) for name, each in snapshots.items() if each.lock is not None]:
        raise HostFailedError("\n".join([*locks, "nothing was changed"]))


def unfit_hosts(hosts: Sequence[Host], snapshots: GroupResult[HostSnapshot]) -> list[str]:
    """Hosts that cannot get a release: unreachable, or blocked by the preflight."""
    return [
        host.name
        for host in hosts
        if host.name in snapshots.failed
        or has_failures(snapshots.succeeded[host.name].host_report.findings, services=(EXPORTER, *host.roles))
    ]


def plan_hosts(
    hosts: Sequence[Host],
    connections: Connections,
    snapshots: Mapping[str, HostSnapshot],
    needed: Images,
    compose: Path,
    checksums: ChecksumCache | None = None,
) -> GroupResult[PlannedRelease]:
    """Plan the changes of each host; changes nothing. `compose` is the folder of the compose files."""
    kept = checksums or ChecksumCache()
    releases: dict[str, Release] = {}
    failed: dict[str, FleetError] = {}
    for host in hosts:
        snapshot = snapshots[host.name]
        try:
            inputs = read_inputs(host, snapshot.login_info, compose, needed[host.name], kept)
            releases[host.name] = render(host, snapshot.host_report.assignment, snapshot.login_info, inputs)
        except FleetError as error:
            failed[host.name] = error

    def compare(host: Host) -> PlannedRelease:
        release = releases[host.name]
        return PlannedRelease(release, plan_change(release, read_host(connections.to(host), host, release)))

    compared = on_every_host([host for host in hosts if host.name in releases], compare)
    return GroupResult(compared.succeeded, {**failed, **compared.failed})


def read_host(session: Session, host: Host, release: Release) -> HostState:
    """State of the host, compared with its release. Raises HostFailedError."""
    return read_state(session, host.name, release.id, endpoints(manifest_of(release)))


@dataclass(frozen=True, slots=True)
class RolloutTask:
    """Deploy or rollback of several hosts."""

    what: str  # "deploy", "rollback": for lock, audit log and silence
    replan: Callable[[Host, Session], ChangePlan]  # plans again under the lock
    batch: int = 4


def run_rollout(
    hosts: Sequence[Host], connections: Connections, task: RolloutTask, context: RolloutContext
) -> Iterator[Outcome]:
    """Lock the hosts, plan again, apply wave by wave; yields the outcomes.

    Raises FleetError, with nothing changed, where a host cannot be locked or read.
    """
    with all_locked(hosts, connections, task.what):
        now = on_every_host(hosts, lambda host: _replan_on(host, connections.to(host), task, context))
        if now.failed:
            raise _combined(now.failed)
        busy = [host for host in hosts if _busy(*now.succeeded[host.name]) and not context.drain]
        free = [host for host in hosts if host not in busy]

        def work(wave: Sequence[Host]) -> Sequence[Outcome]:
            return _wave(wave, connections, now.succeeded, task, context)

        yield from work(busy)
        yield from roll(waves(free, task.batch), work, lambda: not context.cancellation.asked)


@contextmanager
def all_locked(hosts: Sequence[Host], connections: Connections, what: str) -> Iterator[None]:
    """Holds the locks of all hosts. Raises FleetError, holding none, where one is taken."""
    locks = {host.name: ExitStack() for host in hosts}

    def take(host: Host) -> None:
        session = connections.to(host)
        locks[host.name].enter_context(locked(session, host.name, what))

    try:
        # The first host alone: of two rollouts of the same hosts one gets all locks.
        for part in (hosts[:1], hosts[1:]):
            if refused := on_every_host(part, take).failed:
                raise _combined(refused)
        yield
    finally:
        on_every_host(hosts, lambda host: locks[host.name].close())


def _replan_on(
    host: Host, session: Session, task: RolloutTask, context: RolloutContext
) -> tuple[ChangePlan, Sequence[Any]]:
    return task.replan(host, session), context.runs.active(session)


def _busy(found: ChangePlan, active: Sequence[Any]) -> bool:
    """True where the host has active runs and needs a change."""
    return bool(active) and not found.nothing


def _wave(
    wave: Sequence[Host],
    connections: Connections,
    now: Mapping[str, tuple[ChangePlan, Sequence[Any]]],
    task: RolloutTask,
    context: RolloutContext,
) -> Sequence[Outcome]:
    def act(host: Host) -> Outcome:
        found, active = now[host.name]
        began = time.monotonic()
        if found.nothing and not (context.drain and context.runs.waiting(connections.to(host))):
            # Changed by another rollout before the lock was taken.
            return Outcome(host.name, "unchanged", found.current or "", found.manifest.id)
        outcome = apply(host.name, connections.to(host), found, active, context, what=task.what)
        log.info("%s: %s", host.name, outcome.result)
        return replace(outcome, seconds=time.monotonic() - began)

    if not wave:
        return ()
    done = on_every_host(wave, act, parallel=len(wave))
    return [
        done.succeeded[host.name]
        if host.name in done.succeeded
        else Outcome(host.name, "failed", note=str(done.failed[host.name]))
        for host in wave
    ]


def _combined(errors: Mapping[str, FleetError]) -> FleetError:
    """One error for several hosts."""
    text = "\n".join(str(error) for error in errors.values())
    return HostFailedError(f"{text}\nnothing was changed")
