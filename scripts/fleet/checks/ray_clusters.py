"""Preflight checks of Ray clusters: their ports, who reaches them, one image and one token on all their hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fleet.checks import ray_probe
from fleet.checks.finding import BARK, Finding
from fleet.errors import FleetError
from fleet.facts.fact import Unknown, known
from fleet.facts.host import HostFacts
from fleet.facts.ray_reach import Reach
from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import HEAD, WORKER, members
from fleet.inventory.secrets import CLUSTER_TOKEN, place, read_all
from fleet.ssh.connection_pool import Session
from voxyard.speech.cluster.ports import HEAD_PORT

SERVICES = (HEAD, WORKER, BARK)
OPEN_BETWEEN = "6379, 8076-8079, 8176-8179, 8276-8279 and 18000-18299"
"""Ports that the hosts of a cluster need of each other, and nobody else."""


def with_ray_reach(session: Session, facts: HostFacts, host: Host) -> HostFacts:
    """Facts with the connections to the host's cluster that were tried."""
    return replace(facts, ray_reach=ray_probe.look(session, host))


def check_all(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """Check: the host reaches the head of its cluster, and this machine reaches none of its ports."""
    found = facts.ray_reach
    if found is None:
        return
    if found.head is not None:
        yield from _head(found.head, host)
    running = {each.service for each in known(facts.containers, ()) if each.state == "running"}
    yield from _from_here(found.from_here, host, running=set(host.ray_roles) <= running)


def between(hosts: Sequence[Host], facts: Mapping[str, HostFacts]) -> Mapping[str, tuple[Finding, ...]]:
    """Findings by host where hosts of one cluster differ: the image that runs, the token."""
    found: dict[str, tuple[Finding, ...]] = {}
    for together in members(hosts).values():
        for host in together[1:]:
            first = together[0]
            if differences := (*_images(first, host, facts), *_tokens(first, host)):
                found[host.name] = differences
    return found


def _head(head: Reach | Unknown, host: Host) -> Iterator[Finding]:
    where = f"{host.ray_head}:{HEAD_PORT}"
    if isinstance(head, Unknown):
        said = f"whether the host reaches the head {where} is not known: {head.reason}"
        yield Finding("WARN", "ray", said, "log in and try: nc -zv ADDRESS 6379", services=SERVICES)
    elif head == "refused":
        said = f"the head {where} is reached, and nothing listens there"
        yield Finding("INFO", "ray", said, "none before the first deploy: it deploys the head first")
    elif head != "open":
        said = f"the host does not reach the head of its cluster, {where}"
        remedy = f"open TCP ports {OPEN_BETWEEN} between the hosts of the cluster, or correct ray.address of the head"
        yield Finding("FAIL", "ray", said, remedy, services=SERVICES)
    else:
        yield Finding("INFO", "ray", f"the host reaches the head of its cluster, {where}", "none")


def _from_here(reached: Mapping[int, Reach], host: Host, *, running: bool) -> Iterator[Finding]:
    opened = [str(port) for port, how in reached.items() if how == "open"]
    refused = [str(port) for port, how in reached.items() if how == "refused"]
    address = host.ray_address
    if opened:
        said = f"this machine reaches the cluster's ports {', '.join(opened)} of {address}: so may others"
        remedy = (
            f"close TCP ports {OPEN_BETWEEN} there to all but the hosts of the cluster: who reaches them may run code"
        )
        yield Finding("FAIL", "ray", said, remedy, services=SERVICES)
    elif "self" in reached.values():
        said = f"{address} is this machine: whether others reach its cluster's ports was not tried"
        yield Finding("WARN", "ray", said, "run this check from a machine outside of the cluster")
    elif refused and not running:
        said = f"nothing listens on the cluster's ports of {address} yet: whether they are closed is not known"
        yield Finding("INFO", "ray", said, "none: check again after the first deploy")
    elif reached:
        yield Finding("INFO", "ray", f"this machine does not reach the cluster's ports of {address}", "none")


def _images(first: Host, host: Host, facts: Mapping[str, HostFacts]) -> Iterator[Finding]:
    ours, theirs = (_running(facts[each.name]) for each in (host, first))
    if ours and theirs and ours != theirs:
        said = f"another image of Bark runs than on {first.name}, of the same cluster, which refuses its workers"
        yield Finding("WARN", "ray", said, f"deploy all hosts of the cluster {host.ray.cluster}")


def _running(facts: HostFacts) -> set[str]:
    containers = known(facts.containers, ())
    return {each.image_id for each in containers if each.service in SERVICES and each.state == "running"}


def _tokens(first: Host, host: Host) -> Iterator[Finding]:
    try:
        values = [read_all(each.secrets).values.get(CLUSTER_TOKEN) for each in (first, host)]
    except FleetError:  # which the check of certificates reports
        return
    if values[0] != values[1]:
        said = f"{CLUSTER_TOKEN} is another than that of {first.name}, of the same cluster"
        yield Finding("FAIL", "secrets", said, f"give both the same: {place(host.secrets)}", services=SERVICES)
