"""Services of the operator's own, role `custom`: inventory, release, gate, rollback, status."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import facts, gpu, host, uuid
from release_doubles import image
from rollout_steps import deploy, roll_back, rollout_context
from shell_host import FakeServices, ShellHost

from fleet.checks.finding import ALL_SERVICES, Finding
from fleet.checks.preflight import HostRequirements, preflight
from fleet.errors import FleetError
from fleet.inventory.custom_settings import OURS, Custom, HealthUrl
from fleet.inventory.hosts import Host, Inventory, load
from fleet.monitoring.render import base_configuration, render_configuration
from fleet.release.custom import HOST_FILE, custom_part
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import assign
from fleet.release.plan import plan_document
from fleet.release.release import Release, read_inputs, render
from fleet.rollout import restart
from fleet.rollout.fitness import withheld_services
from fleet.rollout.status import read_status

ROOT = Path(__file__).resolve().parents[4]
COMPOSE = ROOT / "deploy/compose"
LOGIN = LoginInfo("127.0.0.1", gpus=False)
PART = "services:\n  embeddings:\n    command: [serve]\n    ports: ['127.0.0.1:8200:8200']\n"
FLEET = """
hosts:
  gpu-01:
    address: 192.0.2.11
    user: voxyard
    roles: [custom]
    custom:
      embeddings:
        image: registry.example/embeddings@sha256:0123
        compose: embeddings.yaml
        health: http://127.0.0.1:8200/healthz?deep=1
