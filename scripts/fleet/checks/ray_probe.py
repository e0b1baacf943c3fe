"""Connections to a Ray cluster: to its head from its hosts, over SSH, and to the ports of each from this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fleet.facts.fact import Unknown
from fleet.facts.ray_reach import RayReach, Reach, head_fact
from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import HEAD, ray_listeners
from fleet.ssh.connection_pool import Session
from voxyard.speech.cluster.ports import HEAD_PORT

SECONDS = 3.0


def look(session: Session, host: Host, connect: Callable[[str, int], Reach] | None = None) -> RayReach | None:
    """Try the connections; None for a host that is in no cluster. `connect` tries one from this machine."""
    if not host.ray_roles:
        return None
    head: Reach | Unknown | None = None
    if HEAD not in host.roles and host.ray_head is not None:
        fact = head_fact(host.ray_head, HEAD_PORT)
        head = fact.among(session.run([fact.command]))
    ports = private_ports(host)
    with ThreadPoolExecutor(len(ports)) as tried:
        found = tried.map(lambda port: (connect or reach)(host.ray_address, port), ports)
        return RayReach(head, dict(zip(ports, found, strict=True)))


def private_ports(host: Host) -> tuple[int, ...]:
    """Ports of the host's nodes that only its cluster may reach; those of metrics are Prometheus's, too."""
    return tuple(each.port for each in ray_listeners(host.ray_roles) if not each.what.endswith("(metrics)"))


def reach(address: str, port: int) -> Reach:
    """Try a connection from this machine, which is closed at once: nothing is asked over it."""
    try:
        with socket.create_connection((address, port), timeout=SECONDS) as made:
            return "self" if made.getsockname()[0] == made.getpeername()[0] else "open"
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "silent"
    except OSError:
        return "none"
