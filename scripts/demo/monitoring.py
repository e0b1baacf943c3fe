"""The monitoring part of the demo: the exporter on scripted GPUs, a Prometheus, its alerts, the dashboards' preview."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from fake_driver import FakeDriver
from scenario import GIB, GpuState, Scenario, wave

from demo.processes import ChildCommand, DemoError, command, with_variables

ROOT = Path(__file__).resolve().parents[2]
DEPLOYED = ROOT / "deploy" / "prometheus"
HOST = "demo"
INTERVAL_SECONDS = 2
DATA, MODEL, HOT, LOST = range(4)
SCRIPT = (
    "GPU 0 prepares batches, GPU 1 trains, GPU 2 is too hot and slows down, "
    "GPU 3 falls off the bus (Xid 79) while the training runs"
)

NO_COMPILER = (
    "The exporter was left out: there are no GPUs here, and without a C compiler the scripted driver library cannot be "
    "built (on Debian: apt-get install gcc libc6-dev)."
)
NO_PROMETHEUS = (
    "Prometheus was left out, and with it the alerts and the dashboards: it is not installed (on Debian: apt-get "
    "install prometheus)."
)


def gpus() -> Scenario:
    """The host that the scripted driver plays."""
    return Scenario(
        [
            GpuState.default(DATA, utilization=wave((15, 6), (30, 4)), memory_used=9 * GIB, power=190_000),
            GpuState.default(MODEL, utilization=wave((97, 7), (88, 3)), memory_used=52 * GIB, power=610_000),
            GpuState.default(
                HOT, utilization=99, temperature=91, clock_events=0x40, clock_sm=990, memory_used=40 * GIB
            ),
            GpuState.default(LOST, utilization=0, memory_used=GIB, power=70_000),
        ],
        epoch=time.time(),
    )


class ScriptedDriver:
    """The driver library with its script; `lose_a_gpu` goes on in it."""

    def __init__(self, folder: Path) -> None:
        """Raises DemoError where there is no C compiler, or it fails."""
        if shutil.which("gcc") is None:
            raise DemoError(NO_COMPILER)
        folder.mkdir(parents=True)
        try:
            self._driver = FakeDriver(folder)
        except subprocess.CalledProcessError as error:
            raise DemoError(f"{NO_COMPILER} gcc is there and failed with exit code {error.returncode}.") from error
        self._script = folder / "gpus"
        self._host = gpus()

    def exporter(self, voxyard: str, port: int) -> ChildCommand:
        """The command of the exporter on this driver."""
        variables = self._driver.environment_of(self._host, path=self._script)
        made = command(voxyard, "exporter", "--host", "127.0.0.1", "--port", port, "--interval", INTERVAL_SECONDS / 2)
        ours = {name: variables[name] for name in ("LD_LIBRARY_PATH", "NVML_FAKE")}
        return with_variables(made, ours, tuple(ours))

    def lose_a_gpu(self) -> None:
        """One falls off the bus."""
        self._host.losing(LOST).raising(LOST, 79).write(self._script)


@dataclass(frozen=True)
class Alert:
    """An alert that Prometheus has."""

    name: str
    state: str  # firing or pending
    severity: str
    summary: str
    since: str
    runbook: str


@dataclass(frozen=True)
class Target:
    """A program that Prometheus scrapes."""

    job: str
    address: str
    health: str
    seconds: float


@dataclass(frozen=True)
class Gpu:
    """Figures of a GPU in a scrape of the exporter; None where the exporter has none."""

    number: str
    name: str
    up: bool
    busy: float | None = None  # share
    memory: float | None = None  # bytes in use
    power: float | None = None  # W
    temperature: float | None = None  # °C


@dataclass
class Seen:
    """Last state while the training was scraped."""

    at: float = 0.0
    targets: tuple[Target, ...] = ()
    alerts: tuple[Alert, ...] = ()
    rules: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    series: int = 0
    fired: dict[str, float] = field(default_factory=dict)


def prometheus_program() -> str | None:
    """Path of Prometheus, or None."""
    return shutil.which("prometheus")


def configure(folder: Path, ports: Mapping[str, int], own_port: int) -> Path:
    """Writes the project's own prometheus.yml with these targets and a short interval, and no Alertmanager.

    The rules are the deployed ones, in their place and unchanged.
    """
    document = yaml.safe_load((DEPLOYED / "prometheus.yml").read_text(encoding="utf-8"))
    document.pop("alerting")
    document["global"] = dict.fromkeys(document["global"], f"{INTERVAL_SECONDS}s")
    document["rule_files"] = [str(DEPLOYED / "rules" / "*.yaml")]
    document["scrape_configs"] = [
        each for each in document["scrape_configs"] if each["job_name"] in {*ports, "prometheus"}
    ]
    (folder / "targets").mkdir(parents=True)
    for job, port in ports.items():
        entries = [{"targets": [f"127.0.0.1:{port}"], "labels": {"host": HOST}}]
        (folder / "targets" / f"{job}.yaml").write_text(yaml.safe_dump(entries), encoding="utf-8")
    own = next(each for each in document["scrape_configs"] if each["job_name"] == "prometheus")
    own["static_configs"][0]["targets"] = [f"127.0.0.1:{own_port}"]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return path


def prometheus(program: str, config: Path, port: int) -> ChildCommand:
    """The command of Prometheus."""
    return command(
        program, f"--config.file={config}", f"--storage.tsdb.path={config.parent / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    )  # fmt: skip


def preview(python: str, port: int, until: float, minutes: float, out: Path) -> ChildCommand:
    """The command that draws the dashboards."""
    return command(
        python, "grafana/preview.py", "--prometheus", f"http://127.0.0.1:{port}", "--until", f"{until:.0f}",
        "--minutes", f"{minutes:.1f}", "--scrape-interval", INTERVAL_SECONDS, "--set", f"instance={HOST}", "--out", out,
    )  # fmt: skip


class Watch:
    """Looks at Prometheus and the exporter while the training runs, and keeps the last state of a live training."""

    def __init__(self, prometheus: int | None, exporter: int | None) -> None:
        self.seen = Seen()
        self._prometheus, self._exporter = prometheus, exporter

    def look(self) -> list[str]:
        """Takes a new state; the names of alerts that fire now and did not before."""
        if self._exporter is not None:
            text = _fetch(f"http://127.0.0.1:{self._exporter}/metrics").decode()
            self.seen.gpus = gpus_of(text)
            self.seen.series = sum(1 for line in text.splitlines() if line and not line.startswith("#"))
        if self._prometheus is None:
            return []
        targets = targets_of(self._ask("targets?state=active"))
        if not any(each.job == "trainer" and each.health == "up" for each in targets):
            return []
        self.seen.at, self.seen.targets = time.time(), targets
        self.seen.alerts = alerts_of(self._ask("alerts"))
        self.seen.rules = rules_of(self._ask("rules?type=alert"))
        new = [each.name for each in self.seen.alerts if each.state == "firing" and each.name not in self.seen.fired]
        self.seen.fired |= dict.fromkeys(new, self.seen.at)
        return list(dict.fromkeys(new))

    def _ask(self, path: str) -> Any:
        return json.loads(_fetch(f"http://127.0.0.1:{self._prometheus}/api/v1/{path}"))["data"]


def targets_of(data: Mapping[str, Any]) -> tuple[Target, ...]:
    """Targets in an answer of Prometheus's API."""
    return tuple(
        Target(
            each["labels"]["job"], each["scrapeUrl"], each["health"], float(each.get("lastScrapeDuration", 0.0))
        )
        for each in sorted(data["activeTargets"], key=lambda each: str(each["labels"]["job"]))
    )  # fmt: skip


