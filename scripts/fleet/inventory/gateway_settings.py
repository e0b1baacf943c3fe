"""Gateway settings of the inventory, and the speech services that a gateway leads to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from fleet.inventory.types import Address, Between, Port, is_loopback

if TYPE_CHECKING:
    from fleet.inventory.hosts import Host

LAME_DUCK_SECONDS = 10
"""Time in which a speech service that is to stop still accepts requests: longer than a gateway takes to notice."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """TLS gateway of one host."""

    port: Port = 443
    address: Address | None = None  # it listens on; None: the address of the SSH login
    metrics_port: Port = 9412
    wait_seconds: Annotated[int, Between("seconds", 1, 3600)] = 180  # for a host that restarts


@dataclass(frozen=True, slots=True)
class Upstream:
    """Speech service behind a gateway."""

    name: str  # of its host, which is the instance of the service
    address: str
    port: int


def with_upstreams(hosts: Iterable[Host]) -> tuple[Host, ...]:
    """The hosts, each gateway with all speech services, and these with the fact that they are behind one."""
    hosts = tuple(hosts)
    if not any("gateway" in host.roles for host in hosts):
        return hosts
    found = tuple(
        Upstream(host.name, host.bark.address or host.address, host.bark.port) for host in hosts if "bark" in host.roles
    )
    return tuple(
        replace(host, upstreams=found if "gateway" in host.roles else (), behind_gateway="bark" in host.roles)
        for host in hosts
    )


def problems(hosts: Iterable[Host]) -> Iterable[tuple[str, str]]:
    """Reasons why a gateway cannot work: host and key, and a sentence."""
    hosts = tuple(hosts)
    for host in hosts:
        if "gateway" in host.roles and not host.upstreams:
            yield f"hosts.{host.name}.roles", "a gateway, and no host has the role bark: add it to one, or remove this"
        if host.behind_gateway and host.bark.address is not None and is_loopback(host.bark.address):
            said = f"{host.bark.address} is out of a gateway's reach: remove it, or name an address of the network"
            yield f"hosts.{host.name}.bark.address", said
