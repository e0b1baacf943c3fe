"""Compose file of the monitoring host: loopback ports only, health checks, no secrets."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml
from alert_rules import ROOT

from fleet.inventory.hosts import load
from fleet.inventory.secrets import Secrets
from fleet.monitoring.commands import DATA
from fleet.monitoring.release import read_inputs, render
from fleet.monitoring.render import webhook_secrets

FILE = ROOT / "deploy/compose/monitoring.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]


LIVE = PurePosixPath("/etc/voxyard/monitoring/live")


def mounts(service: str) -> dict[str, str]:
    """Mounts of a service: path inside → the source."""
    if service == "node-exporter":
        return {"/host": "/"}
    assert all(each["type"] == "bind" for each in SERVICES[service]["volumes"])
    return {each["target"]: each["source"] for each in SERVICES[service]["volumes"]}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """Files on the host, by names below the link `live`."""
    inputs = read_inputs(ROOT, ROOT / "no/site")
    fleet = load(ROOT / "deploy/hosts.example.yaml")
    names = ("grafana-admin-password", *webhook_secrets(fleet))
    secrets = Secrets(dict.fromkeys(names, b"12345678"))
    return dict(render(fleet, inputs, secrets, {}, 1000, 1000).files)


def test_the_four_programs_are_there() -> None:
    assert set(SERVICES) == {"prometheus", "alertmanager", "grafana", "node-exporter"}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_bound_to_loopback_watched_and_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["ports"]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in service["ports"])
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service["user"].startswith(("0", "root"))
    assert service["restart"] == "unless-stopped"
    assert service["mem_limit"]
    assert re.fullmatch(r"\$\{VOXYARD_[A-Z_]+_IMAGE:-[a-z/-]+:v?\d+\.\d+\.\d+\}", service["image"])


@pytest.mark.parametrize("name", ["prometheus", "alertmanager", "grafana"])
def test_a_program_sees_monitoring_read_only_writes_into_its_own_and_runs_as_the_login(name: str) -> None:
    live, data = SERVICES[name]["volumes"]
    assert (live["source"], live["target"], live["read_only"]) == ("..", str(LIVE.parent), True)
    assert data["source"] == f"../../data/{name}"
    assert f"../../data/{name}".rpartition("/")[2] in DATA
    assert SERVICES[name]["user"].startswith("${VOXYARD_UID:?")


def test_every_program_finds_its_files(files: dict[str, bytes]) -> None:
    text = FILE.read_text(encoding="utf-8")
    named = {each.rstrip('"') for each in re.findall(rf"{LIVE}/(\S+)", text)}
    named |= {
        provider["options"]["path"].removeprefix(f"{LIVE}/")
        for file in (ROOT / "grafana/provisioning/dashboards").glob("*.yaml")
        for provider in yaml.safe_load(file.read_text(encoding="utf-8"))["providers"]
    }
    assert len(named) == 5
    assert [each for each in named if not any(name == each or name.startswith(f"{each}/") for name in files)] == []


def test_the_names_that_the_configurations_call_are_services() -> None:
    prometheus = (ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8")
    datasource = "".join(
        file.read_text(encoding="utf-8") for file in (ROOT / "grafana/provisioning/datasources").glob("*.yaml")
    )
    assert "alertmanager:9093" in prometheus
    assert "http://prometheus:9090" in datasource


def test_no_secret_stands_in_it() -> None:
    settings = [
        f"{key}={value}" for service in SERVICES.values() for key, value in service.get("environment", {}).items()
    ]
    named = [each for each in settings if re.search("password|secret|token", each, re.IGNORECASE)]
    assert named == ["GF_SECURITY_ADMIN_PASSWORD__FILE=/run/secrets/grafana-admin-password"]
    assert "secrets" not in DOCUMENT
