"""A service on a cluster whose head is killed, again and again: it stays, says what is wrong, and takes up again."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tones_service
import yaml
from cluster_hosts import ClusterHosts
from programs import program
from running_cluster import HEAD, ONE, PYTHON, SERVICE, TWO, Cluster

KILLS = 5
REDIS = "127.0.0.1:6380"
URL = "http://127.0.0.1:8080"
FOLDERS = os.pathsep.join(map(str, Path(tones_service.__file__).parents[1].glob("*/")))
STORY = " ".join(f"This is sentence number {number} of a story that is spoken on two hosts." for number in range(12))


@dataclass
class Service:
    """The service of a cluster, and its answers to speech requests as (status, Retry-After)."""

    cluster: Cluster
    log: Path
    answers: list[tuple[int, str]] = field(default_factory=list)

    def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, str, bytes]:
        """Status, Retry-After and body; the status is 0 where the connection ended before its answer did."""
        out = self.log.with_name(f"answer-{threading.get_ident()}")
        told: list[str | Path] = ["-o", out, "-w", "%{http_code} %header{retry-after}"]
        sent = [] if body is None else ["-H", "content-type: application/json", "-d", json.dumps(body)]
        done = self.cluster.hosts.run(SERVICE, ["curl", "-s", "--max-time", "100", *told, *sent, URL + path])
        status, _, later = done.stdout.partition(" ")
        return (int(status) if done.returncode == 0 else 0), later.strip(), out.read_bytes() if out.exists() else b""

    def says(self, words: str, times: int) -> bool:
        """True where its log has these words so often."""
        return len(re.findall(words, _text(self.log))) >= times

    @property
    def ready(self) -> bool:
        return self.ask("/readyz")[0] == 200

    def submit(self, seed: int) -> str:
        status, _, body = self.ask("/v1/documents", {"text": STORY, "seed": seed})
        assert status == 202, body
        return str(json.loads(body)["id"])

    def document(self, id: str) -> dict[str, Any]:
        return dict(json.loads(self.ask(f"/v1/documents/{id}")[2]))

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Speech requests, one after the other, until the block ends."""
        ended = threading.Event()

        def speak() -> None:
            while not ended.is_set():
                body = {"model": "tts-1", "voice": "alloy", "input": STORY[:300], "response_format": "wav"}
                self.answers.append(self.ask("/v1/audio/speech", body)[:2])
                time.sleep(0.2)

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(120)


@pytest.fixture(params=["redis", "alone"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Service, list[str]]]:
    """The service of a cluster whose head keeps its state in a Redis, or loses it; with the head's options."""
    options = ["--redis", REDIS] if request.param == "redis" else []
    with ClusterHosts(4) as hosts:
        made = Cluster(hosts, tmp_path)
        if options:
            words: list[str | Path] = [
                program("redis-server"),
                "--bind",
                "127.0.0.1",
                "--port",
                "6380",
                "--save",
                "",
                "--dir",
                tmp_path,
            ]
            hosts.start(HEAD, words, tmp_path / "redis.log")
            made.until(lambda: "Ready to accept" in _text(tmp_path / "redis.log"), "no Redis")
        made.head(*options)
        made.join(ONE, TWO)
        section = {"host": "127.0.0.1", "port": 8080, "data_dir": str(tmp_path / "data"), "rate_limit": 0}
        speech = {"pool": "ray", "cluster": made.access[1], "cluster_token": str(made.token)}
        (tmp_path / "bark.yaml").write_text(yaml.safe_dump({"service": section, "speech": speech}))
        running = Service(made, tmp_path / "serve.log")
        made.lines = running.log
        made.driver = hosts.start(
            SERVICE, [PYTHON, tones_service.__file__, "serve", "--config", tmp_path / "bark.yaml"], running.log,
            {"PYTHONPATH": FOLDERS},
        )  # fmt: skip
        made.until(lambda: running.ready, "the service is not ready")
        yield running, options


@pytest.mark.timeout(3600)  # on a machine that does much else; two minutes on an idle one
def test_a_head_that_is_killed_five_times_ends_no_service_and_loses_no_document(
    service: tuple[Service, list[str]],
) -> None:
    running, options = service
    cluster, ids, took = running.cluster, [running.submit(0)], list[float]()
    cluster.until(lambda: running.document(ids[0])["state"] == "completed", "the first document is not completed")
    with running.speaking():
        for _ in range(KILLS):
            ids += [running.submit(0), latest := running.submit(0)]
            cluster.until(lambda id=latest: running.document(id)["progress"]["done"] > 0, "no chunk is spoken")  # type: ignore[misc]
            cluster.hosts.kill(cluster.nodes[HEAD])
            cluster.until(
                lambda: running.says("the cluster's head .* does not answer", len(took) + 1), "nothing is said"
            )
            cluster.head(*options)
            cluster.until(lambda: cluster.head_answers, "the head does not answer")
            began = time.monotonic()
            cluster.until(lambda: _is_back(running), "the service has not taken up again")
            took.append(round(time.monotonic() - began, 1))
            print("seconds from the head's first answer until the service has a worker on each host:", took)
    for id in ids:
        cluster.until(lambda id=id: running.document(id)["state"] == "completed", f"{id} is not completed")  # type: ignore[misc]
    sounds = {running.ask(f"/v1/documents/{id}/audio")[2] for id in ids}
    assert len(sounds) == 1, "a document has another sound than without a kill"
    assert {status for status, _ in running.answers} <= {0, 200, 503}
    assert all(later for status, later in running.answers if status == 503)
    said = _text(running.log)
    assert '"Traceback' not in said
    assert options or running.says("the cluster .* is lost: .*; it is joined again", KILLS)


def _is_back(running: Service) -> bool:
    """The head lists the hosts again, and the service has a worker on each."""
    status, _, body = running.ask("/v1/workers")
    found = json.loads(body)["workers"] if status == 200 else []
    loaded = {each["device"] for each in found if each["state"] in ("ready", "busy")}
    return loaded == {"host1/cpu0", "host2/cpu0"} and running.ready and running.cluster.members() >= {"host1", "host2"}


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""
