"""The role gateway: the inventory, HAProxy's configuration, and its part of a release."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import IMAGE, facts, host
from programs import program
from tiny_model import write_model

from fleet.checks.preflight import ports
from fleet.errors import FleetError
from fleet.gateway.configuration import CERTIFICATE, LUA, configuration
from fleet.gateway.part import gateway_part
from fleet.images import third_party
from fleet.images.image import LocalImage
from fleet.images.third_party import find_third_party
from fleet.inventory.gateway_settings import Gateway, Upstream
from fleet.inventory.hosts import Bark, Host, load
from fleet.inventory.secrets import read
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import assign
from fleet.release.release import Release, read_inputs, render
from voxyard.service.documents.records import instance_prefix, new_id

ROOT = Path(__file__).resolve().parents[4]
COMPOSE = ROOT / "deploy/compose"
LOGIN = LoginInfo("192.0.2.20", gpus=False, memory_mib=64 << 10)
PEM = "-----BEGIN {}-----\nMIIB\n-----END {}-----\n"
CERTIFICATE_PEM, KEY_PEM = (PEM.format(kind, kind) for kind in ("CERTIFICATE", "EC PRIVATE KEY"))
STORE = "postgresql://voxyard@db.lab/voxyard"
SECRETS = {
    "bark-api-keys": "alice: " + "a" * 64,
    "bark-session-secret": "s" * 32,
    "gateway-certificate": CERTIFICATE_PEM,
    "gateway-key": KEY_PEM,
}
FLEET = """
defaults: {user: voxyard, gateway: {wait_seconds: 60}}
hosts:
  gw: {address: 192.0.2.20, roles: [gateway, bark], gpus: 0, gateway: {port: 8443}}
  gpu-01: {address: 192.0.2.11, roles: [bark], bark: {port: 8081}}
  gpu-02: {address: gpu-02.lab, roles: [bark], bark: {address: 2001:db8::2}}
  train: {address: 192.0.2.13, roles: [trainer]}
