"""TLS of a host's services in its release: settings, mounts, users of the files, and nothing without it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import IMAGE, facts, host
from gateway_certificate import new_authority

from fleet.certificates import make, write_secrets
from fleet.errors import FleetError
from fleet.gateway.part import gateway_part
from fleet.inventory.gateway_settings import Upstream
from fleet.inventory.host_tls import read_tls, with_tls
from fleet.inventory.hosts import Bark, Host
from fleet.inventory.secrets import read
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import assign
from fleet.release.manifest import manifest_of
from fleet.release.release import Release, read_inputs, render
from fleet.rollout.host_state import probes
from fleet.ssh.verbs import Tls
from voxyard.telemetry.web_config import read_web_config

COMPOSE = Path(__file__).resolve().parents[4] / "deploy/compose"
LOGIN = LoginInfo("192.0.2.11", gpus=True, memory_mib=64 << 10)
ROLES = ("bark", "trainer", "gateway")
IMAGES = {
    name: replace(IMAGE, repository=f"voxyard-{name}") for name in ("exporter", "node-exporter", *ROLES)
}  # fmt: skip
KEYS = "bark-api-keys: 'alice: " + "a" * 64 + f"'\nbark-session-secret: {'s' * 32}\n"


@pytest.fixture
def secured(tmp_path: Path, model: Path) -> Host:
    """Host with all roles, whose services speak TLS."""
    keys = tmp_path / "secrets.yaml"
    keys.touch(0o600)
    keys.write_text(KEYS)
    on = host(roles=ROLES, node_exporter=True, bark=Bark(weights=model), behind_gateway=True)
    secrets = (keys, make(tmp_path, [on], ["speech.lab.example"]).path)
    upstreams = (Upstream("gpu-01", "192.0.2.11", 8080, secrets), Upstream("gpu-02", "192.0.2.12", 8080))
    return replace(on, secrets=secrets, upstreams=upstreams)


def rendered(on: Host) -> Release:
    parts = (gateway_part(on, LOGIN, COMPOSE, IMAGES["gateway"]),)
    return render(on, assign(facts(), on), LOGIN, read_inputs(on, LOGIN, COMPOSE, IMAGES, parts=parts))


def documents(made: Release) -> Mapping[str, Any]:
    return {name: yaml.safe_load(body) for name, body in made.files if name in ("tls.yaml", "gateway-secrets.yaml")}


def test_every_service_has_a_certificate_and_is_asked_by_it(secured: Host) -> None:
    made = rendered(secured)
    found = manifest_of(made)
    names = [each.name for each in found.services]
    assert names == ["exporter", "node-exporter", "bark", "gateway"]
    for each in found.services:
        assert each.tls == Tls("gpu-01", f"releases/{made.id}/host-ca.pem")
        for command in probes(each):
            assert command.text.startswith("voxyard-host https_request GET 192.0.2.11 ")
            assert command.text.endswith(f" releases/{made.id}/host-ca.pem gpu-01")
    bark = yaml.safe_load(dict(made.files)["settings-bark.yaml"])["service"]
    assert (bark["tls_certificate"], bark["tls_key"]) == ("/run/secrets/host-certificate", "/run/secrets/host-key")
    services = documents(made)["tls.yaml"]["services"]
    assert services["exporter"]["environment"] == {"VOXYARD_EXPORTER_WEB_CONFIG": "/etc/voxyard/web.yaml"}
    assert services["node-exporter"]["command"][-1] == "--web.config.file=/etc/voxyard/web.yaml"
    assert len(services["node-exporter"]["command"]) == 4


def test_the_web_configuration_is_one_that_the_exporters_read(secured: Host, tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_bytes(dict(rendered(secured).files)["web.yaml"])
    tls = read_web_config(path).tls
    assert tls is not None
    assert (str(tls.cert_file), str(tls.key_file)) == ("/run/secrets/host-certificate", "/run/secrets/host-key")


def test_the_key_is_in_no_file_and_node_exporter_has_files_of_its_own_user(secured: Host) -> None:
    made = rendered(secured)
    tls = read_tls(secured)
    assert tls is not None
    assert not any(b"PRIVATE KEY" in body for _, body in made.files)
    keys = sorted(name for name, value in made.secrets.items() if value == tls.key)
    version = keys[0].rpartition(".")[2]
    assert keys == [f"host-key.{version}", f"host-key.node-exporter.{version}"]
    document = documents(made)["tls.yaml"]
    entry = document["services"]["node-exporter"]
    assert entry["user"] == "65531:65531"
    sources = {each["source"]: each["target"] for each in entry["secrets"]}
    assert sources["node-exporter-host-key"] == "/run/secrets/host-key"
    assert document["secrets"]["node-exporter-host-key"] == {"file": f"../../secrets/{keys[1]}"}
    assert document["secrets"]["host-key"] == {"file": f"../../secrets/{keys[0]}"}
    lines = dict(made.files)["voxyard.env"].decode().splitlines()
    assert {"VOXYARD_NODE_EXPORTER_UID=65531", f"VOXYARD_HOST_KEY={keys[0]}", "VOXYARD_HOST_TLS_NAME=gpu-01"} <= set(
        lines
    )


def test_what_other_users_read_in_containers_is_readable(secured: Host) -> None:
    with tarfile.open(fileobj=io.BytesIO(rendered(secured).archive())) as archive:
        modes = {member.name: member.mode for member in archive}
    assert {modes[name] for name in ("web.yaml", "host-ca.pem")} == {0o644}


def test_the_gateway_verifies_services_that_speak_tls_and_reaches_the_others_as_before(secured: Host) -> None:
    text = dict(rendered(secured).files)["haproxy.cfg"].decode()
    own = "bark:8080 resolvers docker init-addr none"
    tls = "ssl ssl-min-ver TLSv1.2 verify required ca-file /etc/voxyard/host-ca.pem verifyhost gpu-01"
    lines = [line for line in text.splitlines() if own in line]
    assert len(lines) == 6
    assert all(line.endswith(tls) for line in lines)
    assert "ssl" not in "".join(line for line in text.splitlines() if "192.0.2.12:8080" in line)
    entry = documents(rendered(secured))["gateway-secrets.yaml"]["services"]["gateway"]
    targets = {f"/run/secrets/{name}.pem{suffix}" for name in ("gateway", "host") for suffix in ("", ".key")}
    assert {each["target"] for each in entry["secrets"]} == targets
    assert entry["healthcheck"]["test"][-1] == "http://127.0.0.1:9413/healthz"


def test_a_renewed_certificate_restarts_what_reads_it(secured: Host, tmp_path: Path) -> None:
    before = {each.name: each.config for each in rendered(secured).services}
    make(tmp_path, [secured], [])
    after = {each.name: each.config for each in rendered(secured).services}
    assert {name for name in before if before[name] != after[name]} == set(before)


def test_without_certificates_nothing_is_another(secured: Host) -> None:
    keys, path = secured.secrets
    values = read(path).values
    write_secrets(path, {name: value for name, value in values.items() if name.startswith("gateway")})
    plain = replace(secured, upstreams=tuple(replace(each, secrets=()) for each in secured.upstreams))
    made = rendered(plain)
    names = dict(made.files)
    assert not {"tls.yaml", "web.yaml", "host-ca.pem"} & set(names)
    assert "tls" not in names["release.json"].decode()
    assert "TLS" not in names["voxyard.env"].decode()
    assert "verifyhost" not in names["haproxy.cfg"].decode()
    assert all(each.tls is None for each in manifest_of(made).services)
    assert keys in plain.secrets


@pytest.mark.parametrize("missing", ["host-certificate", "host-key", "host-ca"])
def test_two_of_the_three_are_an_error_that_names_the_third(secured: Host, missing: str) -> None:
    _, path = secured.secrets
    write_secrets(path, {name: value for name, value in read(path).values.items() if name != missing})
    with pytest.raises(
        FleetError, match=rf"all three or none: add {missing} to .*secrets\.yaml or .*certificates\.yaml"
    ):
        rendered(secured)


def test_a_gateway_that_could_verify_nobody_is_refused(secured: Host, tmp_path: Path) -> None:
    keys, path = secured.secrets
    own = tmp_path / "own.yaml"
    write_secrets(own, {name: value for name, value in read(path).values.items() if name.startswith("gateway")})
    with pytest.raises(
        FleetError, match="gpu-01 speak TLS, and the gateway has no host-ca to verify them: add host-cer"
    ):
        rendered(replace(secured, secrets=(keys, own)))


def test_hosts_may_have_a_certificate_each(tmp_path: Path) -> None:
    authority = new_authority(tmp_path / "authority", "localhost")
    files = {}
    for name in ("gpu-01", "gpu-02"):
        own = authority.of_host(name)
        values = {"host-certificate": own.certificate, "host-key": own.key, "host-ca": own.authorities}
        files[name] = tmp_path / f"{name}.yaml"
        write_secrets(files[name], values)
    hosts = [host(name=name, secrets=(path,)) for name, path in files.items()]
    found = [read_tls(each) for each in hosts]
    assert found[0] != found[1]
    assert with_tls([*((each.name, each.secrets) for each in hosts), ("gpu-03", ())]) == {"gpu-01", "gpu-02"}
