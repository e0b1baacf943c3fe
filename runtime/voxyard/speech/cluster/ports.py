"""Ports of a cluster's nodes: fixed, so that a firewall can be told of them, and apart for roles that share a host."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import Literal

HEAD_PORT = 6379  # of the head's control store (GCS)
_APART = 100  # between the ports of two roles

Role = Literal["worker", "head", "service"]
ROLES: tuple[Role, ...] = ("worker", "head", "service")


@dataclass(frozen=True)
class NodePorts:
    """Ports of one Ray node (raylet, its agents, its worker processes)."""

    object_manager: int
    node_manager: int
    runtime_env_agent: int
    agent_grpc: int
    agent_http: int
    metrics: int  # of Ray, where its dashboard agent is installed
    own_metrics: int
    first_worker: int
    last_worker: int

    @property
    def single(self) -> tuple[int, ...]:
        """The ports of the node's own processes."""
        return (
            self.object_manager, self.node_manager, self.runtime_env_agent,
            self.agent_grpc, self.agent_http, self.metrics, self.own_metrics,
        )  # fmt: skip


def node_ports(role: Role) -> NodePorts:
    """Ports of a role's node."""
    first = ROLES.index(role) * _APART
    return NodePorts(
        object_manager=8076 + first,
        node_manager=8077 + first,
        runtime_env_agent=8078 + first,
        agent_grpc=8079 + first,
        agent_http=8082 + first,
        metrics=8083 + first,
        own_metrics=8084 + first,
        first_worker=18000 + first,
        last_worker=18099 + first,
    )


def busy_ports(address: str, role: Role, control_store: int = HEAD_PORT) -> list[int]:
    """Ports of a role (the head's with its control store) on which another process listens at this address."""
    wanted = [*([control_store] if role == "head" else []), *node_ports(role).single]
    return [port for port in wanted if not _free(address, port)]


def _free(address: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True
