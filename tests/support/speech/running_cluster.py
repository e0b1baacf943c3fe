"""Cluster on namespaces: a head, two hosts with a worker each, and a service's host with a pool's driver."""

from __future__ import annotations

import hashlib
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster_driver import requests
from cluster_hosts import ClusterHosts
from engines import sound
from eventually import PATIENCE, eventually

SUPPORT = Path(__file__).resolve().parent
PYTHON = Path(sys.executable)
VOXYARD = PYTHON.with_name("voxyard")
HEAD, ONE, TWO, SERVICE = range(4)  # hosts
_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 6379), 5)"


class Cluster:
    """The processes of a cluster on four hosts, and a pool's driver on the last."""

    def __init__(self, hosts: ClusterHosts, folder: Path) -> None:
        self.hosts, self.folder = hosts, folder
        folder.mkdir(exist_ok=True)
        self.token = folder / "token"
        self.token.touch(mode=0o600)
        self.token.write_text(secrets.token_hex(32))
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.driver: subprocess.Popen[bytes] | None = None
        self.entry = HEAD  # host whose address the others are told
        self.lines = folder / "driver.log"

    @property
    def access(self) -> list[str]:
        return ["--cluster", f"{self.hosts.address(self.entry)}:6379", "--cluster-token", str(self.token)]

    def head(self, *options: str, on: int = HEAD) -> None:
        self._start(on, "head", "--address", self.hosts.address(on), *self.access[2:], *options)

    def join(self, *numbers: int) -> None:
        for number in numbers:
            self._start(number, "join", *self.access, "--device", "cpu", "--workers", "1")

    def _start(self, number: int, *command: str) -> None:
        self.nodes[number] = self.hosts.start(
            number,
            [VOXYARD, "cluster", *command],
            self.folder / f"host{number}.log",
            {"PYTHONPATH": str(SUPPORT)},
        )

    def drive(self, *, local: bool = False, **engine: Any) -> None:
        """Start the driver, on a pool over both hosts or a local one of two workers; waits until they are ready."""
        settings: dict[str, object] = {"pool": "ray", "cluster": self.access[1], "cluster_token": str(self.token)}
        if local:
            settings = {"max_parallel_tts_workers": 2}
        self.lines = self.folder / f"driver{time.monotonic()}.log"
        self.driver = self.hosts.start(
            SERVICE,
            [PYTHON, SUPPORT / "cluster_driver.py", json.dumps(settings), json.dumps({"rows": 4, **engine})],
            self.lines,
            {"PYTHONPATH": str(SUPPORT)},
            stdin=subprocess.PIPE,
        )
        self.until_ready(*(("cpu0", "cpu1") if local else ("host1/cpu0", "host2/cpu0")))

    def stop_driver(self) -> None:
        assert self.driver is not None
        self.hosts.kill(self.driver)

    def submit(self, count: int, seed: int, characters: int = 60, **options: bool) -> None:
        assert self.driver is not None
        assert self.driver.stdin is not None
        order = {"count": count, "seed": seed, "characters": characters, **options}
        self.driver.stdin.write(json.dumps(order).encode() + b"\n")
        self.driver.stdin.flush()

    def said(self) -> list[dict[str, Any]]:
        """Lines of the driver up to now."""
        lines = self.lines.read_text(errors="replace").splitlines() if self.lines.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def chunks(self, seed: int) -> list[dict[str, Any]]:
        return [each for each in self.said() if each.get("seed") == seed]

    def workers(self) -> dict[str, str]:
        """The workers and their states, as the pool last said."""
        return next((dict(each["workers"]) for each in reversed(self.said()) if "workers" in each), {})

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def it_holds() -> bool:
            assert self.driver is None or self.driver.poll() is None, f"the driver has ended: {self.lines.read_text()}"
            return condition()

        eventually(
            it_holds, lambda: f"{what}: {self.workers()}\n{self.lines.read_text()[-6000:]}", 2 * PATIENCE, every=0.1
        )

    def until_ready(self, *devices: str) -> None:
        """Wait until exactly these devices have a worker that can speak."""
        self.until(
            lambda: (
                self.workers().keys() == set(devices)
                and all(state in ("ready", "busy") for state in self.workers().values())
            ),
            f"expected workers on {devices}",
        )

    def until_spoken(self, count: int, seed: int) -> None:
        """Wait for a job's end: every chunk once, with the audio that its request means on any host."""
        self.until(lambda: len(self.chunks(seed)) >= count, f"expected {count} chunks of job {seed}")
        found = self.chunks(seed)
        assert [each["failure"] for each in found] == [None] * count
        assert sorted(each["chunk"] for each in found) == list(range(count))
        expected = [hashlib.sha256(sound(each).tobytes()).hexdigest() for each in requests(count, seed)]
        assert {each["chunk"]: each["audio"] for each in found} == dict(enumerate(expected))

    @property
    def head_answers(self) -> bool:
        """True where the head's port does."""
        return self.hosts.run(SERVICE, [PYTHON, "-c", _CONNECT, self.hosts.address(self.entry)]).returncode == 0

    def members(self) -> set[str]:
        """Hosts with devices that are in the cluster, as its head says."""
        done = self.hosts.run(SERVICE, [VOXYARD, "cluster", "status", *self.access, "--json"])
        if done.returncode:
            return set()
        return {each["name"] for each in json.loads(done.stdout)["hosts"] if each["devices"]}

    def pids(self, number: int, *parts: str) -> list[int]:
        """Processes of a host whose command line holds all of these."""
        found = []
        for pid in self.hosts.inside(self.nodes[number]):
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if all(part in line for part in parts):
                found.append(pid)
        return found
