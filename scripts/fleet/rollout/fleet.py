"""Rollout over several hosts: inspect, plan; then lock, plan again, apply in waves."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fleet.checks.finding import TRAINER
from fleet.errors import FleetError, HostFailedError
from fleet.gateway.part import gateway_part
from fleet.images.cuda import DEFAULTS, CudaNeed
from fleet.images.image import LocalImage
from fleet.images.third_party import GATEWAY, MONITORING
from fleet.images.wanted import wanted_image
from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import BARK, HEAD, WORKER, members
from fleet.lock import HostLockedError, locked
from fleet.release.artefact import ChecksumCache
from fleet.release.custom import custom_part
from fleet.release.inputs import ReleaseInputs
from fleet.release.manifest import manifest_of
from fleet.release.ray_nodes import ray_part
from fleet.release.release import Release, read_inputs, render, wanted_images
from fleet.release.service import RolePart
from fleet.rollout.apply import apply
from fleet.rollout.change_plan import ChangePlan, plan_change
from fleet.rollout.commands import EXPORTER
from fleet.rollout.context import Outcome, RolloutContext
from fleet.rollout.fitness import HostSnapshot, inspect_host, withheld_services, without
from fleet.rollout.health_gate import with_cluster_gates
from fleet.rollout.host_state import read_state
from fleet.ssh.connection_pool import Connections, GroupResult, Session, on_every_host

log = logging.getLogger("fleet")


def waves(hosts: Sequence[Host], batch: int) -> list[tuple[Host, ...]]:
    """Waves of hosts, in rollout order; the hosts of a wave are changed in parallel.

    Heads of Ray clusters come first, speech services on clusters last; of each of these parts its canaries first.
    """
    found: list[tuple[Host, ...]] = []
    for group in _groups(hosts):
        first = _canaries(group)
        rest = [host for host in group if host not in first]
        found += [(host,) for host in first]
        found += [tuple(rest[at : at + batch]) for at in range(0, len(rest), batch)]
    return found


def canaries(hosts: Sequence[Host]) -> list[Host]:
    """Canary of each role.

    It is the host marked in the inventory, else a canary of another role, else the first host with the role; of hosts
    that have to wait for others, see `waves`, each part has its own.
    """
    return [host for group in _groups(hosts) for host in _canaries(group)]


def _groups(hosts: Sequence[Host]) -> list[list[Host]]:
    """Hosts in the order of Ray clusters: heads, then workers and all hosts of no cluster, then speech services."""
    heads = [host for host in hosts if HEAD in host.roles]
    last = [host for host in hosts if BARK in host.ray_roles and HEAD not in host.roles]
    return [heads, [host for host in hosts if host not in heads and host not in last], last]


def _canaries(hosts: Sequence[Host]) -> list[Host]:
    all_roles = dict.fromkeys(role for host in hosts for role in roles(host))
    found: list[Host] = []
    for role in all_roles:
        named = [host for host in hosts if host.canary and role in roles(host)]
        found += [host for host in named[:1] if host not in found]
    for role in all_roles:
        if not any(role in roles(host) for host in found):
            found.append(next(host for host in hosts if role in roles(host)))
    return found


def roles(host: Host) -> tuple[str, ...]:
    """Roles of a host; the exporter for a host without roles."""
    return host.roles or (EXPORTER,)


def roll(
    order: Sequence[Sequence[Host]],
    work: Callable[[Sequence[Host]], Sequence[Outcome]],
    may_continue: Callable[[], bool],
    *,
    canaries: Collection[str] = (),
    max_failed: int = 0,
) -> Iterator[Outcome]:
    """Run the waves in order.

    After a failed canary (of the names in `canaries`), after more than `max_failed` failed hosts, or when
    `may_continue` is false, the rest is not touched.
    """
    failed: list[str] = []
    reason = ""
    for wave in order:
        if reason or not may_continue():
            yield from (Outcome(host.name, "not touched", note=reason) for host in wave)
            continue
        for outcome in work(wave):
            failed += [outcome.host] if outcome.failed else []
            yield outcome
            if outcome.result == "interrupted":
                reason = reason or "the rollout was interrupted"
        if broken := [name for name in failed if name in canaries]:
            reason = f"the canary {', '.join(broken)} failed"
        elif len(failed) > max_failed:
            reason = reason or f"failed: {', '.join(failed)}; rollout.max_failed allows {max_failed} of these hosts"


Images = Mapping[str, Mapping[str, LocalImage]]  # by host, then by role


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """Release and planned change of one host."""

    host: Host  # without the roles that the preflight keeps from the release
    release: Release
    change: ChangePlan
    withheld: Mapping[str, str] = field(default_factory=dict)  # services that it keeps, with the reasons


def find_images(hosts: Sequence[Host], references: Mapping[str, str], root: Path) -> Images:
    """Images that each host needs, by the sources of the repository `root`; `references` names others, by role.

    Hosts with a registry get what was pushed there for the commit, others the last built ones. Raises FleetError.
    """
    found: dict[tuple[str, str | None], LocalImage] = {}
    for host in hosts:
        for role in wanted_images(host):
            if (role, host.registry) not in found:
                found[role, host.registry] = wanted_image(role, host.registry, references.get(role), root)
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


def plan_hosts(
    hosts: Sequence[Host],
    connections: Connections,
    snapshots: Mapping[str, HostSnapshot],
    needed: Images,
    compose: Path,
    checksums: ChecksumCache | None = None,
    parts: Mapping[str, Sequence[RolePart]] | None = None,
) -> GroupResult[PlannedRelease]:
    """Plan the changes of each host; changes nothing. `compose` is the folder of the compose files.

    `parts` are those of roles with files of their own, by host. The release of a host has no service that its
    preflight blocks.
    """
    cache = checksums or ChecksumCache()
    releases: dict[str, tuple[Release, Mapping[str, str]]] = {}
    failed: dict[str, FleetError] = {}
    for host in hosts:
        snapshot = snapshots[host.name]
        own = (parts or {}).get(host.name, ())
        left_out = set(MONITORING) - {each.name for part in own for each in part.services}  # by the operator's files
        blocked = withheld_services(host, snapshot.host_report.findings)
        withheld = {name: reason for name, reason in blocked.items() if name not in left_out}
        rendered = without(host, {TRAINER} & set(withheld))  # a run never starts with such a release
        try:
            _refuse_other_image(host, hosts, needed)
            inputs = read_inputs(rendered, snapshot.login_info, compose, needed[host.name], cache)
            every = (*_parts(rendered, snapshot, compose, needed[host.name], inputs, withheld), *own)
            inputs = replace(inputs, parts=every)
            assignment = snapshot.host_report.assignment
            release = render(rendered, assignment, snapshot.login_info, inputs, withheld=tuple(withheld))
            releases[host.name] = release, withheld
        except FleetError as error:
            failed[host.name] = error

    def compare(host: Host) -> PlannedRelease:
        release, withheld = releases[host.name]
        change = plan_change(release, read_state(connections.to(host), host.name, manifest_of(release)))
        return PlannedRelease(without(host, withheld), release, change, withheld)

    compared = on_every_host([host for host in hosts if host.name in releases], compare)
    return GroupResult(compared.succeeded, {**failed, **compared.failed})


def _parts(
    host: Host,
    snapshot: HostSnapshot,
    compose: Path,
    images: Mapping[str, LocalImage],
    inputs: ReleaseInputs,
    withheld: Collection[str],
) -> Iterator[RolePart]:
    login_info = snapshot.login_info
    if GATEWAY in host.roles:
        yield gateway_part(host, login_info, compose, images[GATEWAY])
    if {HEAD, WORKER} & set(host.roles):
        assignment = snapshot.host_report.assignment
        yield ray_part(host, login_info, compose, images[BARK], assignment, inputs.artefacts, withheld)
    if host.own_services:
        yield custom_part(host, images, snapshot.host_report.assignment, inputs.secrets, withheld)


def _refuse_other_image(host: Host, hosts: Sequence[Host], needed: Images) -> None:
    """Raises FleetError where the host gets another image of Bark than the first host of its Ray cluster."""
    for together in members(hosts).values():
        first = together[0]
        if host in together and needed[host.name][BARK].id != needed[first.name][BARK].id:
            raise FleetError(
                f"{host.name}: its image of Bark is not that of {first.name}, of the same cluster, which refuses "
                "another: give both the same registry, or name one image for both with --image bark=REFERENCE"
            )


@dataclass(frozen=True, slots=True)
class RolloutTask:
    """Deploy or rollback of several hosts."""

    what: str  # "deploy", "rollback": for lock, audit log and silence
    replan: Callable[[Host, Session], ChangePlan]  # plans again under the lock
    batch: int = 4
    max_failed: int = 0  # hosts that may fail before the rollout stops; a failed canary always stops it
    skip_unfit: bool = False  # go on without hosts that cannot be locked or read


def run_rollout(
    hosts: Sequence[Host], connections: Connections, task: RolloutTask, context: RolloutContext
) -> Iterator[Outcome]:
    """Lock the hosts, plan again, apply wave by wave; yields the outcomes.

    Raises FleetError, with nothing changed, where a host is locked, or, unless unfit hosts are to be skipped, cannot
    be locked or read.
    """
    with all_locked(hosts, connections, task.what, skip_unfit=task.skip_unfit) as unlockable:
        held = [host for host in hosts if host.name not in unlockable]
        now = on_every_host(held, lambda host: _replan_on(host, connections.to(host), task, context))
        if now.failed and not task.skip_unfit:
            raise _combined(now.failed)
        unfit = {**unlockable, **now.failed}
        busy = [host for host in held if host.name not in unfit and _busy(*now.succeeded[host.name])]
        busy = [] if context.drain else busy
        free = [host for host in held if host.name not in unfit and host not in busy]

        order = waves(free, task.batch)
        in_order = [host for wave in order for host in wave]
        changes = {host.name: now.succeeded[host.name][0] for host in in_order}
        gated = with_cluster_gates(context, in_order, changes, connections)

        def work(wave: Sequence[Host]) -> Sequence[Outcome]:
            return _wave(wave, connections, now.succeeded, task, gated)

        yield from (Outcome(name, "unfit", note=str(error)) for name, error in unfit.items())
        yield from work(busy)
        yield from roll(
            order,
            work,
            lambda: not context.cancellation.asked,
            canaries=[host.name for host in canaries(free)],
            max_failed=task.max_failed,
        )


@contextmanager
def all_locked(
    hosts: Sequence[Host], connections: Connections, what: str, *, skip_unfit: bool = False
) -> Iterator[Mapping[str, FleetError]]:
    """Holds the locks of all hosts. Raises FleetError, holding none, where one is taken.

    A host that cannot be locked for another reason raises, too, unless unfit hosts are to be skipped: then it is
    among those that the block is given, with the reason.
    """
    locks = {host.name: ExitStack() for host in hosts}
    unlockable: dict[str, FleetError] = {}

    def take(host: Host) -> None:
        session = connections.to(host)
        locks[host.name].enter_context(locked(session, host.name, what))

    try:
        # The first host alone: of two rollouts of the same hosts one gets all locks.
        waiting, first = list(hosts), True
        while waiting:
            part = waiting[:1] if first else waiting
            refused = on_every_host(part, take).failed
            if refused and not (skip_unfit and not any(isinstance(each, HostLockedError) for each in refused.values())):
                raise _combined(refused)
            unlockable |= refused
            waiting, first = waiting[len(part) :], first and bool(refused)
        yield unlockable
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
            return unchanged(host.name, found)
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


def unchanged(host: str, change: ChangePlan) -> Outcome:
    """Outcome of a host that needs no change."""
    kept = "\n".join(f"{name} is left as it is: the preflight blocks it" for name in change.manifest.withheld)
    return Outcome(host, "unchanged", change.current or "", change.manifest.id, kept, withheld=change.manifest.withheld)


def _combined(errors: Mapping[str, FleetError]) -> FleetError:
    """One error for several hosts."""
    text = "\n".join(str(error) for error in errors.values())
    return HostFailedError(f"{text}\nnothing was changed")
