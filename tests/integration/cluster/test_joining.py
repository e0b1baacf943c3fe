"""Hosts of a cluster by name: a second one of a name is refused, one that has gone is missing and may come back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eventually import PATIENCE
from running_cluster import ONE, SERVICE, TWO, VOXYARD, Cluster

from voxyard.speech.cluster.ports import node_ports


def status(cluster: Cluster, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of `voxyard cluster status --json`; an empty answer where there is none."""
    done = cluster.hosts.run(SERVICE, [VOXYARD, "cluster", "status", *cluster.access, "--json", *options])
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else {}


def test_a_second_host_of_a_name_is_refused_in_words(cluster: Cluster, tmp_path: Path) -> None:
    cluster.until(lambda: status(cluster, "--expect", "host1,host2")[0] == 0, "the hosts do not join")
    log = tmp_path / "join.log"
    join: list[str | Path] = [VOXYARD, "cluster", "join", *cluster.access, "--device", "cpu", "--name", "host1"]

    second = cluster.hosts.start(SERVICE, join, log)

    assert second.wait(PATIENCE) == 2, log.read_text()
    assert (
        f"already, at {cluster.hosts.address(ONE)}, and this host is {cluster.hosts.address(SERVICE)}"
        in log.read_text()
    )
    assert "Traceback" not in log.read_text()


def test_a_host_that_is_killed_is_missing_and_joins_again_under_its_name(cluster: Cluster) -> None:
    cluster.until(lambda: status(cluster, "--expect", "host1,host2")[0] == 0, "the hosts do not join")
    cluster.hosts.kill(cluster.nodes[TWO])
    cluster.join(TWO)  # at once: the head still takes the killed one for alive

    cluster.until(lambda: cluster.nodes[TWO].poll() is not None or _up(cluster, TWO), "host2 does not join again")
    assert cluster.nodes[TWO].poll() is None, (cluster.folder / f"host{TWO}.log").read_text()
    cluster.until(lambda: _addresses(cluster, "host2") == [cluster.hosts.address(TWO)], "host2 is listed twice")

    cluster.hosts.kill(cluster.nodes[TWO])

    cluster.until(lambda: _addresses(cluster, "host2") == [], "the killed host is listed still")
    code, said = status(cluster, "--expect", "host1,host2")
    assert code == 1
    assert said["missing"] == ["host2"]


def _up(cluster: Cluster, number: int) -> bool:
    """True where a host's own node has joined, as it says itself."""
    metrics = f"http://{cluster.hosts.address(number)}:{node_ports('worker').own_metrics}/metrics"
    done = cluster.hosts.run(number, ["curl", "-sS", "--max-time", "5", metrics])
    return 'voxyard_cluster_node_up{role="worker"} 1.0' in done.stdout


def _addresses(cluster: Cluster, name: str) -> list[str]:
    """Addresses under which a name is listed."""
    code, said = status(cluster)
    assert code == 0
    return [host["address"] for host in said["hosts"] if host["name"] == name]
