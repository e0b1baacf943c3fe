"""Releases of a Ray cluster's hosts: confined nodes, command lines that voxyard takes, GPUs, weights, token."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import IMAGE, facts, host, uuid
from tiny_model import write_model

from fleet.errors import FleetError
from fleet.inventory.hosts import Bark, Host, Role
from fleet.inventory.ray_clusters import RayNode
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import Assignment, assign
from fleet.release.ray_nodes import ray_part
from fleet.release.release import Release, read_inputs, render, wanted_images
from voxyard.cli import cluster
from voxyard.speech.config import SpeechSection

COMPOSE = Path(__file__).resolve().parents[4] / "deploy/compose"
LOGIN = LoginInfo("192.0.2.11", gpus=True, memory_mib=64 << 10)
IMAGES = {"exporter": replace(IMAGE, id="sha256:ee"), "bark": IMAGE}
TOKEN = "c0ffee" * 8


def member(folder: Path, *roles: Role, token: str | None = TOKEN, **more: Any) -> Host:
    path = folder / "secrets.yaml"
    path.touch(mode=0o600)
    values = {"bark-api-keys": "alice: " + "a" * 64, "cluster-token": token}
    path.write_text(yaml.safe_dump({name: value for name, value in values.items() if value}))
    bark = Bark(weights=write_model(folder / "weights"))
    found = host(roles=roles, bark=bark, secrets=(path,), ray=RayNode("lab", "10.0.0.2"), ray_head="10.0.0.1")
    return replace(found, **more)


def rendered(on: Host, login: LoginInfo = LOGIN, withheld: Sequence[str] = ()) -> Release:
    assignment = assign(facts(), on) if login.gpus else Assignment()
    inputs = read_inputs(on, login, COMPOSE, IMAGES)
    if {"head", "worker"} & set(on.roles):
        part = ray_part(on, login, COMPOSE, IMAGE, assignment, inputs.artefacts, withheld)
        inputs = replace(inputs, parts=(part,))
    return render(on, assignment, login, inputs, withheld=withheld)


def entry(made: Release, name: str) -> dict[str, Any]:
    """A service as Compose sees it, with all variables filled in; later files replace its keys."""
    lines = dict(made.files)["voxyard.env"].decode().splitlines()
    values = dict(line.split("=", 1) for line in lines)
    found: dict[str, Any] = {}
    for file in made.compose_files:
        text = re.sub(r"\$\{([A-Z_]+)(?::\?[^}]*)?\}", lambda each: values[each[1]], dict(made.files)[file].decode())
        found |= yaml.load(text.replace("!reset", ""), yaml.SafeLoader)["services"].get(name, {})
    return found


def test_command_and_health_check_are_command_lines_of_voxyard(tmp_path: Path) -> None:
    made = rendered(member(tmp_path, "head", "worker"))
    for name, command in (("head", cluster.head), ("worker", cluster.join)):
        found = entry(made, name)
        params = command.make_context(name, found["command"][2:]).params
        assert params["address"] == "10.0.0.1:6379"
        assert params["name"] == "gpu-01"
        assert params["token"] == Path("/run/secrets/cluster-token")
        if name == "worker":
            assert params["own"] == "10.0.0.2"
            assert (params["gpus"], params["workers"], params["device"]) == (f"{uuid(0)},{uuid(1)}", 2, "cuda")
        program, *asked = found["healthcheck"]["test"][1:]
        assert [program, *asked[:2]] == ["voxyard", "cluster", "status"]
        checked = cluster.status.make_context("status", asked[2:]).params
        assert checked["address"] == "10.0.0.1:6379"
        assert checked["expect"] == ("gpu-01" if name == "worker" else "")


def test_a_redis_of_the_inventory_keeps_the_heads_state(tmp_path: Path) -> None:
    plain = member(tmp_path, "head", "worker")
    kept = replace(plain, ray=replace(plain.ray, redis="127.0.0.1:6380"))
    commands = {name: entry(rendered(kept), name)["command"] for name in ("head", "worker")}
    assert cluster.head.make_context("head", commands["head"][2:]).params["redis"] == "127.0.0.1:6380"
    assert cluster.head.make_context("head", commands["head"][2:]).params["address"] == "10.0.0.1:6379"
    assert "--redis" not in [*commands["worker"], *entry(rendered(plain), "head")["command"]]


@pytest.mark.parametrize("name", ["head", "worker"])
def test_a_node_is_confined_and_started_again(tmp_path: Path, name: Role) -> None:
    made = rendered(member(tmp_path, name))
    found = entry(made, name)
    assert (found["network_mode"], found["restart"], found["read_only"]) == ("host", "unless-stopped", True)
    assert (found["cap_drop"], found["security_opt"], found["user"]) == (
        ["ALL"],
        ["no-new-privileges:true"],
        "65532:65532",
    )
    assert found["secrets"] == ["cluster-token"]
    assert "privileged" not in found
    assert "ports" not in found
    assert TOKEN not in str(made.files)
    ((file, value),) = made.secrets.items()
    assert (file.startswith("cluster-token."), value) == (True, TOKEN.encode())
    assert f"../../secrets/{file}" in dict(made.files)["cluster.yaml"].decode()
    service = made.service(name)
    assert service is not None
    assert (service.address, service.port) == ("10.0.0.2", 8184 if name == "head" else 8084)


def test_a_worker_has_the_gpus_weights_and_voices_of_its_host(tmp_path: Path) -> None:
    on = member(tmp_path, "worker")
    made = rendered(on)
    found = entry(made, "worker")
    (devices,) = found["deploy"]["resources"]["reservations"]["devices"]
    assert devices["device_ids"] == [uuid(0), uuid(1)]
    assert [each.kind for each in made.artefacts] == ["weights"]
    assert found["volumes"][0]["source"] == f"../../artefacts/{made.artefacts[0].name}"
    assert found["mem_limit"].endswith("m")
    assert wanted_images(on) == ("exporter", "bark")
    assert [each.id for each in made.images] == ["sha256:ee", IMAGE.id]
    other = write_model(tmp_path / "other")
    (other / "vocab.txt").write_text("[UNK]\nb\n")
    before, after = made.service("worker"), rendered(replace(on, bark=Bark(weights=other))).service("worker")
    assert before is not None
    assert after is not None
    assert before.config != after.config


def test_a_worker_without_gpus_is_on_the_cpu(tmp_path: Path) -> None:
    found = entry(rendered(member(tmp_path, "worker", gpus=0), LoginInfo("192.0.2.11", gpus=False)), "worker")
    assert found["command"][-2:] == ["--device", "cpu"]
    assert "deploy" not in found


def test_a_speech_service_of_a_cluster_has_no_gpu_of_its_own(tmp_path: Path) -> None:
    made = rendered(member(tmp_path, "head", "worker", "bark"))
    assert [each.name for each in made.services] == ["exporter", "head", "worker", "bark"]  # the order of their starts
    settings = yaml.safe_load(dict(made.files)["settings-bark.yaml"])
    assert settings["speech"] == {
        "pool": "ray", "cluster": "10.0.0.1:6379", "cluster_token": "/run/secrets/cluster-token",
    }  # fmt: skip
    assert {*settings["speech"]} <= {*SpeechSection.model_fields}
    assert "gpu_memory" not in settings["bark"]
    found = entry(made, "bark")
    assert "deploy" not in found
    assert "cluster-token" in found["secrets"]
    assert found["network_mode"] == "host"
    service = made.service("bark")
    assert service is not None
    assert service.gpu_limits == {}


def test_out_of_a_cluster_nothing_of_it_is_rendered(tmp_path: Path) -> None:
    made = rendered(member(tmp_path, "bark", ray=RayNode(), ray_head=None, token=None))
    assert "ray" not in dict(made.files)["settings-bark.yaml"].decode()
    assert "deploy" in entry(made, "bark")
    assert not [name for name in made.compose_files if "cluster" in name]


@pytest.mark.parametrize("roles", [("head",), ("worker",), ("bark",)])
def test_without_a_token_there_is_no_release(tmp_path: Path, roles: tuple[Role, ...]) -> None:
    with pytest.raises(FleetError, match=r"gpu-01: the cluster lab has no token.* add cluster-token to .*secrets"):
        rendered(member(tmp_path, *roles, token=None))


def test_a_worker_without_a_usable_gpu_is_refused_unless_it_is_withheld(tmp_path: Path) -> None:
    on = member(tmp_path, "worker")
    with pytest.raises(FleetError, match="gpu-01: no GPU for the worker: none is usable or free"):
        ray_part(on, LOGIN, COMPOSE, IMAGE, Assignment(), {})
    assert ray_part(on, LOGIN, COMPOSE, IMAGE, Assignment(), {}, ["worker"]).services
    made = rendered(on, withheld=["worker"])
    assert [each.name for each in made.services] == ["exporter"]
    assert made.artefacts == ()


def test_a_worker_needs_weights(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"gpu-01: the role worker needs weights: set bark\.weights"):
        rendered(member(tmp_path, "worker", bark=Bark()))
