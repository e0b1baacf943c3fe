"""A gateway before three speech services on CPUs, all with TLS, which change under load; and Prometheus."""

from __future__ import annotations

import json
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from gateway_load import Load
from programs import program
from tests.fleet import operators
from tests.fleet.bed import gateway_images, watchers
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, HostSpec
from tests.fleet.operators import KEY, Operator, containers, current, fake_image

from voxyard.service.documents.records import instance_prefix

NAMES = ("cpu-01", "cpu-02", "cpu-03")


@dataclass
class Fleet:
    """Operator, gateway, speech services, and clients."""

    operator: Operator
    gateway: GpuHost
    services: list[GpuHost]
    load: Load


@pytest.fixture(scope="module")
def fleet(engine: Engine, base_image: str, gpu_host: HostFactory, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    haproxy = program("haproxy")
    fake_image(engine, base_image, "exporter")
    gateway_images.build_service(engine, base_image)
    gateway_images.build_haproxy(engine, base_image, haproxy)
    watchers.build(engine)
    gateway, *services = gpu_host.several(*(HostSpec(name, gpus=[], toolkit=False) for name in ("gw", *NAMES)))
    folder = tmp_path_factory.mktemp("operator")
    entries = {
        "gw": operators.entry(gateway, roles=["gateway", "monitoring"], gpus=0, node_exporter=True),
        **{
            name: operators.entry(
                each, roles=["bark"], gpus=0, bark={"weights": "weights", "stop_seconds": 40}, node_exporter=True
            )
            for name, each in zip(NAMES, services, strict=True)
        },
    }
    settings = {"service": {"rate_limit": 0}, "speech": {"max_parallel_tts_workers": 1}}
    inventory = operators.write_fleet(folder, entries, defaults={"bark": {"settings": settings}})
    (folder / "site").mkdir()
    (folder / "site/compose.yaml").write_text("services: {grafana: !reset null}\n")  # it is in no Debian package
    operator = Operator(inventory, operators.environment(engine))
    operator.good("certificates", "--name", "speech.lab.example")
    secrets = folder / "secrets.yaml"
    secrets.write_text(yaml.safe_dump({**yaml.safe_load(secrets.read_text()), "bark-session-secret": "s" * 32}))
    document = yaml.safe_load(inventory.read_text())
    for each in document["hosts"].values():
        each["secrets"] = ["secrets.yaml", "certificates.yaml"]
    inventory.write_text(yaml.safe_dump(document, sort_keys=False))
    operator.good("deploy")
    trust = ssl.create_default_context(cafile=str(folder / "host-ca.pem"))
    return Fleet(operator, gateway, services, Load(f"https://{gateway.address}", KEY, trust))


def test_all_services_change_under_load_and_no_request_fails_and_no_document_is_lost(fleet: Fleet) -> None:
    load, before = fleet.load, [containers(each)["bark"] for each in fleet.services]
    gateway = containers(fleet.gateway)
    fleet.operator.change(bark={"settings": {"service": {"rate_limit": 0, "retention_hours": 24}}})
    with load.running():
        time.sleep(5)
        results = fleet.operator.results("deploy")
        time.sleep(5)
    assert results == {"gw": "unchanged", **dict.fromkeys(NAMES, "deployed")}
    after = [containers(each)["bark"] for each in fleet.services]
    assert [old == new for old, new in zip(before, after, strict=True)] == [False] * 3
    assert containers(fleet.gateway) == gateway
    assert load.failures == []
    assert {id[:8] for id in load.documents} == {instance_prefix(name) for name in NAMES}
    assert set(load.fetched) == set(load.documents)
    with load.client() as client:
        for id in load.documents:
            assert load.state(client, id)["state"] == "completed"
            load.fetch(client, id)
    print(f"{len(load.documents)} documents, requests: {load.requests}")


def test_prometheus_asks_all_of_them_over_tls(fleet: Fleet) -> None:
    wanted = {(job, name) for job in ("bark", "node") for name in NAMES} | {("node", "gw"), ("gateway", "gw")}
    deadline = time.monotonic() + 120
    while not wanted <= {(each["job"], each["instance"]) for each in query(fleet, "up == 1")}:
        assert time.monotonic() < deadline, query(fleet, "up")
        time.sleep(2)
    targets = ask(fleet, "/api/v1/targets?state=active")["activeTargets"]
    assert {each["scrapeUrl"].partition(":")[0] for each in targets if each["labels"]["job"] in ("bark", "node")} == {
        "https"
    }
    plain = fleet.services[0].run(f"curl -sS http://{fleet.services[0].address}:9100/metrics 2>&1 || true").stdout
    assert "node_load1" not in plain


def query(fleet: Fleet, expression: str) -> list[dict[str, str]]:
    """Labels of what an instant query returns."""
    return [each["metric"] for each in ask(fleet, f"/api/v1/query?query={quote(expression)}")["result"]]


def ask(fleet: Fleet, path: str) -> Any:
    """Data of an answer of Prometheus on the loopback of its host."""
    program = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:9090{path}').read().decode())"
    return json.loads(fleet.gateway.run(f'python3 -c "{program}"').stdout)["data"]


def test_the_key_of_the_certificate_is_a_secret_of_the_host_alone(fleet: Fleet) -> None:
    release = f"~voxyard/.voxyard/releases/{current(fleet.gateway)}"
    assert fleet.gateway.run(f"grep -rl 'PRIVATE KEY' {release} || true").stdout == ""
    modes = fleet.gateway.run("stat -c '%a %u' ~voxyard/.voxyard/secrets/gateway-key.*").stdout.split()
    assert modes == ["600", "65532"]
    own = fleet.services[0].run("stat -c '%n %a %u' ~voxyard/.voxyard/secrets/*").stdout
    assert "gateway" not in own
    rows = [line.rpartition("/")[2].split() for line in own.splitlines()]
    owners = {name.rpartition(".")[0]: (mode, owner) for name, mode, owner in rows if name.startswith("host-key")}
    assert owners == {"host-key": ("600", "65532"), "host-key.node-exporter": ("600", "65531")}
