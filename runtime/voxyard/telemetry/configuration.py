"""Running configuration; expected configurations, workloads and GPUs of a host: series that alert rules compare."""

from __future__ import annotations

import json
import logging
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from voxyard.host.file_watcher import WatchedFile
from voxyard.settings.errors import SettingsError
from voxyard.telemetry.errors import TelemetryError
from voxyard.telemetry.sick_gpus import SickPolicy

log = logging.getLogger("voxyard.telemetry")

HASH_VARIABLE, RELEASE_VARIABLE = "VOXYARD_CONFIG_HASH", "VOXYARD_RELEASE"
EXPECTED_FILE, MAINTENANCE_FILE = "expected.json", "maintenance"
_LABELS = ("workload", "config", "release")


def export_configuration(
    registry: CollectorRegistry, workload: str, environment: Mapping[str, str] = os.environ
) -> None:
    """Registers `voxyard_configuration_info` of this process, where its environment has the hash of a deployment."""
    config = environment.get(HASH_VARIABLE)
    if config:
        info = Gauge(
            "voxyard_configuration_info",
            "1, with the configuration that a deployment started this workload with.",
            _LABELS,
            registry=registry,
        )
        info.labels(workload, config, environment.get(RELEASE_VARIABLE, "")).set(1)


def expected_configurations(path: Path) -> tuple[tuple[str, str, str], ...]:
    """(workload, configuration, release) of each service in `path`, none where there is no such file.

    Raises TelemetryError with what is wrong.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        release, services = document["release"], document["services"]
        if not all(isinstance(text, str) for text in (release, *services, *services.values())):
            raise TypeError("expected texts")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise TelemetryError(
            f"{path}: {error}: expected a release, and services with the hash of their configuration: deploy again"
        ) from error
    return tuple((workload, config, release) for workload, config in sorted(services.items()))


def expected_workloads(plan: Path) -> tuple[tuple[str, str], ...]:
    """(workload, role) of each entry under `workloads` in a host's plan. Raises TelemetryError with what is wrong."""
    entries = _plan(plan).get("workloads") or []
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
        raise TelemetryError(f"host plan {plan}: workloads: expected a list of entries with `workload` and `role`")
    return tuple(sorted({(entry["workload"], entry["role"]) for entry in entries}))


def expected_gpus(plan: Path) -> int | None:
    """Number of GPUs of a host by its plan; None where the plan does not say. Raises TelemetryError."""
    number = _plan(plan).get("gpus")
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
        raise TelemetryError(f"host plan {plan}: gpus: expected a number of GPUs, such as 8, found {number!r}")
    return number


def acknowledged_findings(plan: Path) -> tuple[str, ...]:
    """Ids of the preflight's warnings that a host's plan accepts. Raises TelemetryError with what is wrong."""
    found = _plan(plan).get("acknowledged") or []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise TelemetryError(f"host plan {plan}: acknowledged: expected a list of ids of `make check`, found {found!r}")
    return tuple(sorted(set(found)))


def sick_policy(plan: Path) -> SickPolicy:
    """What a host's plan says of its sick GPUs (`sick_gpus`). Raises TelemetryError with what is wrong."""
    found = _plan(plan).get("sick_gpus") or {}
    most, stay = (found.get("most"), found.get("stay", [])) if isinstance(found, dict) else (-1, [])
    number = most is None or (isinstance(most, int) and not isinstance(most, bool) and most >= 0)
    if not number or not (stay is True or (isinstance(stay, list) and all(isinstance(each, str) for each in stay))):
        raise TelemetryError(
            f"host plan {plan}: sick_gpus: expected `most`, a number, and `stay`, true or UUIDs; found {found!r}"
        )
    return SickPolicy(most, None if stay is True else frozenset(stay))


def _plan(plan: Path) -> dict[str, Any]:
    from voxyard.settings.yaml_reader import read_plain  # PyYAML is not needed without a plan

    try:
        document = read_plain(plan)
    except SettingsError as error:
        raise TelemetryError(f"host plan {error}") from error
    if not isinstance(document, dict):
        raise TelemetryError(f"host plan {plan}: expected keys such as `workloads:`, found {type(document).__name__}")
    return document


