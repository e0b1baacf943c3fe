"""Ray clusters of the inventory: roles `head` and `worker`, and the speech service that works on their GPUs."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol, TypeVar

from fleet.inventory.listeners import Listener
from fleet.inventory.types import Address, Matching, Word, is_ip
from voxyard.speech.cluster.access import private_address
from voxyard.speech.cluster.ports import HEAD_PORT, Role, node_ports
from voxyard.speech.errors import SpeechError

HEAD: Final = "head"
WORKER: Final = "worker"
BARK: Final = "bark"
_NODES: Mapping[str, tuple[Role, str]] = {
    HEAD: ("head", "the cluster's head"),
    WORKER: ("worker", "the cluster's worker"),
    BARK: ("service", "the speech service in the cluster"),
}
"""Ray's role of each of ours, and its listener's name."""


_PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
RedisAddress = Annotated[
    str, Matching(rf"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):{_PORT}", "HOST:PORT of a Redis")
]


@dataclass(frozen=True, slots=True)
class RayNode:
    """Place of one host in a Ray cluster."""

    cluster: Word | None = None  # name that its hosts have in common; None: the host is in none
    address: Address | None = None  # private address in it; None: that of the SSH login in the inventory
    redis: RedisAddress | None = None  # of its head, whose state it keeps; None: that ends with the head


class ClusterMember(Protocol):
    """Of a host of the inventory, what is read here."""

    @property
    def name(self) -> str:
        """Name."""

    @property
    def roles(self) -> Sequence[str]:
        """Roles."""

    @property
    def ray(self) -> RayNode:
        """Its place in a cluster."""

    @property
    def ray_roles(self) -> Sequence[str]:
        """Its services with a node in the cluster."""

    @property
    def ray_address(self) -> str:
        """Its address there."""

    @property
    def bark(self) -> Any:
        """Settings of speech: weights, voices, settings by section."""


M = TypeVar("M", bound=ClusterMember)


def ray_listeners(roles: Iterable[str]) -> Iterator[Listener]:
    """Listeners of nodes of these roles but those of Ray's own workers."""
    for role in roles:
        node, listener = _NODES[role]
        ports = node_ports(node)
        named = {"control store": HEAD_PORT} if node == "head" else {}
        named |= {
            "object manager": ports.object_manager,
            "node manager": ports.node_manager,
            "runtime agent": ports.runtime_env_agent,
            "agent": ports.agent_grpc,
        }
        if node != "service":  # its metrics are those of the speech service
            named["metrics"] = ports.own_metrics
        yield from (Listener(f"{listener} ({what})", role, port) for what, port in named.items())


def members(hosts: Iterable[M]) -> dict[str, list[M]]:
    """Hosts with a node in a cluster, by the cluster's name."""
    found: dict[str, list[M]] = {}
    for host in hosts:
        if host.ray.cluster is not None and host.ray_roles:
            found.setdefault(host.ray.cluster, []).append(host)
    return found


def head_addresses(hosts: Iterable[ClusterMember]) -> Mapping[str | None, str]:
    """Address of the head of each cluster, by its name."""
    return {host.ray.cluster: host.ray_address for host in hosts if HEAD in host.roles}


def ray_problems(hosts: Sequence[ClusterMember]) -> Iterator[tuple[str, str]]:
    """Reasons why a cluster cannot work: host and key, and a sentence."""
    for host in hosts:
        where = f"hosts.{host.name}"
        alone = next((role for role in (HEAD, WORKER) if role in host.roles), None)
        if alone is not None and host.ray.cluster is None:
            yield f"{where}.roles", f"a {alone} of no cluster: set ray.cluster, the same name on all hosts of one"
        if WORKER in host.roles and "trainer" in host.roles:
            yield f"{where}.roles", "a worker takes the GPUs of its host: give the trainer a host of its own"
        if host.ray_roles:
            yield from _address_problems(host)
    for name, those in members(hosts).items():
        yield from _together(name, those)


def _address_problems(host: ClusterMember) -> Iterator[tuple[str, str]]:
    where, address = f"hosts.{host.name}.ray.address", host.ray_address
    if not is_ip(address):
        yield where, f"the host is {address}: name its private IP address in the cluster, such as 10.0.0.1"
        return
    try:
        private_address(address)
    except SpeechError as error:
        yield where, str(error)
        return
    if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        yield where, f"{address} is out of the reach of the cluster's other hosts: name a private address"


def _together(name: str, those: Sequence[ClusterMember]) -> Iterator[tuple[str, str]]:
    heads = [host for host in those if HEAD in host.roles]
    workers = [host for host in those if WORKER in host.roles]
    services = [host for host in those if BARK in host.roles]
    first = f"hosts.{those[0].name}.ray.cluster"
    if not heads:
        yield first, f"the cluster {name} has no head: add the role head to one of its hosts"
    if not workers:
        yield first, f"the cluster {name} has no workers: add the role worker to its hosts with GPUs"
    for found, what in ((heads, "head"), (services, "speech service")):
        for other in found[1:]:
            yield f"hosts.{other.name}.roles", f"{found[0].name} has the {what} of the cluster {name}: one a cluster"
    weights = [host for host in those if WORKER in host.roles or BARK in host.roles]
    for key in ("weights", "voices"):
        for other in weights[1:]:
            if getattr(other.bark, key) != getattr(weights[0].bark, key):
                said = f"{weights[0].name}, of the same cluster, has other {key}: name one directory on all its hosts"
                yield f"hosts.{other.name}.bark.{key}", said
    for host in services:
        if host.bark.settings.get("speech", {}).get("enable_parallel_tts") is False:
            said = "one worker and one chunk at a time need no cluster: remove it, or take the host out of the cluster"
            yield f"hosts.{host.name}.bark.settings.speech.enable_parallel_tts", said
