"""What the compose file of the monitoring host says: reachable from itself alone, watched, and without secrets."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from alert_rules import ROOT

FILE = ROOT / "deploy/compose/monitoring.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]


def mounts(service: str) -> dict[str, str]:
    """Where a service's mounts lie inside → what is mounted."""
    parts = [re.fullmatch(r"(.+):(/[^:]+)(?::[a-z,]+)?", each) for each in SERVICES[service]["volumes"]]
    if service == "node-exporter":
        return {"/host": "/"}
    return {part[2]: part[1] for part in parts if part is not None}


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


def test_what_is_mounted_from_the_repository_is_there() -> None:
    sources = [source for name in SERVICES for source in mounts(name).values() if source.startswith("..")]
    assert len(sources) == 4
    assert [source for source in sources if not (FILE.parent / source).exists()] == []


def test_every_program_finds_its_files() -> None:
    assert {"/etc/prometheus/prometheus.yml", "/etc/prometheus/rules", "/etc/prometheus/targets"} <= set(
        mounts("prometheus")
    )
    assert {"/etc/alertmanager/alertmanager.yml", "/etc/voxyard"} <= set(mounts("alertmanager"))
    inside = mounts("grafana")
    for file in (ROOT / "grafana/provisioning/dashboards").glob("*.yaml"):
        for provider in yaml.safe_load(file.read_text(encoding="utf-8"))["providers"]:
            assert (FILE.parent / inside[provider["options"]["path"]]).resolve() == ROOT / "grafana/dashboards"
    assert (FILE.parent / inside["/etc/grafana/provisioning"]).resolve() == ROOT / "grafana/provisioning"


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
    assert named == ["GF_SECURITY_ADMIN_PASSWORD__FILE=/run/secrets/grafana-admin"]
    assert all(set(secret) == {"file"} for secret in DOCUMENT["secrets"].values())
