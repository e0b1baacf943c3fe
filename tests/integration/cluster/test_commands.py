"""`voxyard speak` and `voxyard serve` over a cluster, as users run them, with the real engine on a tiny model."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from running_cluster import SERVICE, VOXYARD, Cluster

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
