"""Readings of `voxyard exporter` beside nvidia-smi's, GPU by GPU → build/bench/exporter-readings.json.

nvidia-smi is asked before and after a scrape: a value that changes has to lie between both answers, give or take what a
reading may differ by. With --stand-in a scripted driver library and a scripted nvidia-smi take the GPUs' place.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "build/bench/exporter-readings.json"
MIB = 2**20
PATIENCE = 60.0  # seconds until the exporter has read the driver


@dataclass(frozen=True)
class Compared:
    """A field of nvidia-smi, the metric that tells the same, and how far they may be apart."""

    field: str
    metric: str
    scale: float = 1.0  # metric = field × scale
    within: float = 0.0  # in the field's unit: one of it where nvidia-smi rounds
    share: float = 0.0  # of the value, for readings that move between two answers
    labels: tuple[tuple[str, str], ...] = ()


FIELDS = (
    Compared("memory.total", "voxyard_gpu_memory_size_bytes", MIB, within=1),
    Compared("memory.used", "voxyard_gpu_memory_used_bytes", MIB, within=64),
    Compared("temperature.gpu", "voxyard_gpu_temperature_celsius", within=2),
    Compared("power.draw", "voxyard_gpu_power_watts", within=5, share=0.10),
    Compared("power.limit", "voxyard_gpu_power_limit_watts", within=1),
    Compared("pcie.link.width.current", "voxyard_gpu_pcie_link_width"),
    Compared("pcie.link.width.max", "voxyard_gpu_pcie_link_width_max"),
    Compared("pcie.link.gen.max", "voxyard_gpu_pcie_link_generation_max"),
    Compared("clocks.max.sm", "voxyard_gpu_clock_max_hertz", 1e6, labels=(("clock", "sm"),)),
)
Rows = dict[str, dict[str, float | None]]  # by UUID, then field; None is what the card does not support


def nvidia_smi() -> Rows:
    """The fields as nvidia-smi tells them. SystemExit where it fails."""
    query = ",".join(("uuid", *(each.field for each in FIELDS)))
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"nvidia-smi failed with exit code {done.returncode}: {(done.stdout + done.stderr).strip()}")
    lines = [[cell.strip() for cell in line] for line in csv.reader(done.stdout.splitlines()) if line]
    return {
        uuid: {each.field: _number(cell) for each, cell in zip(FIELDS, cells, strict=True)} for uuid, *cells in lines
    }


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def metrics(text: str) -> Rows:
    """The same fields from the exporter's text."""
    found: Rows = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            for each in FIELDS:
                if sample.name == each.metric and dict(each.labels).items() <= sample.labels.items():
                    found.setdefault(sample.labels["uuid"], {})[each.field] = sample.value / each.scale
    return found


def compare(before: Rows, ours: Rows, after: Rows) -> list[dict[str, Any]]:
    """Each value beside nvidia-smi's; `agrees` is None where neither has it."""
    found = []
    for uuid in sorted(before.keys() | ours.keys() | after.keys()):
        for each in FIELDS:
            first, last = (rows.get(uuid, {}).get(each.field) for rows in (before, after))
            value = ours.get(uuid, {}).get(each.field)
            told = [one for one in (first, last) if one is not None]
            agrees: bool | None = None
            if told and value is not None:
                most = each.within + each.share * max(told)
                agrees = min(told) - most <= value <= max(told) + most
            elif told or value is not None:
                agrees = False
            found.append({
                "uuid": uuid, "field": each.field, "nvidia_smi": [first, last], "exporter": value, "agrees": agrees,
            })  # fmt: skip
    return found


@contextmanager
def exporter(environment: Mapping[str, str]) -> Iterator[str]:
    """Runs the exporter; yields its URL once it has read the driver. SystemExit where it does not."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "voxyard", "exporter", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, env=dict(environment)) as process:
        try:
            url, deadline = f"http://127.0.0.1:{port}/metrics", time.monotonic() + PATIENCE
            while "voxyard_gpu_up{" not in scrape(url):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the exporter reads no GPU, and its log above says why: {' '.join(command)}")
                time.sleep(0.2)
            yield url
        finally:
            process.kill()


def scrape(url: str) -> str:
    """The exporter's text; empty while it does not answer."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 (loopback)
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return ""


@contextmanager
def scripted_gpus() -> Iterator[dict[str, str]]:
    """Two scripted GPUs: a driver library for the exporter, and an nvidia-smi that tells what the script says."""
    sys.path.insert(0, str(ROOT / "tests/nvml"))
    from fake_driver import FakeDriver
    from scenario import GpuState, Scenario

    def cell(gpu: GpuState, field: str) -> str:
        value, unit = {
            "memory.total": (gpu.memory_total, MIB), "memory.used": (gpu.memory_used, MIB),
            "temperature.gpu": (gpu.temperature, 1), "power.draw": (gpu.power, 1000),
            "power.limit": (gpu.power_limit, 1000), "pcie.link.width.current": (gpu.pcie_width, 1),
            "pcie.link.width.max": (gpu.pcie_width_max, 1), "pcie.link.gen.max": (gpu.pcie_generation_max, 1),
            "clocks.max.sm": (gpu.clock_max_sm, 1),
        }[field]  # fmt: skip
        return f"{float(str(value)) / unit:.2f}"

    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        gpus = [GpuState.default(index, temperature=55 + index) for index in range(2)]
        program = directory / "nvidia-smi"
        lines = [", ".join((gpu.uuid, *(cell(gpu, each.field) for each in FIELDS))) for gpu in gpus]
        program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n", encoding="utf-8")
        program.chmod(0o755)
        environment = FakeDriver(directory).environment_of(Scenario(gpus))
        os.environ["PATH"] = f"{directory}{os.pathsep}{os.environ['PATH']}"
        yield environment


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print and write the file; 1 where a reading differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--stand-in", action="store_true", help="scripted driver library and nvidia-smi: no GPU is read"
    )
    parser.add_argument("--out", type=Path, default=OUTPUT, metavar="FILE", help="JSON file of the result")
    chosen = parser.parse_args(arguments)
    if chosen.stand_in:
        with scripted_gpus() as environment:
            compared = asked(environment)
    else:
        compared = asked(os.environ)
    judged = [each for each in compared if each["agrees"] is not None]
    for each in judged:
        print(
            f"{each['uuid']} {each['field']:24} nvidia-smi {each['nvidia_smi']}, exporter {each['exporter']}"
            f"{'' if each['agrees'] else '  DIFFERENT'}"
        )
    found = {
        "name": "exporter-readings",
        "stand_in": chosen.stand_in,
        "ratios": {"readings_that_agree": sum(each["agrees"] for each in judged) / len(judged) if judged else 0.0},
        "figures": {"readings": compared},
    }
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if judged and all(each["agrees"] for each in judged) else 1


def asked(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """One comparison."""
    with exporter(environment) as url:
        before = nvidia_smi()
        text = scrape(url)
        return compare(before, metrics(text), nvidia_smi())


if __name__ == "__main__":
    sys.exit(main())
