"""Running and expected configuration as `_info` series, compared by a rule of Prometheus."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from voxyard.telemetry.errors import TelemetryError
from voxyard.telemetry.file_watcher import WatchedFile

log = logging.getLogger("voxyard.telemetry")

HASH_VARIABLE, RELEASE_VARIABLE = "VOXYARD_CONFIG_HASH", "VOXYARD_RELEASE"
EXPECTED_FILE = "expected.json"
_LABELS = ("workload", "config", "release")


def tell_configuration(registry: CollectorRegistry, workload: str, environment: Mapping[str, str] = os.environ) -> None:
    """`voxyard_configuration_info` of this process, where a deployment says in the environment what it started."""
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


class ExpectedConfigurations(Collector):
    """`voxyard_configuration_expected_info`, read again when a deployment has replaced the file."""

    def __init__(self, state: Path) -> None:
        """`state` is the directory in which a deployment leaves the file; neither need be there yet."""
        self._file = WatchedFile(state / EXPECTED_FILE)
        self._expected: tuple[tuple[str, str, str], ...] = ()

    def collect(self) -> Iterator[Metric]:
        """One series a service; none where the file is missing or cannot be read."""
        self._read_again()
        family = GaugeMetricFamily(
            "voxyard_configuration_expected_info",
            "1, with the configuration that the last good deployment left for a workload of this host.",
            labels=_LABELS,
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
            self._expected = expected_configurations(self._file.path)
        except TelemetryError as error:
            self._expected = ()
            log.warning("the expected configuration of this host is unknown: %s", error)
