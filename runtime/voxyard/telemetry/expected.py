"""Expected workloads of this host, from its plan: a workload that died takes its own metrics with it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from voxyard.telemetry.errors import TelemetryError
from voxyard.telemetry.file_watcher import WatchedFile

log = logging.getLogger("voxyard.telemetry")


def expected_workloads(plan: Path) -> tuple[tuple[str, str], ...]:
    """(workload, role) of each entry under `workloads` in a host's plan. Raises TelemetryError with what is wrong."""
    import yaml  # megabytes that an exporter without a plan need not hold

    try:
        document = yaml.safe_load(plan.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise TelemetryError(f"host plan {plan}: {error}") from error
    if not isinstance(document, dict):
        raise TelemetryError(f"host plan {plan}: expected keys such as `workloads:`, found {type(document).__name__}")
    entries = document.get("workloads") or []
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
        raise TelemetryError(f"host plan {plan}: workloads: expected a list of entries with `workload` and `role`")
    return tuple(sorted({(entry["workload"], entry["role"]) for entry in entries}))


class ExpectedWorkloads(Collector):
    """`voxyard_workload_expected`, read again when the plan's file changes."""

    def __init__(self, plan: Path) -> None:
        """Raises TelemetryError where the plan cannot be read now; a later one that is broken changes nothing."""
        self._file = WatchedFile(plan)
        self._file.replaced()  # what is read now is not new later
        self._expected = expected_workloads(plan)

    def collect(self) -> Iterator[Metric]:
        """One series a workload and role."""
        self._read_again()
        family = GaugeMetricFamily(
            "voxyard_workload_expected", "1 for what this host's plan says should run.", labels=("workload", "role")
        )
        for labels in self._expected:
            family.add_metric(labels, 1)
        yield family

    def describe(self) -> Iterator[Metric]:
        """Nothing: the registry need not collect to learn names."""
        yield from ()

    def _read_again(self) -> None:
        if not self._file.replaced():
            return
        try:
            self._expected = expected_workloads(self._file.path)
        except TelemetryError as error:
            log.warning("the host plan that was read before stays in force: %s", error)


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("workload", "role"))
