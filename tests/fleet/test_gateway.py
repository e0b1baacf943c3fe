"""A gateway before three speech services on CPUs: a change is deployed to all of them under load."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass

import pytest
import yaml
from gateway_certificate import new_authority
from gateway_load import Load
from monitoring_programs import program
from tests.fleet import operators
from tests.fleet.bed import gateway_images
from tests.fleet.bed.engine import Engine
from tests.fleet.bed.host import GpuHost, HostFactory, HostSpec
from tests.fleet.operators import KEY, Operator, containers, current, fake_image

from voxyard.service.documents.ids import instance_prefix

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
    haproxy = program("haproxy", "haproxy")
    fake_image(engine, base_image, "exporter")
    gateway_images.build_service(engine, base_image)
    gateway_images.build_haproxy(engine, base_image, haproxy)
    gateway, *services = gpu_host.several(*(HostSpec(name, gpus=[], toolkit=False) for name in ("gw", *NAMES)))
    folder = tmp_path_factory.mktemp("operator")
    entries = {
        "gw": operators.entry(gateway, roles=["gateway"], gpus=0, secrets="secrets.yaml"),
        **{
            name: operators.entry(each, roles=["bark"], gpus=0, bark={"weights": "weights", "stop_seconds": 40})
            for name, each in zip(NAMES, services, strict=True)
        },
    }
    settings = {"service": {"rate_limit": 0}, "speech": {"max_parallel_tts_workers": 1}}
    inventory = operators.write_fleet(folder, entries, defaults={"bark": {"settings": settings}})
    authority = new_authority(folder, "speech.lab.example", gateway.address)
    secrets = folder / "secrets.yaml"
    more = {
        "bark-session-secret": "s" * 32,
        "gateway-certificate": authority.certificate,
        "gateway-key": authority.key,
    }
    secrets.write_text(yaml.safe_dump({**yaml.safe_load(secrets.read_text()), **more}))
    operator = Operator(inventory, operators.environment(engine))
    operator.good("deploy")
    trust = ssl.create_default_context(cafile=str(authority.root))
    return Fleet(operator, gateway, services, Load(f"https://{gateway.address}", KEY, trust))


def test_a_change_is_deployed_to_all_services_under_load_and_no_request_fails_and_no_document_is_lost(
    fleet: Fleet,
) -> None:
    load, before = fleet.load, [containers(each)["bark"] for each in fleet.services]
    gateway = containers(fleet.gateway)
    changed = {"service": {"rate_limit": 0, "retention_hours": 24}, "speech": {"max_parallel_tts_workers": 1}}
    with load.running():
        time.sleep(5)
        fleet.operator.change(bark={"settings": changed})
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


def test_the_key_of_the_certificate_is_a_secret_of_the_host_alone(fleet: Fleet) -> None:
    release = fleet.gateway.run(f"cat ~voxyard/.voxyard/releases/{current(fleet.gateway)}/*").stdout
    assert "PRIVATE KEY" not in release
    modes = fleet.gateway.run("stat -c '%a %u' ~voxyard/.voxyard/secrets/gateway-key.*").stdout.split()
    assert modes == ["600", "65532"]
    assert "gateway" not in fleet.services[0].run("ls ~voxyard/.voxyard/secrets").stdout
