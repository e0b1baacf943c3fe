"""`voxyard speak` and `voxyard serve` over a cluster, as users run them, with the real engine on a tiny model.

And a cluster's doors: strangers without its token stay out, and nothing listens beyond the documented ports.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from running_cluster import HEAD, ONE, SERVICE, VOXYARD, Cluster

from voxyard.speech.cluster.ports import HEAD_PORT, NodePorts, node_ports

STORY = " ".join(
    f"This is sentence number {number} of a story, and it is spoken on one of two hosts." for number in range(14)
)
COMMON = ["--device", "cpu", "--seed", "7", "--batch-size", "2"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights."""
    made = tmp_path_factory.mktemp("weights") / "tiny"
    subprocess.run([VOXYARD, "weights", "tiny", str(made)], check=True, capture_output=True)
    return made


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """A document of some chunks."""
    file = tmp_path / "story.txt"
    file.write_text(STORY)
    return file


@pytest.fixture(scope="module")
def local(model: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The story as this host alone speaks it."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "story.txt").write_text(STORY)
    speak = [VOXYARD, "speak", folder / "story.txt", "--model", model, *COMMON, "--workers", "1"]
    subprocess.run([*map(str, speak), "--out", str(folder / "a.wav")], check=True, capture_output=True)
    return (folder / "a.wav").read_bytes()


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


def test_speak_over_two_hosts_gives_the_same_file(
    cluster: Cluster, model: Path, local: bytes, story: Path, tmp_path: Path
) -> None:
    out = tmp_path / "b.wav"
    flags: list[str | Path] = ["--model", model, *COMMON, "--pool", "ray", *cluster.access, "--json", "--out", out]

    done = cluster.hosts.run(SERVICE, [VOXYARD, "speak", story, *flags], 280)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["chunks"] > 4
    assert out.read_bytes() == local


@pytest.mark.long
def test_a_service_that_is_killed_goes_on_with_its_document(
    cluster: Cluster, model: Path, local: bytes, tmp_path: Path
) -> None:
    serve: list[str | Path] = [
        VOXYARD, "serve", "--model", model, *COMMON[:2], *COMMON[4:], "--pool", "ray", *cluster.access,
        "--data-dir", tmp_path / "data", "--port", "8080",
    ]  # fmt: skip
    log = tmp_path / "serve.log"
    service = cluster.hosts.start(SERVICE, serve, log)
    document = _post(cluster, log)
    cluster.until(lambda: _done(cluster, document) > 0, "no chunk is spoken")
    cluster.hosts.kill(service)

    cluster.hosts.start(SERVICE, serve, log)

    cluster.until(lambda: _get(cluster, document).get("state") == "completed", log.read_text())
    assert _audio(cluster, document) == local


def _curl(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return cluster.hosts.run(SERVICE, ["curl", "-sS", "--max-time", "20", *arguments])


def _post(cluster: Cluster, log: Path) -> str:
    body = json.dumps({"text": STORY, "seed": 7})
    found: list[str] = []

    def accepted() -> bool:
        done = _curl(cluster, "-H", "content-type: application/json", "-d", body, "http://127.0.0.1:8080/v1/documents")
        if done.returncode == 0:
            found.append(json.loads(done.stdout)["id"])
        return bool(found)

    cluster.until(accepted, log.read_text() if log.exists() else "no service")
    return found[0]


def _get(cluster: Cluster, document: str) -> dict[str, Any]:
    done = _curl(cluster, f"http://127.0.0.1:8080/v1/documents/{document}")
    return dict(json.loads(done.stdout)) if done.returncode == 0 else {}


def _done(cluster: Cluster, document: str) -> int:
    """Chunks that are spoken."""
    return int(_get(cluster, document).get("progress", {}).get("done", 0))


def _audio(cluster: Cluster, document: str) -> bytes:
    url = f"http://127.0.0.1:8080/v1/documents/{document}/audio?format=wav"
    return subprocess.run(
        ["ip", "netns", "exec", cluster.hosts.name(SERVICE), "curl", "-sS", url], check=True, capture_output=True
    ).stdout


def _all(ports: NodePorts) -> set[int]:
    return {*ports.single, *range(ports.first_worker, ports.last_worker + 1)}


def _listening(cluster: Cluster, host: int) -> set[int]:
    """Ports of a host that others can reach."""
    lines = cluster.hosts.run(host, ["ss", "-Hltn"]).stdout.splitlines()
    addresses = [line.split()[3].rpartition(":") for line in lines]
    return {int(port) for address, _, port in addresses if not address.strip("[]").endswith("127.0.0.1")}
