"""Services of the operator's own, role `custom`: inventory, release, gate, rollback, status."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from fleet_doubles import facts, host
from release_doubles import image
from rollout_steps import deploy, roll_back, rollout_context
from shell_host import FakeServices, ShellHost

from fleet.checks.finding import ALL_SERVICES, Finding
from fleet.errors import FleetError
from fleet.inventory.custom_settings import OURS, Custom, HealthUrl
from fleet.inventory.hosts import Host, load
from fleet.release.custom import HOST_FILE, custom_part
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import assign
from fleet.release.release import Release, read_inputs, render
from fleet.rollout.fitness import withheld_services
from fleet.rollout.status import read_status

COMPOSE = Path(__file__).resolve().parents[4] / "deploy/compose"
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


def made(wanted: Host, version: str = "1") -> Release:
    images = {"exporter": image("exporter"), "embeddings": image("embeddings", version)}
    parts = [custom_part(wanted, images)] if wanted.own_services else []
    inputs = read_inputs(wanted, LOGIN, COMPOSE, images, parts=parts)
    return render(wanted, assign(facts(gpus=()), wanted), LOGIN, inputs)


def test_the_inventory_names_image_compose_part_and_health(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text(FLEET)
    (found,) = load(tmp_path / "hosts.yaml").hosts
    settings = found.own_services["embeddings"]
    assert settings.compose == tmp_path / "embeddings.yaml"
    assert settings.health == HealthUrl("127.0.0.1", 8200, "/healthz?deep=1")
    assert {each.port: each.service for each in found.listeners}[8200] == "embeddings"
    assert not replace(found, roles=()).own_services


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
        ("services: {embeddings: {volumes: [{type: bind, source: ../m, target: /m}]}}", r"\.\./m is not on the host"),
        ("services: {embeddings: {}}\nsecrets: {key: {file: key.txt}}", "key.txt is not on the host"),
        ("services: [a", r":1: not YAML"),
    ],
)
def test_a_compose_part_that_one_file_cannot_carry_is_refused(part: Path, text: str, said: str) -> None:
    part.write_text(text)
    with pytest.raises(FleetError, match=f"embeddings.yaml:? ?.*{said}"):
        made(on(part))


def test_a_missing_compose_part_is_named(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"gone.yaml: no such compose file, required for gpu-01"):
        made(on(tmp_path / "gone.yaml"))


def test_what_blocks_every_service_blocks_it_and_a_sick_gpu_does_not(part: Path) -> None:
    every = Finding("FAIL", "docker", "gone", "install it")
    assert "embeddings" in withheld_services(on(part), [every])
    assert not withheld_services(on(part), [replace(every, services=("bark", "trainer"))])


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
        shown = {each.name: each for each in read_status(target).services}["embeddings"]
        assert (shown.well, shown.answers, shown.state) == (True, "up", "running, no health check")
        assert deploy(target, made(replace(wanted, roles=())), context).result == "deployed"
        assert "embeddings" not in target.services()
    finally:
        services.close()
        target.close()
