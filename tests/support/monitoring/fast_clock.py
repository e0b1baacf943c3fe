"""The project's Prometheus with a faster clock: every duration of its configuration and rules is divided.

That is the one override: scrape interval, evaluation interval, ranges, offsets and `for` of all rules become FACTOR
times shorter, so that a quarter of an hour of the rules is three minutes of a test. Thresholds stay, in seconds too.
All rules have three seconds for a round: a busy machine left rounds out when they had one, and alerts came too late.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from free_ports import free_port
from monitoring_programs import Prometheus, prometheus_at

SOURCE = Path(__file__).resolve().parents[3] / "deploy" / "prometheus"
FACTOR = 5
SCRAPE_SECONDS = 3.0
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?<![\w.])(\d+)(ms|[smhd])(?!\w)")


def speed_up(text: str) -> str:
    """The text with every duration in it made shorter: `[15m]` becomes `[180000ms]`."""
    return _DURATION.sub(lambda found: f"{round(int(found[1]) * _UNITS[found[2]] * 1000 / FACTOR)}ms", text)


def configure(directory: Path, targets: Mapping[str, Sequence[tuple[str, int]]], own_port: int) -> Path:
    """Writes prometheus.yml, its rules and its target files: (host, port on loopback) by job."""
    document = yaml.safe_load((SOURCE / "prometheus.yml").read_text(encoding="utf-8"))
    document["global"] = {name: speed_up(value) for name, value in document["global"].items()}
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
        (directory / "rules" / file.name).write_text(yaml.safe_dump(sped_up_rules(file)), encoding="utf-8")
    path = directory / "prometheus.yml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def sped_up_rules(file: Path) -> dict[str, Any]:
    """A file of rules, read."""
    document: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["expr"] = speed_up(rule["expr"])
            if "for" in rule:
                rule["for"] = speed_up(rule["for"])
        if "interval" in group:
            group["interval"] = speed_up(group["interval"])
    return document


@contextmanager
def prometheus(
    programs: Mapping[str, str], directory: Path, targets: Mapping[str, Sequence[tuple[str, int]]]
) -> Iterator[Prometheus]:
    """The project's Prometheus on loopback, in a hurry; `programs` are paths of prometheus and promtool."""
    port = free_port()
    config = configure(directory, targets, port)
    checked = subprocess.run([programs["promtool"], "check", "config", str(config)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    with prometheus_at(port, programs["prometheus"], config) as running:
        yield running
