"""Metric of a cluster's node: up only where it has joined and its head can be reached."""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from eventually import PATIENCE, eventually
from prometheus_client import CollectorRegistry, generate_latest

from voxyard.speech.cluster.access import ClusterAccess
from voxyard.speech.cluster.node import Node, NodeSpec
from voxyard.speech.cluster.node_metrics import NodeMetrics, serve_metrics
from voxyard.speech.cluster.ports import node_ports


@pytest.fixture
def head() -> Iterator[socket.socket]:
    """A listener in the place of a head's control store."""

    def accept_until_closed() -> None:
        with suppress(OSError):
            while True:
                listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept_until_closed, daemon=True).start()
        yield listener


def node_that_prints(head: socket.socket, text: str, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr("voxyard.speech.cluster.node._LOOK_SECONDS", 0.2)
    monkeypatch.setattr(NodeSpec, "command", lambda *_: ["sh", "-c", f"echo {text}; exec sleep 600"])
    access = ClusterAccess("127.0.0.1", head.getsockname()[1], None)
    return Node(NodeSpec("worker", access, "127.0.0.1", "host"))


def up(node: Node) -> bool:
    registry = CollectorRegistry()
    registry.register(NodeMetrics(node))
    return 'voxyard_cluster_node_up{role="worker"} 1.0' in generate_latest(registry).decode()


def until(node: Node, expected: bool) -> None:
    eventually(lambda: up(node) is expected)


def test_a_node_is_up_while_it_has_joined_and_reaches_its_head(
    head: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node_that_prints(head, "Ray runtime started.", monkeypatch) as node:
        node.start()
        until(node, True)
        head.shutdown(socket.SHUT_RDWR)
        head.close()
        until(node, False)


def test_a_node_that_still_waits_for_its_head_is_down(head: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    with node_that_prints(head, "waiting", monkeypatch) as node:
        node.start()
        time.sleep(1.0)
        assert not up(node)


def test_a_node_is_ready_once_it_has_joined_and_alive_before(
    head: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(page: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{page}", timeout=PATIENCE) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code

    anywhere = replace(node_ports("worker"), own_metrics=0)
    monkeypatch.setattr("voxyard.speech.cluster.node_metrics.node_ports", lambda _: anywhere)
    with node_that_prints(head, "Ray runtime started.", monkeypatch) as node, serve_metrics(node) as server:
        assert (answer("/healthz"), answer("/readyz")) == (200, 503)
        node.start()
        until(node, True)
        assert answer("/readyz") == 200
