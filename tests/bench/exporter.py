"""make bench-exporter: our exporter beside nvitop-exporter, on one fake library with 8 GPUs, in one run."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import paths
import psutil

paths.add()

from fake_driver import FakeDriver
from scenario import GpuState, Scenario

BUILD = Path(__file__).resolve().parents[2] / "build" / "bench"
GPUS = 8
SCRAPE_EVERY = 15.0  # seconds, as Prometheus does by default in our configuration
NAMES = ("voxyard", "nvitop")


class Contestant:
    """A running exporter."""

    def __init__(self, name: str, port: int, process: subprocess.Popen[bytes]) -> None:
        self.name, self.port = name, port
        self._process = psutil.Process(process.pid)

    def scrape(self) -> tuple[float, str]:
        """Seconds that a scrape took, on a connection of its own, and the text."""
        begin = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics", headers={"Accept": "text/plain; version=0.0.4"})
        text = connection.getresponse().read().decode()
        connection.close()
        return time.perf_counter() - begin, text

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        used = self._process.cpu_times()
        return float(used.user + used.system)

    def resident_bytes(self) -> int:
        """Resident memory now."""
        return int(self._process.memory_info().rss)


def free_port() -> int:
    """A port of the loopback interface that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(name: str, environment: Mapping[str, str], seconds_to_start: float = 60) -> Iterator[Contestant]:
    """Starts an exporter and waits until a scrape tells of all GPUs."""
    port, folder = free_port(), Path(sys.executable).parent
    command = {
        "voxyard": [str(folder / "voxyard"), "exporter", "--host", "127.0.0.1", "--port", str(port)],
        "nvitop": [str(folder / "nvitop-exporter"), "--bind-address", "127.0.0.1", "--port", str(port)],
    }[name]
    with subprocess.Popen(
        [*command, "--interval", "1.0"], env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            made = Contestant(name, port, process)
            deadline = time.monotonic() + seconds_to_start
            while not _tells_of_all(made):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{name} did not start; its command was {' '.join(command)}")
                time.sleep(0.2)
            yield made
        finally:
            process.kill()


def _tells_of_all(contestant: Contestant) -> bool:
    metric = {"voxyard": "voxyard_gpu_power_watts{", "nvitop": "gpu_power_usage_W{"}[contestant.name]
    try:
        return contestant.scrape()[1].count(metric) == GPUS
    except OSError:
        return False


def percentile(values: list[float], share: float) -> float:
    """The value that `share` of them do not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def cpu_and_memory(both: list[Contestant], seconds: float) -> dict[str, dict[str, float]]:
    """CPU and memory of each while it is scraped as Prometheus would, at the same time."""
    before = {each.name: each.cpu_seconds() for each in both}
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        for each in both:
            each.scrape()
        time.sleep(min(SCRAPE_EVERY, seconds))
    elapsed = time.monotonic() - begun
    return {
        each.name: {
            "cpu_seconds_per_hour": (each.cpu_seconds() - before[each.name]) / elapsed * 3600,
            "resident_mib": each.resident_bytes() / 2**20,
        }
        for each in both
    }


def latencies(both: list[Contestant], scrapes: int) -> dict[str, dict[str, float]]:
    """Scrapes that take turns."""
    taken: dict[str, list[float]] = {each.name: [] for each in both}
    for turn in range(scrapes):
        for each in both if turn % 2 else reversed(both):
            taken[each.name].append(each.scrape()[0])
            time.sleep(0.01)
    return {
        name: {"scrape_p50_seconds": percentile(values, 0.5), "scrape_p99_seconds": percentile(values, 0.99)}
        for name, values in taken.items()
    }


def calls_per_cycle(name: str, driver: FakeDriver, directory: Path, seconds: float) -> float:
    """NVML calls that an exporter makes in a pass, from the library's trace."""
    trace = directory / f"trace-{name}"
    with running(name, driver.environment_of(scenario(), NVML_FAKE_TRACE=str(trace))):
        time.sleep(2.0)
        before = sum(1 for _ in trace.open())
        time.sleep(seconds)
        return (sum(1 for _ in trace.open()) - before) / seconds


def scenario(latency_us: int = 0) -> Scenario:
    """8 GPUs of which each field is supported and every NVLink is up."""
    return Scenario([GpuState.default(index) for index in range(GPUS)], latency_us=latency_us)


def measure(seconds: float, scrapes: int) -> dict[str, Any]:
    """All figures by contestant."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        driver = FakeDriver(directory)
        print("→ CPU, memory and scrapes, both at the same time", file=sys.stderr, flush=True)
        with ExitStack() as stack:
            environment = driver.environment_of(scenario())
            both = [stack.enter_context(running(name, environment)) for name in NAMES]
            figures: dict[str, Any] = cpu_and_memory(both, seconds)
            for name, more in latencies(both, scrapes).items():
                figures[name] |= more
            for each in both:
                text = each.scrape()[1]
                figures[each.name]["series"] = sum(1 for line in text.splitlines() if line[:1] not in ("#", ""))
        for name in NAMES:
            print(f"→ NVML calls of {name}", file=sys.stderr, flush=True)
            figures[name]["nvml_calls_per_cycle"] = calls_per_cycle(name, driver, directory, seconds=10)
        print("→ a driver that takes 20 ms for each call", file=sys.stderr, flush=True)
        slow = driver.environment_of(scenario(latency_us=20_000))
        with running("voxyard", slow, seconds_to_start=120) as ours:
            taken = []
            for _ in range(scrapes):
                taken.append(ours.scrape()[0])
                time.sleep(0.02)
        figures["voxyard"]["slow_nvml_scrape_p99_seconds"] = percentile(taken, 0.99)
        return figures


def main() -> None:
    """Measure, print the table and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--scrapes", type=int, default=500)
    chosen = parser.parse_args()
    figures = measure(chosen.seconds, chosen.scrapes)
    ours, theirs = figures["voxyard"], figures["nvitop"]
    ratios = {
        "cpu_vs_nvitop": ours["cpu_seconds_per_hour"] / theirs["cpu_seconds_per_hour"],
        "rss_vs_nvitop": ours["resident_mib"] / theirs["resident_mib"],
        "scrape_p50_vs_nvitop": ours["scrape_p50_seconds"] / theirs["scrape_p50_seconds"],
        "scrape_p99_vs_nvitop": ours["scrape_p99_seconds"] / theirs["scrape_p99_seconds"],
        "nvml_calls_vs_nvitop": ours["nvml_calls_per_cycle"] / theirs["nvml_calls_per_cycle"],
        "slow_nvml_scrape_p99_seconds": ours["slow_nvml_scrape_p99_seconds"],
    }
    result = {
        "name": "exporter",
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "ratios": ratios,
        "figures": figures,
    }
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "exporter.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"{'':28} {'voxyard':>10} {'nvitop':>10}   voxyard ÷ nvitop")
    for name in theirs:
        print(f"{name:28} {ours[name]:10.4g} {theirs[name]:10.4g}   {ours[name] / theirs[name]:.2f}")
    verdict = "reached" if ratios["slow_nvml_scrape_p99_seconds"] < 0.010 else "missed"
    print(
        f"scrape p99 with 20 ms a call: {ratios['slow_nvml_scrape_p99_seconds'] * 1000:.1f} ms (target < 10: {verdict})"
    )


if __name__ == "__main__":
    main()
