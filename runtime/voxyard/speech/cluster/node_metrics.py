"""Metrics of a cluster's node, which Ray without its dashboard agent does not serve: whether it has joined."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from voxyard.speech.cluster.node import Node
from voxyard.speech.cluster.ports import node_ports
from voxyard.telemetry.server import MetricsServer, serve


class NodeMetrics(Collector):
    """Metric `voxyard_cluster_node_up` of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterable[Metric]:
        """Current values."""
        joined = GaugeMetricFamily(
            "voxyard_cluster_node_up", "The node has joined its cluster, and reaches its head.", labels=["role"]
        )
        joined.add_metric([self._node.spec.role], float(self._node.joined))
        yield joined


def serve_metrics(node: Node) -> MetricsServer:
    """Serves `/metrics` of a node on its address, and `/readyz`, 200 once it has joined; until closed.

    Raises TelemetryError.
    """

    def ready() -> tuple[bool, str]:
        return node.joined, "joined" if node.joined else "not joined, or its head is out of reach"

    registry = CollectorRegistry()
    registry.register(NodeMetrics(node))
    return serve(registry, node.spec.address, node_ports(node.spec.role).own_metrics, ready=ready)
