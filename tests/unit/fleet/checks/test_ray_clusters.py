"""Preflight of Ray clusters: who reaches what, and that the hosts of one are alike."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import RecordingSession, blocked, container, facts, host

from fleet.checks.preflight import ports
from fleet.checks.ray_clusters import between, check_all
from fleet.checks.ray_probe import look, private_ports, reach
from fleet.facts.fact import Unknown
from fleet.facts.ray_reach import RayReach, Reach
from fleet.inventory.hosts import Host, Role
from fleet.inventory.ray_clusters import RayNode
from fleet.ssh.command_batch import Answer, Command, verb


def member(name: str = "gpu-01", *roles: Role, **more: Any) -> Host:
    found = {"ray": RayNode("lab", "10.0.0.2"), "ray_head": "10.0.0.1", **more}
    return host(name=name, roles=roles or ("worker",), **found)


@pytest.mark.parametrize(
    ("head", "level", "said"),
    [
        ("open", "INFO", "the host reaches the head of its cluster, 10.0.0.1:6379"),
        ("refused", "INFO", "nothing listens there"),
        ("silent", "FAIL", "does not reach the head of its cluster, 10.0.0.1:6379"),
        ("none", "FAIL", "does not reach the head"),
        (Unknown("timed out"), "WARN", "is not known: timed out"),
    ],
)
def test_the_head_must_be_within_reach(head: Any, level: str, said: str) -> None:
    (found,) = check_all(facts(ray_reach=RayReach(head)), member())
    assert (found.level, said in found.found) == (level, True)
    assert ("open TCP ports 6379, 8076-8079" in found.remedy) == (level == "FAIL")
    assert blocked([found]) == ({"head", "worker", "bark"} if level == "FAIL" else set())


@pytest.mark.parametrize(
    ("reached", "running", "level", "said"),
    [
        ({8076: "open", 8077: "silent"}, True, "FAIL", "this machine reaches the cluster's ports 8076 of 10.0.0.2"),
        ({8076: "refused", 8077: "refused"}, False, "INFO", "nothing listens on the cluster's ports of 10.0.0.2 yet"),
        ({8076: "refused", 8077: "refused"}, True, "INFO", "this machine does not reach"),
        ({8076: "silent", 8077: "silent"}, False, "INFO", "this machine does not reach"),
        ({8076: "self", 8077: "refused"}, True, "WARN", "is this machine"),
    ],
)
def test_the_operators_machine_must_not_reach_a_port(
    reached: Mapping[int, Reach], running: bool, level: str, said: str
) -> None:
    there = facts(ray_reach=RayReach(None, reached), containers=(container(service="worker"),) if running else ())
    (found,) = check_all(there, member())
    assert (found.level, found.check, said in found.found) == (level, "ray", True)
    assert ("close TCP ports 6379, 8076-8079" in found.remedy) == (level == "FAIL")


def test_connections_are_tried_from_the_host_to_the_head_and_from_here_to_the_host() -> None:
    session = RecordingSession({"ray-head": Answer("silent\n")})
    tried: list[tuple[str, int]] = []

    def connect(address: str, port: int) -> Reach:
        tried.append((address, port))
        return "refused"

    found = look(session, member(), connect)
    assert found == RayReach("silent", dict.fromkeys((8076, 8077, 8078, 8079), "refused"))
    assert session.texts["ray-head"].endswith("fact_reach 10.0.0.1 6379")
    assert {address for address, _ in tried} == {"10.0.0.2"}
    quiet = RecordingSession()
    assert look(quiet, host(), connect) is None
    on_head = look(quiet, member("head", "head"), connect)
    assert on_head is not None
    assert (on_head.head, 6379 in on_head.from_here, quiet.asked) == (None, True, [])
    assert 8184 not in private_ports(member("head", "head"))  # metrics: Prometheus's, too


def test_a_connection_tells_open_from_refused_here_and_on_a_host(tmp_path: Path) -> None:
    def from_a_host(port: int) -> str:
        shell = Command("x", verb("fact_reach", "127.0.0.1", str(port))).shell
        home = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        return subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True, env=home).stdout.strip()

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert reach("127.0.0.1", port) == "self"  # both ends have one address
        assert from_a_host(port) == "open"
    assert reach("127.0.0.1", port) == "refused"
    assert from_a_host(port) == "refused"


def test_a_foreign_process_on_a_nodes_port_blocks_that_node() -> None:
    (found,) = ports(facts(ports=frozenset({8077})), member())
    assert (found.level, "port 8077, for the cluster's worker (node manager)" in found.found) == ("FAIL", True)
    assert blocked([found]) == {"worker"}
    ours = container(service="worker", ports=(), host_network=True)
    assert list(ports(facts(ports=frozenset({8077}), containers=(ours,)), member())) == []


def test_hosts_of_one_cluster_have_one_token_and_one_image(tmp_path: Path) -> None:
    def with_token(name: str, token: str) -> Host:
        path = tmp_path / f"{name}.yaml"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump({"cluster-token": token * 40}))
        return member(name, secrets=(path,))

    hosts = [with_token("a", "x"), with_token("b", "x"), with_token("c", "y")]
    image = {"a": "sha256:11", "b": "sha256:22", "c": "sha256:11"}
    known = {name: facts(containers=(container(service="worker", image_id=each),)) for name, each in image.items()}
    found = between(hosts, known)
    assert {name: [(each.level, each.check) for each in those] for name, those in found.items()} == {
        "b": [("WARN", "ray")], "c": [("FAIL", "secrets")],
    }  # fmt: skip
    assert "another image of Bark runs than on a" in found["b"][0].found
    assert "yyyy" not in str(found)
