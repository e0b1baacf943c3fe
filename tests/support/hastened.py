"""The project's Prometheus with a faster clock: every duration of its configuration and rules is divided.

That is the one override: scrape interval, evaluation interval, ranges, offsets and `for` of all rules become FACTOR
times shorter, so that a quarter of an hour of the rules is a minute of a test. Thresholds stay, in seconds too.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from exporters import free_port

SOURCE = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
FACTOR = 15
SCRAPE_SECONDS = 1.0
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?<![\w.:])(\d+)(ms|[smhd])(?!\w)")

Result = list[dict[str, Any]]


def hasten(text: str) -> str:
    """The text with every duration in it made shorter: `[15m]` becomes `[60000ms]`."""
    return _DURATION.sub(lambda found: f"{round(int(found[1]) * _UNITS[found[2]] * 1000 / FACTOR)}ms", text)


def configure(directory: Path, targets: Mapping[str, Sequence[tuple[str, int]]], own_port: int) -> Path:
    """Writes prometheus.yml, its rules and its target files: (host, port on loopback) by job."""
    document = yaml.safe_load((SOURCE / "prometheus.yml").read_text(encoding="utf-8"))
    document["global"] = {name: hasten(value) for name, value in document["global"].items()}
    document["global"]["scrape_timeout"] = document["global"]["scrape_interval"]
    document.pop("alerting")
    scrapes = [each for each in document["scrape_configs"] if each["job_name"] in {*targets, "prometheus"}]
    for scrape in scrapes:
        if scrape["job_name"] == "prometheus":
            scrape["static_configs"][0]["targets"] = [f"127.0.0.1:{own_port}"]
            continue
        ((file,),) = (entry["files"] for entry in scrape["file_sd_configs"])
        entries = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"host": host}} for host, port in targets[scrape["job_name"]]
        ]
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(entries), encoding="utf-8")
    document["scrape_configs"] = scrapes
    (directory / "rules").mkdir()
    for file in sorted((SOURCE / "rules").glob("*.yaml")):
        (directory / "rules" / file.name).write_text(yaml.safe_dump(_hastened_rules(file)), encoding="utf-8")
    path = directory / "prometheus.yml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def _hastened_rules(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["expr"] = hasten(rule["expr"])
            if "for" in rule:
                rule["for"] = hasten(rule["for"])
        if "interval" in group:
            group["interval"] = hasten(group["interval"])
    return document


@dataclass(frozen=True)
class Prometheus:
    """A running one, by the port of its API."""

    port: int

    def ask(self, path: str, **parameters: object) -> Any:
        """The data of an answer of the API."""
        asked = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{asked}", timeout=60) as answer:
            body = json.load(answer)
        assert body["status"] == "success", body
        return body["data"]

    def query(self, expression: str, moment: float | None = None) -> Result:
        """An instant query."""
        more = {} if moment is None else {"time": f"{moment:.3f}"}
        result: Result = self.ask("query", query=expression, **more)["result"]
        return result

    def query_range(self, expression: str, start: float, end: float) -> Result:
        """A range query, at every scrape."""
        result: Result = self.ask(
            "query_range", query=expression, start=f"{start:.3f}", end=f"{end:.3f}", step=SCRAPE_SECONDS
        )["result"]
        return result

    def until(self, expression: str, seconds: float, *, say: str) -> None:
        """Waits until an instant query returns something."""
        deadline = time.monotonic() + seconds
        while not self.query(expression):
            assert time.monotonic() < deadline, f"after {seconds} s still not: {say} ({expression})"
            time.sleep(0.5)


@contextmanager
def prometheus(
    programs: Mapping[str, str], directory: Path, targets: Mapping[str, Sequence[tuple[str, int]]]
) -> Iterator[Prometheus]:
    """The project's Prometheus on loopback, in a hurry; `programs` are paths of prometheus and promtool."""
    port = free_port()
    config = configure(directory, targets, port)
    checked = subprocess.run([programs["promtool"], "check", "config", str(config)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    command = [programs["prometheus"], f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
    with subprocess.Popen(
        [*command, f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"], cwd=directory
    ) as process:
        try:
            _wait_until_ready(port)
            yield Prometheus(port)
        finally:
            process.terminate()


def _wait_until_ready(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5):
                return
        except OSError:
            assert time.monotonic() < deadline, "Prometheus did not become ready"
            time.sleep(0.2)