"""


def inventory(folder: Path, text: str = FLEET) -> tuple[Host, ...]:
    path = folder / "hosts.yaml"
    path.write_text(text)
    return load(path).hosts


@pytest.fixture
def write_secrets(tmp_path: Path) -> Callable[..., Path]:
    """Writes a secrets file; what is None is left out."""

    def write(**other: str | None) -> Path:
        path = tmp_path / "secrets.yaml"
        path.touch(mode=0o600)
        values = {**SECRETS, **{name.replace("_", "-"): value for name, value in other.items()}}
        path.write_text(yaml.safe_dump({name: value for name, value in values.items() if value is not None}))
        return path

    return write


def gateway(**other: Any) -> Host:
    """Host with the role, and two services behind it."""
    found = (Upstream("gpu-01", "192.0.2.11", 8080), Upstream("gpu-02", "2001:db8::2", 8081))
    return host(name="gw", roles=("gateway",), upstreams=found, **other)


def shared(*stores: str | None) -> Host:
    """The gateway of services on one store, or on these."""
    given = stores or (STORE, STORE.replace("voxyard@", "other@"))
    return replace(
        gateway(),
        upstreams=tuple(replace(each, store=store) for each, store in zip(gateway().upstreams, given, strict=True)),
    )


def rendered(on: Host) -> Release:
    images = {"exporter": IMAGE, "gateway": replace(IMAGE, repository="voxyard-gateway")}
    part = gateway_part(on, LOGIN, COMPOSE, images["gateway"])
    return render(on, assign(facts(), on), LOGIN, read_inputs(on, LOGIN, COMPOSE, images, parts=(part,)))


def environment(release: Release) -> Mapping[str, str]:
    lines = dict(release.files)["voxyard.env"].decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_a_gateway_leads_to_all_speech_services_and_these_know_that_they_are_behind_one(tmp_path: Path) -> None:
    gw, one, two, train = inventory(tmp_path)
    assert gw.gateway == Gateway(port=8443, wait_seconds=60)
    assert gw.upstreams == (
        Upstream("gw", "192.0.2.20", 8080), Upstream("gpu-01", "192.0.2.11", 8081),
        Upstream("gpu-02", "2001:db8::2", 8080),
    )  # fmt: skip
    assert [each.behind_gateway for each in (gw, one, two, train)] == [True, True, True, False]
    assert [each.upstreams for each in (one, two, train)] == [(), (), ()]
    assert {each.port for each in gw.listeners if each.service == "gateway"} == {8443, 9412}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("bark: {port: 8081}", "bark: {address: 127.0.0.1}"), ":5: hosts.gpu-01.bark.address: 127.0.0.1 is out of"),
        (("gateway: {port: 8443}", "gateway: {port: 9412}"), ":4: hosts.gw: port 9412 is used by the gateway"),
        (("gateway: {port: 8443}", "gateway: {prot: 8443}"), ":4: hosts.gw.gateway.prot: unknown key: is port meant?"),
        (("gpus: 0,", "gpus: 0, upstreams: [],"), ":4: hosts.gw.upstreams: unknown key"),
        (("wait_seconds: 60", "address: 192.0.2.20"), ":2: defaults.gateway.address: unknown key"),
    ],
)
def test_what_cannot_work_is_named_by_file_line_and_key(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    with pytest.raises(FleetError) as caught:
        inventory(tmp_path, FLEET.replace(*change))
    assert said in str(caught.value)


def test_a_gateway_without_a_speech_service_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r":3: hosts\.gw\.roles: a gateway, and no host has the role bark"):
        inventory(tmp_path, "hosts:\n  gw:\n    roles: [gateway]\n    address: 192.0.2.20\n    user: voxyard\n")


def test_haproxy_takes_the_configuration(tmp_path: Path, write_secrets: Callable[..., Path]) -> None:
    haproxy = program("haproxy")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    pem = tmp_path / "gateway.pem"
    make = ["openssl", "req", "-x509", *curve, "-nodes", "-subj", "/CN=x", "-keyout", f"{pem}.key", "-out", str(pem)]
    subprocess.run(make, check=True, capture_output=True)
    for on in (gateway(), shared(), replace(gateway(), upstreams=(Upstream("gw", "192.0.2.20", 8080),))):
        path = tmp_path / "haproxy.cfg"
        text = configuration(on).replace(CERTIFICATE.encode(), str(pem).encode())
        path.write_bytes(text.replace(LUA.encode(), str(COMPOSE / "frozen.lua").encode()))
        done = subprocess.run([haproxy, "-c", "-f", path], capture_output=True, text=True, check=False)
        assert (done.returncode, "WARNING" in done.stdout + done.stderr) == (0, False), done.stderr


def test_ids_of_a_hosts_documents_lead_to_it() -> None:
    text, prefix = configuration(gateway()).decode(), instance_prefix("gpu-02")
    assert f"use_backend of_gpu-02 if {{ path_reg ^/v1/documents/{prefix}[0-9a-f]{{24}}(/.*)?$ }}" in text
    assert new_id("gpu-02").startswith(instance_prefix("gpu-02"))
    assert "backend of_gpu-02" in text
    assert "server gpu-02 [2001:db8::2]:8081" in text


def test_services_that_share_their_documents_serve_all_of_them() -> None:
    text = configuration(shared()).decode()
    assert not [word for word in ("of_gpu", "by_key", "path_reg", "url_param") if word in text]
    assert text.count("retry-on conn-failure empty-response") == 3
    for stores in ((STORE, None), (STORE, f"{STORE}2")):
        assert configuration(shared(*stores)) == configuration(gateway())


def test_the_place_of_a_host_among_keys_does_not_depend_on_the_others() -> None:
    def ids(on: Host) -> set[str]:
        return {line for line in configuration(on).decode().splitlines() if " id " in line and "gpu-02" in line}

    assert ids(gateway()) == ids(replace(gateway(), upstreams=gateway().upstreams[1:]))


def test_the_service_on_its_own_host_is_asked_by_its_name() -> None:
    text = configuration(replace(gateway(), upstreams=(Upstream("gw", "192.0.2.20", 8080),))).decode()
    assert "server gw bark:8080 resolvers docker init-addr none" in text
    assert "192.0.2.20" not in text


def test_the_part_has_the_certificate_as_versioned_secrets_and_a_change_touches_it_alone(
    write_secrets: Callable[..., Path],
) -> None:
    made = rendered(gateway(secrets=(write_secrets(),)))
    assert [(each.name, each.port, each.ready) for each in made.services] == [
        ("exporter", 9410, "/healthz"), ("gateway", 9412, "/healthz"),
    ]  # fmt: skip
    assert {name.partition(".")[0] for name in made.secrets} == {"gateway-certificate", "gateway-key"}
    assert KEY_PEM not in str(made.files)
    assert environment(made)["VOXYARD_GATEWAY_PORT"] == "443"
    assert "haproxy.cfg" in dict(made.files)
    other = rendered(gateway(secrets=(write_secrets(gateway_key=KEY_PEM.replace("MIIB", "MIIC")),)))
    fewer = rendered(replace(gateway(secrets=(write_secrets(),)), upstreams=gateway().upstreams[:1]))
    for changed in (other, fewer):
        before, after = ({each.name: each.config for each in one.services} for one in (made, changed))
        assert {name for name in before if before[name] != after[name]} == {"gateway"}


def test_a_gateway_without_a_certificate_is_refused(write_secrets: Callable[..., Path]) -> None:
    with pytest.raises(FleetError, match=r"gw: the gateway has no certificate: add gateway-key to .*secrets\.yaml"):
        rendered(gateway(secrets=(write_secrets(gateway_key=None),)))


@pytest.mark.parametrize("text", [CERTIFICATE_PEM.replace("CERTIFICATE", "EC PRIVATE KEY"), "MIIB", "x\ny"])
def test_a_certificate_that_is_none_is_refused_and_not_shown(write_secrets: Callable[..., Path], text: str) -> None:
    with pytest.raises(FleetError, match="gateway-certificate: expected PEM") as caught:
        read(write_secrets(gateway_certificate=text))
    assert "MIIB" not in str(caught.value)


def test_speech_services_behind_a_gateway_give_notice_and_share_the_sessions(
    tmp_path: Path, write_secrets: Callable[..., Path]
) -> None:
    write_model(tmp_path / "weights")
    alone = host(name="gpu-01", roles=("bark",), bark=Bark(weights=tmp_path / "weights"), secrets=(write_secrets(),))
    images = {"exporter": IMAGE, "bark": replace(IMAGE, repository="voxyard-bark")}
    found = {}
    for on in (alone, replace(alone, behind_gateway=True)):
        made = render(on, assign(facts(), on), LOGIN, read_inputs(on, LOGIN, COMPOSE, images))
        settings = yaml.safe_load(dict(made.files)["settings-bark.yaml"])["service"]
        service = made.service("bark")
        assert service is not None
        names = ("instance", "lame_duck_seconds", "stop_seconds", "session_secret")
        found[on.behind_gateway] = (*map(settings.get, names), service.stop_seconds)
    assert found == {
        False: ("gpu-01", None, 45, "/run/secrets/bark-session-secret", 60),
        True: ("gpu-01", 10, 45, "/run/secrets/bark-session-secret", 70),
    }
    lacks = replace(alone, behind_gateway=True, secrets=(write_secrets(bark_session_secret=None),))
    with pytest.raises(FleetError, match="one secret: add bark-session-secret"):
        read_inputs(lacks, LOGIN, COMPOSE, images)


def test_a_port_that_is_taken_keeps_the_gateway_alone_from_the_release() -> None:
    (found,) = ports(facts(ports=frozenset({443})), gateway())
    assert (found.level, found.services) == ("FAIL", ("gateway",))
    assert "change gateway.port" in found.remedy


def test_it_can_change_nothing_on_its_host() -> None:
    service = yaml.safe_load((COMPOSE / "gateway.yaml").read_text())["services"]["gateway"]
    assert (service["cap_drop"], service["read_only"]) == (["ALL"], True)
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "pids_limit", "healthcheck", "logging"} <= set(service)
    assert "cap_add" not in service


def test_its_image_is_the_pinned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def found(*words: str) -> LocalImage:
        asked.append(words)
        return IMAGE

    monkeypatch.setattr(third_party, "find_image", found)
    find_third_party("gateway", ROOT)
    assert [name for _, name in asked] == ["gateway"]
    assert asked[0][0].startswith("haproxy:")
