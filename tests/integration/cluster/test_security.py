"""A cluster's doors: strangers without its token stay out, and nothing listens beyond the documented ports."""

from __future__ import annotations

from pathlib import Path

from running_cluster import HEAD, ONE, SERVICE, VOXYARD, Cluster

from voxyard.speech.cluster.ports import HEAD_PORT, NodePorts, node_ports


def status(cluster: Cluster, *options: str) -> tuple[int, str]:
    done = cluster.hosts.run(SERVICE, [VOXYARD, "cluster", "status", "--cluster", cluster.access[1], *options])
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def test_the_hosts_are_listed_and_a_missing_one_is_named(cluster: Cluster) -> None:
    token = cluster.access[2:]
    cluster.until(lambda: status(cluster, *token, "--expect", "host1,host2")[0] == 0, "the hosts do not join")

    code, text = status(cluster, *token, "--expect", "host1,host9")

    assert code == 1
    assert "host1/cpu0" in text
    assert "host9  missing" in text


def test_a_stranger_with_another_token_is_refused_in_words(cluster: Cluster, tmp_path: Path) -> None:
    other = tmp_path / "token"
    other.touch(mode=0o600)
    other.write_text("0" * 64)

    code, text = status(cluster, "--cluster-token", str(other))

    assert code == 2
    assert "InvalidAuthToken" in text


def test_a_host_with_another_token_does_not_join(cluster: Cluster, tmp_path: Path) -> None:
    other, log = tmp_path / "token", tmp_path / "join.log"
    other.touch(mode=0o600)
    other.write_text("0" * 64)
    join: list[str | Path] = [
        VOXYARD,
        "cluster",
        "join",
        *cluster.access[:2],
        "--cluster-token",
        other,
        "--device",
        "cpu",
    ]
    stranger = cluster.hosts.start(SERVICE, join, log)

    cluster.until(lambda: "node has ended" in log.read_text(), "nothing is said of the token")

    cluster.hosts.kill(stranger)
    assert "host3" not in status(cluster, *cluster.access[2:])[1]


def test_a_node_listens_on_its_documented_ports_only(cluster: Cluster) -> None:
    allowed = {HEAD: {HEAD_PORT, *_all(node_ports("head"))}, ONE: _all(node_ports("worker"))}
    token = cluster.access[2:]
    cluster.until(lambda: status(cluster, *token, "--expect", "host1,host2")[0] == 0, "the hosts do not join")

    for host, ports in allowed.items():
        found = _listening(cluster, host)
        assert found <= ports
        assert node_ports("head" if host == HEAD else "worker").node_manager in found


def _all(ports: NodePorts) -> set[int]:
    return {*ports.single, *range(ports.first_worker, ports.last_worker + 1)}


def _listening(cluster: Cluster, host: int) -> set[int]:
    """Ports of a host that others can reach."""
    lines = cluster.hosts.run(host, ["ss", "-Hltn"]).stdout.splitlines()
    addresses = [line.split()[3].rpartition(":") for line in lines]
    return {int(port) for address, _, port in addresses if not address.strip("[]").endswith("127.0.0.1")}
