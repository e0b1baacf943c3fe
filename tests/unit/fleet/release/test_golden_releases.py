"""Releases of five fleets, byte for byte: a change of how releases are made shows in its files, or not at all.

A wanted change: `VOXYARD_WRITE_RELEASES=1` with this test writes the hashes anew; the commit says why they changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import RecordingSession, facts, gpu
from tiny_model import write_model

from fleet.checks.host_report import HostReport
from fleet.facts.fact import Unknown
from fleet.images.image import LocalImage
from fleet.images.third_party import MONITORING
from fleet.inventory.hosts import Host, Inventory, load
from fleet.inventory.secrets import read_all
from fleet.monitoring.role import monitoring_part, read_inputs
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import assign
from fleet.release.release import Release, found_images, wanted_images
from fleet.rollout import fleet as rollout
from fleet.rollout.fitness import HostSnapshot
from fleet.ssh.connection_pool import Connections

ROOT = Path(__file__).resolve().parents[4]
CAPTURES = ROOT / "tests/captures/releases"
FLEETS = yaml.safe_load((CAPTURES / "inventories.yaml").read_text(encoding="utf-8"))
HASHES = CAPTURES / "hashes.json"
SECRETS = {
    "bark-api-keys": "alice: " + "5e" * 32 + "\n",
    "bark-store-password": "a-long-password",
    "bark-session-secret": "thirty-two-characters-and-some-more",
    "cluster-token": "7a" * 32,
    "gateway-certificate": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
    "gateway-key": "-----BEGIN " + "PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n",
    "grafana-admin-password": "another-password",
    "alert-chat": "https://chat.example/hook",
}


def image(name: str) -> LocalImage:
    return LocalImage(f"sha256:{hashlib.sha256(name.encode()).hexdigest()}", (f"sha256:{name}",), 1, f"voxyard-{name}")


def snapshot(host: Host) -> HostSnapshot:
    """A host with as many GPUs as its inventory says."""
    count = host.gpus if isinstance(host.gpus, int) else 2
    links: dict[str, Any] = {} if count == 2 else {"topology": Unknown("old"), "p2p": Unknown("old")}
    found = facts(gpus=tuple(map(gpu, range(count))), **links)
    report = HostReport(host, found, assign(found, host), ())
    return HostSnapshot(report, LoginInfo(host.address, gpus=count > 0, memory_mib=64 << 10))


def releases(fleet: Inventory) -> dict[str, Release]:
    """Releases as a plan makes them; of the monitoring programs without what changes with every rule and dashboard."""
    needed = {
        host.name: {role: image(role) for role in (*wanted_images(host), *found_images(host))} for host in fleet.hosts
    }
    inputs = read_inputs(ROOT, ROOT / "no site")
    inputs = replace(inputs, files={name: inputs.files[name] for name in inputs.files if name.count("/") == 1})
    programs = {name: image(name) for name in MONITORING}
    parts = {
        host.name: (monitoring_part(fleet, inputs, read_all(host.secrets), programs),)
        for host in fleet.hosts
        if "monitoring" in host.roles
    }
    snapshots = {host.name: snapshot(host) for host in fleet.hosts}
    with Connections(lambda _: nullcontext(RecordingSession())) as connections:
        planned = rollout.plan_hosts(fleet.hosts, connections, snapshots, needed, ROOT / "deploy/compose", parts=parts)
    assert not planned.failed, planned.failed
    return {name: each.release for name, each in planned.succeeded.items()}


@pytest.mark.parametrize("name", FLEETS)
def test_releases_are_the_same_byte_for_byte(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "read_state", lambda *_: None)
    monkeypatch.setattr(rollout, "plan_change", lambda *_: None)
    (tmp_path / "hosts.yaml").write_text(yaml.safe_dump(FLEETS[name], sort_keys=False))
    (tmp_path / "own.yaml").write_text("services: {bark: {cpus: 4}}\n")
    (tmp_path / "secrets.yaml").write_text(yaml.safe_dump(SECRETS))
    (tmp_path / "secrets.yaml").chmod(0o600)
    write_model(tmp_path / "weights")

    made = releases(load(tmp_path / "hosts.yaml"))

    found = {
        host: {file: hashlib.sha256(content).hexdigest()[:16] for file, content in sorted(release.files)}
        | {f"secrets/{secret}": "" for secret in sorted(release.secrets)}
        for host, release in made.items()
    }
    if os.environ.get("VOXYARD_WRITE_RELEASES"):
        known = json.loads(HASHES.read_text()) if HASHES.exists() else {}
        HASHES.write_text(json.dumps(known | {name: found}, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(HASHES.read_text())[name]