def alerts_of(data: Mapping[str, Any]) -> tuple[Alert, ...]:
    """Alerts in an answer of Prometheus's API, the firing ones first, the worst first."""
    worst = {"critical": 0, "warning": 1, "info": 2}
    found = [
        Alert(
            each["labels"].get("alertname", ""), each["state"], each["labels"].get("severity", "none"),
            each["annotations"].get("summary", ""), each.get("activeAt", ""),
            each["annotations"].get("runbook_url", ""),
        )
        for each in data["alerts"]
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda each: (each.state != "firing", worst.get(each.severity, 3), each.name)))


def rules_of(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of all alerts that are defined, in an answer of Prometheus's API."""
    return tuple(sorted({rule["name"] for group in data["groups"] for rule in group["rules"]}))


def gpus_of(text: str) -> tuple[Gpu, ...]:
    """GPUs in a scrape of the exporter, by their number."""
    from prometheus_client.parser import text_string_to_metric_families

    values: dict[str, dict[str, float]] = {}
    names: dict[str, str] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            number = sample.labels.get("gpu")
            if number is None:
                continue
            values.setdefault(number, {})[sample.name] = sample.value
            names[number] = sample.labels.get("name", names.get(number, ""))
    return tuple(_gpu(number, names[number], values[number]) for number in sorted(values, key=_order))


def _gpu(number: str, name: str, values: Mapping[str, float]) -> Gpu:
    return Gpu(
        number, name, values.get("voxyard_gpu_up") == 1.0, values.get("voxyard_gpu_utilization_ratio"),
        values.get("voxyard_gpu_memory_used_bytes"), values.get("voxyard_gpu_power_watts"),
        values.get("voxyard_gpu_temperature_celsius"),
    )  # fmt: skip


def _order(number: str) -> tuple[int, str]:
    return (int(number) if number.isdigit() else 1 << 30, number)


def _fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 (on loopback)
            found: bytes = answer.read()
    except OSError as error:
        raise DemoError(f"{url} does not answer: {error}") from error
    return found