class _FileCollector(Collector):
    """A metric of value 1 for each row of label values in a file, which is read again when it is replaced."""

    def __init__(self, file: Path, name: str, description: str, labels: tuple[str, ...]) -> None:
        self._file = WatchedFile(file)
        self._name, self._description, self._labels = name, description, labels
        self._rows: tuple[tuple[str, ...], ...] = ()

    @abstractmethod
    def _read(self, path: Path) -> tuple[tuple[str, ...], ...]:
        """The rows of the file."""

    def collect(self) -> Iterator[Metric]:
        """One series a row."""
        if self._file.replaced():
            self._rows = self._read(self._file.path)
        family = GaugeMetricFamily(self._name, self._description, labels=self._labels)
        for row in self._rows:
            family.add_metric(row, 1)
        yield family


class ExpectedConfigurations(_FileCollector):
    """`voxyard_configuration_expected_info`; no series where the file is missing or cannot be read."""

    def __init__(self, state: Path) -> None:
        """`state` is the directory in which a deployment leaves the file; neither need be there yet."""
        super().__init__(
            state / EXPECTED_FILE,
            "voxyard_configuration_expected_info",
            "1, with the configuration that the last good deployment left for a workload of this host.",
            _LABELS,
        )

    def _read(self, path: Path) -> tuple[tuple[str, ...], ...]:
        try:
            return expected_configurations(path)
        except TelemetryError as error:
            log.warning("the expected configuration of this host is unknown: %s", error)
            return ()


class Maintenance(Collector):
    """`voxyard_maintenance_end_timestamp_seconds`: the end that a drain has left; 0 where nobody works on the host."""

    def __init__(self, state: Path) -> None:
        """`state` is the directory in which the fleet's scripts leave the file."""
        self._file = WatchedFile(state / MAINTENANCE_FILE)
        self._end = 0

    def collect(self) -> Iterator[Metric]:
        """One series: the last word of a host that is silent now."""
        if self._file.replaced():
            self._end = self._read()
        text = "Unix time until which this host is being worked on, as its operator said (drain); 0 where it is not."
        yield GaugeMetricFamily("voxyard_maintenance_end_timestamp_seconds", text, value=self._end)

    def _read(self) -> int:
        try:
            return int(self._file.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return 0
        except (OSError, ValueError) as error:
            log.warning("%s: %s: expected a Unix time: drain the host again", self._file.path, error)
            return 0


class HostPlan(_FileCollector):
    """`voxyard_workload_expected`, `voxyard_gpus_expected` and `voxyard_finding_acknowledged`, from the host plan.

    A workload that died takes its own metrics with it; a GPU that is gone after a restart was never seen.
    """

    def __init__(self, plan: Path) -> None:
        """Raises TelemetryError where the plan cannot be read now; a later one that is broken changes nothing."""
        super().__init__(
            plan, "voxyard_workload_expected", "1 for what this host's plan says should run.", ("workload", "role")
        )
        self._file.replaced()  # what is read now is not new later
        self._rows, self._gpus = expected_workloads(plan), expected_gpus(plan)
        self._acknowledged = acknowledged_findings(plan)

    def collect(self) -> Iterator[Metric]:
        """The workloads, the number of GPUs where the plan says it, and what its operator accepts."""
        yield from super().collect()
        family = GaugeMetricFamily("voxyard_gpus_expected", "Number of GPUs that this host should have, by its plan.")
        if self._gpus is not None:
            family.add_metric((), self._gpus)
        yield family
        accepted = GaugeMetricFamily(
            "voxyard_finding_acknowledged", "1 for a warning of the preflight that the plan accepts.", labels=["check"]
        )
        for check in self._acknowledged:
            accepted.add_metric((check,), 1)
        yield accepted

    def _read(self, path: Path) -> tuple[tuple[str, ...], ...]:
        try:
            rows, gpus, accepted = expected_workloads(path), expected_gpus(path), acknowledged_findings(path)
        except TelemetryError as error:
            log.warning("the host plan that was read before stays in force: %s", error)
            return self._rows
        self._gpus, self._acknowledged = gpus, accepted
        return rows


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("workload", "role"))
