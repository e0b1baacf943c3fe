"""Compose file of the monitoring host: loopback ports only, health checks, no secrets."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml
from alert_rules import ROOT

from fleet.images.image import LocalImage
from fleet.images.third_party import MONITORING
from fleet.inventory.hosts import load
from fleet.inventory.secrets import Secrets
from fleet.monitoring.render import webhook_secrets
from fleet.monitoring.role import monitoring_part, read_inputs

FILE = ROOT / "deploy/compose/monitoring.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]


READ = PurePosixPath("/etc/voxyard/config/current")


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """Files of the release, by their names in it."""
    inputs = read_inputs(ROOT, ROOT / "no/site")
    fleet = load(ROOT / "deploy/hosts.example.yaml")
    names = ("grafana-admin-password", *webhook_secrets(fleet))
    secrets = Secrets(dict.fromkeys(names, b"https://chat.example"))
    return dict(monitoring_part(fleet, inputs, secrets, dict.fromkeys(MONITORING, LocalImage("", (), 0))).files)


def test_the_three_programs_are_there() -> None:
    assert set(SERVICES) == {"prometheus", "alertmanager", "grafana"}


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


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_program_sees_its_files_read_only_writes_into_its_own_and_runs_as_the_releases_user(name: str) -> None:
    config, data = SERVICES[name]["volumes"]
    assert (config["source"], config["target"], config["read_only"]) == (f"../../config/{name}", str(READ.parent), True)
    assert data["source"] == f"../../data/{name}"
    assert SERVICES[name]["user"].startswith("${VOXYARD_UID:?")


def test_every_program_finds_its_files(files: dict[str, bytes]) -> None:
    named = {
        f"{name}/{found}"
        for name, service in SERVICES.items()
        for found in re.findall(rf"{READ}/([\w./-]+)", yaml.safe_dump(service))
    }
    named |= {
        "grafana/" + provider["options"]["path"].removeprefix(f"{READ}/")
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
