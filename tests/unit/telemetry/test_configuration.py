"""Running and expected configuration: told only where it is known, and anew when a deployment says so."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
from exporters import exporter
from fake_driver import FakeDriver
from prometheus_client import CollectorRegistry, generate_latest
from scenario import GpuState, Scenario

from voxyard.telemetry import TelemetryError
from voxyard.telemetry.configuration import (
    ExpectedConfigurations,
    Maintenance,
    expected_configurations,
    export_configuration,
)
from voxyard.telemetry.workloads import TrainMetrics, WorkloadGpus

SERVICES = {"exporter": "0123456789ab", "bark": "ba9876543210"}


def write(state: Path, services: dict[str, str], release: str = "r1") -> None:
    """As a deployment does it: whole, and at once."""
    part = state / ".expected.json.part"
    part.write_text(json.dumps({"release": release, "services": services}))
    part.replace(state / "expected.json")


def told(registry: CollectorRegistry) -> set[tuple[str, str, str]]:
    """Workload, configuration and release of all series."""
    return {
        (sample.labels["workload"], sample.labels["config"], sample.labels["release"])
        for family in registry.collect()
        for sample in family.samples
        if sample.name.startswith("voxyard_configuration")
    }


@pytest.fixture
def registry(tmp_path: Path) -> CollectorRegistry:
    """That of an exporter whose host's state lies in the test's directory."""
    made = CollectorRegistry()
    made.register(ExpectedConfigurations(tmp_path))
    return made


def test_what_should_run_is_reported_and_follows_each_deployment(registry: CollectorRegistry, tmp_path: Path) -> None:
    assert told(registry) == set()

    write(tmp_path, SERVICES)
    assert told(registry) == {("exporter", "0123456789ab", "r1"), ("bark", "ba9876543210", "r1")}

    write(tmp_path, {"bark": "cccccccccccc"}, "r2")
    assert told(registry) == {("bark", "cccccccccccc", "r2")}

    (tmp_path / "expected.json").unlink()
    assert told(registry) == set()


@pytest.mark.parametrize("broken", ["", "soon", "\xff"])
def test_the_end_of_a_maintenance_is_told_until_it_is_taken_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    registry = CollectorRegistry()
    registry.register(Maintenance(tmp_path))

    def end() -> float | None:
        return registry.get_sample_value("voxyard_maintenance_end_timestamp_seconds")

    assert end() == 0
    (tmp_path / "maintenance").write_text("1790000000\n")
    assert end() == 1790000000
    (tmp_path / "maintenance").unlink()
    assert end() == 0
    (tmp_path / "maintenance").write_bytes(broken.encode("latin-1"))
    assert [end() for _ in range(3)] == [0] * 3
    assert [each.getMessage().endswith("expected a Unix time: drain the host again") for each in caplog.records] == [
        True
    ]


def test_the_file_is_read_once_for_many_scrapes(
    registry: CollectorRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, SERVICES)
    reads: list[Path] = []
    read = Path.read_text

    def counted(self: Path, encoding: str | None = None) -> str:
        reads.append(self)
        return read(self, encoding)

    monkeypatch.setattr(Path, "read_text", counted)
    for _ in range(5):
        generate_latest(registry)
    assert reads == [tmp_path / "expected.json"]


BROKEN = (
    "", "{", "[]", "7", "\xff", '{"release": "r1"}', '{"release": 1, "services": {}}',
    '{"release": "r", "services": []}', '{"release": "r", "services": {"bark": 7}}',
)  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_reports_nothing_and_is_reported_once(
    registry: CollectorRegistry, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    write(tmp_path, SERVICES)
    assert told(registry)
    (tmp_path / "expected.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(TelemetryError, match=r"expected\.json: .*deploy again"):
        expected_configurations(tmp_path / "expected.json")
    assert [told(registry) for _ in range(3)] == [set()] * 3
    assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == 1


def test_a_process_reports_what_it_was_started_with_or_nothing() -> None:
    deployed, by_hand = CollectorRegistry(), CollectorRegistry()
    export_configuration(deployed, "bark", {"VOXYARD_CONFIG_HASH": "ba9876543210", "VOXYARD_RELEASE": "r1"})
    export_configuration(by_hand, "bark", {"VOXYARD_RELEASE": "r1"})
    assert told(deployed) == {("bark", "ba9876543210", "r1")}
    assert told(by_hand) == set()


def test_trainer_and_bark_tell_it_beside_their_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOXYARD_CONFIG_HASH", "ba9876543210")
    monkeypatch.setenv("VOXYARD_RELEASE", "r1")
    pool = CollectorRegistry()
    WorkloadGpus(pool, "bark")
    assert told(pool) == {("bark", "ba9876543210", "r1")}
    assert told(TrainMetrics("run").registry) == {("trainer", "ba9876543210", "r1")}


def test_the_exporter_reports_both(driver: FakeDriver, tmp_path: Path) -> None:
    write(tmp_path, SERVICES)
    environment = driver.environment_of(Scenario([GpuState.default(0)]))
    environment |= {
        "VOXYARD_CONFIG_HASH": "0123456789ab",
        "VOXYARD_RELEASE": "r0",
        "VOXYARD_EXPORTER_STATE": str(tmp_path),
    }
    with exporter({**os.environ, **environment}) as running:
        running_one = {"workload": "exporter", "config": "0123456789ab", "release": "r0"}
        assert running.value("voxyard_configuration_info", **running_one) == 1
        for workload, config in SERVICES.items():
            labels = {"workload": workload, "config": config, "release": "r1"}
            assert running.value("voxyard_configuration_expected_info", **labels) == 1
