"""Real Prometheus and Alertmanager on loopback, from Debian packages."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from eventually import PATIENCE, eventually
from free_ports import free_port

Result = list[dict[str, Any]]


@dataclass(frozen=True)
class Prometheus:
    """A running one, by the port of its API."""

    port: int

    def ask(self, path: str, **parameters: object) -> Any:
        """The data of an answer of the API."""
        asked = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{asked}", timeout=PATIENCE) as answer:
            body = json.load(answer)
        assert body["status"] == "success", body
        return body["data"]

    def query(self, expression: str, moment: float | None = None) -> Result:
        """An instant query."""
        more = {} if moment is None else {"time": f"{moment:.3f}"}
        result: Result = self.ask("query", query=expression, **more)["result"]
        return result

    def query_range(self, expression: str, start: float, end: float, step: float = 1.0) -> Result:
        """A range query, a point every so many seconds."""
        result: Result = self.ask("query_range", query=expression, start=f"{start:.3f}", end=f"{end:.3f}", step=step)[
            "result"
        ]
        return result

    def until(self, expression: str, seconds: float, *, say: str) -> None:
        """Waits until an instant query returns something."""
        eventually(lambda: self.query(expression), f"{say} ({expression})", seconds, every=0.5)


@dataclass(frozen=True)
class Alertmanager:
    """A running one, by the port of its API."""

    port: int

    def post(self, alerts: Sequence[dict[str, str]]) -> None:
        """Alerts of these labels fire from now on."""
        begun = (datetime.now(tz=UTC) - timedelta(minutes=1)).isoformat()
        body = json.dumps([{"labels": labels, "startsAt": begun} for labels in alerts]).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v2/alerts", body, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE):  # noqa: S310 - on loopback
            pass

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts that it shows."""
        return self.ask("alerts")

    def silences(self) -> list[dict[str, Any]]:
        """All silences, those that ended too."""
        return self.ask("silences")

    def ask(self, path: str) -> list[dict[str, Any]]:
        """A list that its API gives."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v2/{path}", timeout=PATIENCE) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found


@contextmanager
def prometheus(program: str, config: Path) -> Iterator[Prometheus]:
    """Runs on a free port beside its configuration until the block ends."""
    port = free_port()
    with prometheus_at(port, program, config) as running:
        yield running


@contextmanager
def prometheus_at(port: int, program: str, config: Path) -> Iterator[Prometheus]:
    """The same, on a port that its configuration knows."""
    command = [program, f"--config.file={config}", f"--storage.tsdb.path={config.parent / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--web.enable-lifecycle", "--log.level=warn"]
    with _running(command, config.parent, port):
        yield Prometheus(port)


@contextmanager
def alertmanager(program: str, config: Path, directory: Path) -> Iterator[Alertmanager]:
    """Runs alone on a free port until the block ends."""
    port = free_port()
    command = [program, f"--config.file={config}", f"--storage.path={directory}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=", "--log.level=warn"]
    with _running(command, directory, port):
        yield Alertmanager(port)


@contextmanager
def _running(command: list[str], directory: Path, port: int) -> Iterator[None]:
    with subprocess.Popen(command, cwd=directory) as process:
        try:
            _wait_until_ready(process, port, Path(command[0]).name)
            yield
        finally:
            process.terminate()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, name: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5):
                return
        except OSError:
            assert process.poll() is None, f"{name} ended with {process.returncode}"
            assert time.monotonic() < deadline, f"{name} did not become ready"
            time.sleep(0.2)