"""


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """Compose part of the service."""
    path = tmp_path / "embeddings.yaml"
    path.write_text(PART)
    return path


def on(part: Path, port: int = 8200, path: str = "/ready", **more: object) -> Host:
    settings = Custom("embeddings:1", part, HealthUrl("127.0.0.1", port, path), start_seconds=2)
    roles = {"roles": ("custom",), "custom": {"embeddings": settings}}
    return host(**{**roles, "node_exporter": False, "exporter_port": port, **more})


def made(wanted: Host, version: str = "1", gpus: int = 0) -> Release:
    images = {"exporter": image("exporter"), "embeddings": image("embeddings", version)}
    assignment = assign(facts(gpus=tuple(map(gpu, range(gpus)))), wanted)
    inputs = read_inputs(wanted, LOGIN, COMPOSE, images)
    parts = [custom_part(wanted, images, assignment, inputs.secrets)] if wanted.own_services else []
    return render(wanted, assignment, LOGIN, replace(inputs, parts=tuple(parts)))


def with_settings(wanted: Host, **settings: Any) -> Host:
    """The host, whose service has these settings."""
    return replace(wanted, custom={"embeddings": replace(wanted.custom["embeddings"], **settings)})


def test_the_inventory_names_image_compose_part_and_health(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text(FLEET)
    (found,) = load(tmp_path / "hosts.yaml").hosts
    settings = found.own_services["embeddings"]
    assert settings.compose == tmp_path / "embeddings.yaml"
    assert settings.health == HealthUrl("127.0.0.1", 8200, "/healthz?deep=1")
    assert {each.port: each.service for each in found.listeners}[8200] == "embeddings"
    assert not replace(found, roles=()).own_services


def test_metrics_may_be_at_an_address_with_a_zone(tmp_path: Path) -> None:
    for zone in ("%eth0", "%25eth0"):  # as it is written elsewhere, and as URLs spell it
        metrics = f"        metrics: http://[fe80::1{zone}]:8200/metrics\n        health"
        (tmp_path / "hosts.yaml").write_text(FLEET.replace("        health", metrics))
        (found,) = load(tmp_path / "hosts.yaml").hosts
        assert found.custom["embeddings"].metrics == HealthUrl("fe80::1%eth0", 8200, "/metrics")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("      embeddings:", "      bark:", r":8: hosts.gpu-01.custom.bark: bark is a service of voxyard's: choose"),
        ("      embeddings:", "      Two Words:", r"hosts.gpu-01.custom.Two Words: expected a name such as"),
        ("        compose: embeddings.yaml\n", "", r":8: hosts.gpu-01.custom.embeddings.compose: missing"),
        ("compose: e", "composed: e", r":10: hosts.gpu-01.custom.embeddings.composed: unknown key: is compose meant"),
        ("registry.example/", "'two words'  #", r":9: hosts.gpu-01.custom.embeddings.image: expected an image"),
        ("http:", "https:", r":11: hosts.gpu-01.custom.embeddings.health: expected a URL as its host asks it"),
        (":8200", "", r":11: hosts.gpu-01.custom.embeddings.health: .*its port is part of it"),
        (":8200", ":99999", r":11: hosts.gpu-01.custom.embeddings.health: expected a URL"),
        ("        health", "        gpus: -1\n        health", r":11: .*\.embeddings\.gpus: expected a number of GPUs"),
        ("        health", "        secrets: [token]\n        health", r":11: .*\.secrets: .* custom-token"),
        (
            "        health", "        metrics: http://127.0.0.1:8200/metrics\n        health",
            r":11: hosts.gpu-01.custom.embeddings.metrics: expected a URL as Prometheus asks it",
        ),
        (":8200", ":9410", r":11: hosts.gpu-01: port 9410 is used by the exporter and by the service embeddings"),
        (FLEET[FLEET.index("    custom:") :], "", r":6: hosts.gpu-01.roles: the role custom, and no service"),
    ],
)  # fmt: skip
def test_what_cannot_be_deployed_is_refused_by_line_and_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in FLEET
    (tmp_path / "hosts.yaml").write_text(FLEET.replace(old, new))
    with pytest.raises(FleetError, match=said):
        load(tmp_path / "hosts.yaml")


def test_no_service_of_ours_can_be_named() -> None:
    assert set(OURS) == set(ALL_SERVICES)


def test_the_release_adds_image_and_labels_and_changes_no_other_service(part: Path) -> None:
    wanted = on(part)
    release = made(wanted)
    files = dict(release.files)
    entry = yaml.safe_load(files[HOST_FILE])["services"]["embeddings"]
    assert release.compose_files[-2:] == ("custom-embeddings.yaml", HOST_FILE)
    assert files["custom-embeddings.yaml"] == PART.encode()
    assert entry["image"] == "${VOXYARD_EMBEDDINGS_IMAGE:?is written by fab deploy}"
    assert entry["labels"]["voxyard.role"] == "embeddings"
    assert image("embeddings") in release.images
    alone = made(replace(wanted, roles=()))
    assert release.services[0] == alone.services[0]  # the exporter's container stays
    part.write_text(PART + "    restart: 'no'\n")
    other = made(wanted)
    assert other.services[1].config != release.services[1].config
    assert "restart" not in yaml.safe_load(dict(other.files)[HOST_FILE])["services"]["embeddings"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("services: {other: {}}", "expected one service, embeddings, found other"),
        ("services: {embeddings: {}, db: {}}", "expected one service, embeddings, found embeddings, db"),
        ("services: {}", "found none"),
        ("include: [more.yaml]\nservices: {embeddings: {}}", "`include`: leave"),
        ("services: {embeddings: {image: x}}", "services.embeddings.image: leave it out"),
        ("services: {embeddings: {env_file: a.env}}", "services.embeddings.env_file: leave it out"),
        ("services: {embeddings: [a]}", "services.embeddings: expected a mapping"),
        ("services: {embeddings: {volumes: ['./models:/models']}}", r"\./models is not on the host"),
        ("services: {embeddings: {volumes: ['models/a:/models']}}", "models/a is not on the host"),
        ("services: {embeddings: {volumes: [{type: bind, source: ../m, target: /m}]}}", r"\.\./m is not on the host"),
        ("services: {embeddings: {}}\nsecrets: {key: {file: key.txt}}", "key.txt is not on the host"),
        ("services: [a", r":1: not YAML"),
        ("services: &all {embeddings: *all}", r":1: not YAML: an alias stands within its own anchor"),
        ("services:\n  embeddings: &one {image: x, <<: *one}", r":2: not YAML: an alias stands within its own anchor"),
    ],
)
def test_a_compose_part_that_one_file_cannot_carry_is_refused(part: Path, text: str, said: str) -> None:
    part.write_text(text)
    with pytest.raises(FleetError, match=f"embeddings.yaml:? ?.*{said}"):
        made(on(part))


def entry_of(release: Release) -> dict[str, Any]:
    """What a deploy adds to the service."""
    found: dict[str, Any] = yaml.safe_load(dict(release.files)[HOST_FILE])["services"]["embeddings"]
    return found


@pytest.mark.parametrize(
    ("roles", "gpus", "wanted", "own", "ours"),
    [
        ((), 2, 1, [1], []),
        (("bark",), 4, 2, [2, 3], [0, 1]),
        (("trainer",), 3, 1, [2], [0, 1]),
        (("trainer",), 2, 1, [1], [0]),  # instead of a pair
        (("trainer", "bark"), 4, 1, [3], [0, 1, 2]),
    ],
)
def test_it_has_gpus_of_its_own_that_the_other_roles_leave(
    part: Path, roles: tuple[str, ...], gpus: int, wanted: int, own: list[int], ours: list[int]
) -> None:
    there = with_settings(on(part, roles=(*roles, "custom")), gpus=wanted)
    assignment = assign(facts(gpus=tuple(map(gpu, range(gpus))), topology="", p2p=""), there)
    found = [each.gpu for each in assignment.workloads if each.workload == "embeddings"]
    assert found == [uuid(index) for index in own]
    assert sorted({each.gpu for each in assignment.workloads} - set(found)) == [uuid(index) for index in ours]
    assert {each["workload"] for each in plan_document(assignment)["workloads"]} <= set(roles)  # type: ignore[attr-defined]


def test_its_gpus_are_reserved_by_uuid(part: Path) -> None:
    release = made(with_settings(on(part), gpus=1), gpus=2)
    (device,) = entry_of(release)["deploy"]["resources"]["reservations"]["devices"]
    assert device["device_ids"] == [uuid(1)]
    for key, value in (("deploy", "{replicas: 1}"), ("gpus", "all")):
        part.write_text(f"{PART}    {key}: {value}\n")
        with pytest.raises(FleetError, match=rf"services\.embeddings\.{key}: leave it out: the GPUs are those of gpus"):
            made(with_settings(on(part), gpus=1), gpus=2)


def test_gpus_that_are_not_there_fail_its_check_and_its_release_and_no_exporter(part: Path) -> None:
    there = with_settings(on(part, roles=("bark", "custom"), gpus=2), gpus=2)
    now = facts(gpus=(gpu(0), gpu(1)))
    assignment = assign(now, there)
    findings = preflight(now, there, HostRequirements(), assignment)
    assert assignment.problem == "embeddings: expected 2 GPUs beside those of the other roles, found 1"
    assert set(withheld_services(there, findings)) == {"bark", "embeddings"}
    with pytest.raises(FleetError, match=r"gpu-01: embeddings: expected 3 GPUs \(embeddings: expected 3 GPUs beside"):
        made(with_settings(on(part), gpus=3), gpus=2)


def test_a_sick_gpu_is_left_out_where_the_others_suffice_for_it(part: Path) -> None:
    there = with_settings(on(part, gpus=2), gpus=1)
    now = facts(gpus=(gpu(0), gpu(1, recovery_action="Reset")))
    assert [each.gpu for each in assign(now, there).workloads] == [uuid(0)]
    assert not withheld_services(there, preflight(now, there, HostRequirements(), assign(now, there)))


def test_its_secrets_are_files_in_its_container_that_belong_to_the_login(part: Path, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.yaml"
    secrets.write_text("custom-token: hush\ncustom-other: for another\n")
    secrets.chmod(0o600)
    there = with_settings(on(part, secrets=(secrets,)), secrets=("custom-token",))
    release = made(there)
    (file,) = release.secrets
    assert file.startswith("custom-token.")
    assert release.secrets[file] == b"hush"
    assert entry_of(release)["secrets"] == ["custom-token"]
    document = yaml.safe_load(dict(release.files)[HOST_FILE])
    assert document["secrets"] == {"custom-token": {"file": f"../../secrets/{file}"}}
    assert not any(b"hush" in content for _, content in release.files)
    assert file not in restart.start("r", (), "voxyard.env", "bark", secrets=release.secrets).text
    secrets.write_text("custom-token: other\n")
    assert made(there).services[1].config != release.services[1].config
    with pytest.raises(FleetError, match=r"gpu-01: add the secret custom-gone to .*secrets\.yaml"):
        made(with_settings(there, secrets=("custom-gone",)))


def test_it_is_scraped_where_it_has_metrics(part: Path) -> None:
    there = with_settings(on(part), metrics=HealthUrl("192.0.2.11", 8200, "/stats"))
    base = base_configuration(ROOT / "deploy/alertmanager/alertmanager.yml")
    files = render_configuration(Inventory(part, (there,), ()), base, encrypted=["gpu-01"])
    assert yaml.safe_load(files["prometheus/targets/custom.yaml"]) == [
        {
            "targets": ["192.0.2.11:8200"],
            "labels": {"host": "gpu-01", "workload": "embeddings", "__metrics_path__": "/stats"},
        }
    ]


def test_a_missing_compose_part_is_named(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"gone.yaml: no such compose file, required for gpu-01"):
        made(on(tmp_path / "gone.yaml"))


def test_what_blocks_every_service_blocks_it_and_a_sick_gpu_does_not(part: Path) -> None:
    every = Finding("FAIL", "docker", "gone", "install it")
    assert "embeddings" in withheld_services(on(part), [every])
    assert not withheld_services(on(part), [replace(every, services=("bark", "trainer"))])


@pytest.mark.slow
def test_it_is_deployed_gated_rolled_back_and_shown_as_the_others(part: Path, tmp_path: Path) -> None:
    services, target = FakeServices(), ShellHost(tmp_path / "host")
    context = rollout_context(tmp_path)
    target.engine.modes = {image("embeddings", each).reference: "unchecked" for each in "12"}
    try:
        wanted = on(part, services.port)
        first, second = made(wanted), made(wanted, "2")
        assert deploy(target, first, context).result == "deployed"
        assert target.services()["embeddings"] == first.services[1].config
        assert not [words for _, words in target.engine.ran if "embeddings" in " ".join(words)]  # nothing handed over
        services.bad.add("/ready")
        broken = deploy(target, second, context)
        assert broken.result == "failed"
        assert "/ready: answers 503" in broken.note
        services.bad.clear()
        assert deploy(target, second, context).result == "deployed"
        assert roll_back(target, context).after == first.id
        assert target.services()["embeddings"] == first.services[1].config
        shown = {each.name: each for each in read_status(target, "gpu-01").services}["embeddings"]
        assert (shown.well, shown.answers, shown.state) == (True, "up", "running, no health check")
        assert deploy(target, made(replace(wanted, roles=())), context).result == "deployed"
        assert "embeddings" not in target.services()
    finally:
        services.close()
        target.close()
