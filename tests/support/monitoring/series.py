"""Prometheus without targets that serves generated series."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eventually import PATIENCE
from free_ports import free_port


@dataclass(frozen=True)
class WrittenSeries:
    """A series: its points are (Unix time, value)."""

    metric: str
    labels: Mapping[str, str]
    points: Iterable[tuple[int, float]]


def write(promtool: str, directory: Path, series: Iterable[WrittenSeries]) -> None:
    """Puts series into the data that `serving` serves. Series of one metric may come apart."""
    by_metric: dict[str, list[WrittenSeries]] = {}
    for each in series:
        by_metric.setdefault(each.metric, []).append(each)
    text = directory / "past.txt"
    with text.open("w") as out:
        for metric, members in by_metric.items():
            out.write(f"# TYPE {metric} unknown\n")
            for each in members:
                labels = ",".join(f'{name}="{value}"' for name, value in each.labels.items())
                out.writelines(f"{metric}{{{labels}}} {value} {at}\n" for at, value in each.points)
        out.write("# EOF\n")
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(directory / "data")]
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def serving(program: str, directory: Path) -> Iterator[str]:
    """The address of a Prometheus on loopback with the data below `directory`."""
    config, port = directory / "prometheus.yml", free_port()
    config.write_text("scrape_configs: []\n")
    options = [f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}", "--log.level=warn"]
    command = [program, *options, f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=10y"]
    with subprocess.Popen(command) as process:
        try:
            _until_ready(f"http://127.0.0.1:{port}/-/ready", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _until_ready(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310
                return
        except OSError:
            assert process.poll() is None, "Prometheus ended; see its messages"
            assert time.monotonic() < deadline, "Prometheus did not become ready"
            time.sleep(0.2)
