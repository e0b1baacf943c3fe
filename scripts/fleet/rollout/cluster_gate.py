"""Gate of a Ray cluster: after the last of its hosts in a rollout it lists all of them, and its service is ready."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.errors import HostFailedError
from fleet.facts.fact import known
from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import BARK, WORKER, members
from fleet.release.manifest import ServiceEntry
from fleet.release.ray_nodes import head_address
from fleet.rollout import commands
from fleet.rollout.change_plan import ChangePlan
from fleet.rollout.context import Cancellation, RolloutContext
from fleet.rollout.host_state import CONTAINERS, container_of, endpoint
from fleet.ssh.command_batch import Answer
from fleet.ssh.connection_pool import Connections, Session
from fleet.ssh.verbs import wait_until

SECONDS = 180
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
    command = commands.cluster_status(asking.id, gate.head, gate.workers)
    problem = wait_until(lambda: _problem(session.run([command])[command.name]), SECONDS, cancellation, _POLL_SECONDS)
    if problem is not None:
        raise HostFailedError(
            f"{host}: the cluster {gate.cluster} is not complete after {SECONDS} s: {problem}: see the logs of its "
            "worker and its head, and that its ports are open between its hosts"
        )
    return f"the cluster {gate.cluster} has {', '.join(gate.workers)}"


def wait_until_ready(host: str, session: Session, service: ServiceEntry, cancellation: Cancellation) -> None:
    """Wait until the speech service of a complete cluster is ready. Raises HostFailedError where it is not in time."""
    watched = endpoint(service)
    problem = wait_until(
        lambda: watched.problem(session.run(watched.probes)), service.healthy_seconds, cancellation, _POLL_SECONDS
    )
    if problem is not None:
        raise HostFailedError(
            f"{host}: {service.name} is not ready {service.healthy_seconds} s after its cluster was complete: "
            f"{problem}: see its log, which says why workers are refused"
        )


def _problem(answer: Answer) -> str | None:
    """Missing hosts and devices in words, by the answer of `voxyard cluster status --json`; None where nothing is."""
    try:
        missing = json.loads(answer.out)["missing"]
    except (ValueError, LookupError, TypeError):
        return f"`voxyard cluster status` fails: {answer.message or ' '.join(answer.out.split())[-300:]}"
    return f"{', '.join(missing)} missing" if missing else None
