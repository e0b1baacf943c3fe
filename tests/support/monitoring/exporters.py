"""Exporter processes: start, scrape, stop."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eventually import PATIENCE, eventually
from free_ports import free_port
from prometheus_client.parser import text_string_to_metric_families

BIN = Path(sys.executable).parent
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass
class RunningExporter:
    """A process that serves /metrics on loopback."""

    port: int
    process: subprocess.Popen[str]

    def get(self, path: str = "/metrics") -> tuple[int, str]:
        """Status and body; a connection of its own each time."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def series(self) -> Series:
        """All series of a scrape, by name and labels."""
        return parse(self.get()[1])

    def value(self, name: str, **labels: str) -> float | None:
        """The one value of a series; None where there is none with these labels."""
        found = [
            value for (each, all_labels), value in self.series().items() if each == name and matches(all_labels, labels)
        ]
        assert len(found) < 2, f"{name} {labels} is {len(found)} series"
        return found[0] if found else None

    def until(self, holds: Callable[[], object], seconds: float = PATIENCE) -> None:
        """Waits for something; an exporter that ended, or time that is up, is an error."""

        def it_does() -> object:
            assert self.process.poll() is None, "the exporter ended; see its messages"
            return holds()

        eventually(it_does, lambda: f"it never held; now: {self.get()[1][:3000]}", seconds, every=0.05)


def parse(text: str) -> Series:
    """Series of an exposition by name and labels; every sample exactly once."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def matches(labels: frozenset[tuple[str, str]], wanted: Mapping[str, str]) -> bool:
    """True where the labels hold all that is wanted."""
    return set(wanted.items()) <= labels


@contextmanager
def exporter(environment: Mapping[str, str], *arguments: str, interval: float = 0.2) -> Iterator[RunningExporter]:
    """`voxyard exporter` on loopback, ready to be scraped."""
    port = free_port()
    command = [str(BIN / "voxyard"), "exporter", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(
        [*command, "--interval", str(interval), *arguments], env=dict(environment), stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            made = RunningExporter(port, process)
            made.until(lambda: answers(made))
            yield made
        finally:
            process.kill()


def answers(made: RunningExporter) -> bool:
    """True where it listens yet."""
    try:
        return made.get("/healthz")[0] == 200
    except OSError:
        return False
