"""Roles head and worker: what an inventory may say of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.errors import FleetError
from fleet.inventory.hosts import Inventory, load
from fleet.inventory.ray_clusters import members, ray_listeners
from fleet.inventory.secrets import read

FLEET = """
defaults: {user: voxyard, ray: {cluster: lab}, bark: {weights: w}}
hosts:
  desk: {address: desk.lab, roles: [head, bark], gpus: 0, ray: {address: 10.0.0.1}}
  gpu-01: {address: 10.0.0.2, roles: [worker]}
  gpu-02: {address: 203.0.113.12, roles: [worker], ray: {address: 10.0.0.3}}
  train: {address: 10.0.0.4, roles: [trainer]}
  watch: {address: 10.0.0.5, roles: [monitoring]}
"""
Read = Callable[[str], Inventory]


@pytest.fixture
def inventory(tmp_path: Path) -> Read:
    def load_text(text: str) -> Inventory:
        (tmp_path / "hosts.yaml").write_text(text)
        return load(tmp_path / "hosts.yaml")

    return load_text


def test_hosts_of_one_name_have_one_head_and_a_speech_service_without_gpus(inventory: Read) -> None:
    desk, one, two, train, watch = inventory(FLEET).hosts
    assert [each.ray_roles for each in (desk, one, two, train, watch)] == [
        ("head", "bark"), ("worker",), ("worker",), (), (),
    ]  # fmt: skip
    assert [each.ray_head for each in (desk, one, two, train)] == ["10.0.0.1", "10.0.0.1", "10.0.0.1", None]
    assert [each.ray_address for each in (desk, one, two)] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert [each.speaks_on_gpus for each in (desk, one, train)] == [False, True, False]
    assert [each.name for each in members([desk, one, two, train, watch])["lab"]] == ["desk", "gpu-01", "gpu-02"]


@pytest.mark.parametrize("place", ["127.0.0.1:6380", "redis.lab:6379", "'[fd00::1]:6379'"])
def test_a_redis_is_named_by_host_and_port(inventory: Read, place: str) -> None:
    found = inventory(FLEET.replace("ray: {address: 10.0.0.1}", f"ray: {{address: 10.0.0.1, redis: {place}}}"))
    assert found.hosts[0].ray.redis == place.strip("'")
    for wrong in ("redis.lab", "redis.lab:99999", "redis.lab:0"):
        with pytest.raises(FleetError, match=r"hosts\.desk\.ray\.redis: expected HOST:PORT of a Redis"):
            inventory(FLEET.replace("ray: {address: 10.0.0.1}", f"ray: {{address: 10.0.0.1, redis: {wrong}}}"))


def test_ports_of_a_node_are_those_of_the_host(inventory: Read) -> None:
    text = FLEET[: FLEET.index("  watch")]
    desk, one, *_, train = inventory(text).hosts
    assert {6379, 8176, 8177, 8178, 8179, 8184, 8276, 8277} <= {each.port for each in desk.listeners}
    assert {8076, 8077, 8084} <= {each.port for each in one.listeners}
    assert {each.port for each in train.listeners} == {9410, 9100, 9411}
    assert {each.service for each in ray_listeners(desk.ray_roles)} == {"head", "bark"}
    with pytest.raises(FleetError, match=r":6: hosts\.gpu-01: port 8084 is used by .* worker \(metrics\)"):
        inventory(text.replace("10.0.0.2,", "10.0.0.2, exporter_port: 8084,").replace("\ndefaults", "\n\ndefaults"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ray: {address: 10.0.0.1}", "ray: {address: 8.8.8.8}", r":4: hosts\.desk\.ray\.address: .*no private"),
        ("ray: {address: 10.0.0.1}", "ray: {address: 127.0.0.1}", r":4: hosts\.desk\.ray\.address: .* out of the"),
        (", ray: {address: 10.0.0.1}", "", r":4: hosts\.desk\.ray\.address: the host is desk\.lab: name its private"),
        (", ray: {address: 10.0.0.3}", ", ray: {address: 203.0.114.1}", r":6: hosts\.gpu-02\.ray\.address: "),
        ("[head, bark]", "[bark]", r":4: hosts\.desk\.ray\.cluster: the cluster lab has no head: add the role head"),
        ("roles: [worker]", "roles: [gateway]", r"hosts\.desk\.ray\.cluster: the cluster lab has no workers"),
        ("10.0.0.2, roles: [worker]", "10.0.0.2, roles: [head]", r":5: hosts\.gpu-01\.roles: desk has the head of"),
        ("10.0.0.2, roles: [worker]", "10.0.0.2, roles: [worker, bark]", r":5: hosts\.gpu-01\.roles: desk has the sp"),
        ("10.0.0.2, roles: [worker]", "10.0.0.2, roles: [worker, trainer]", r":5: hosts\.gpu-01\.roles: a worker"),
        ("10.0.0.2, roles: [worker]", "10.0.0.2, roles: [worker], bark: {weights: v}",
         r":5: hosts\.gpu-01\.bark\.weights: desk, of the same cluster, has other weights"),
        (", ray: {cluster: lab}", "", r":4: hosts\.desk\.roles: a head of no cluster: set ray\.cluster"),
        ("bark: {weights: w}", "bark: {weights: w, settings: {speech: {enable_parallel_tts: false}}}",
         r"hosts\.desk\.bark\.settings\.speech\.enable_parallel_tts: one worker"),
        ("ray: {cluster: lab}", "ray: {cluster: lab, address: 10.0.0.9}", r":2: defaults\.ray\.address: unknown key"),
        ("ray: {cluster: lab}", "ray: {name: lab}", r":2: defaults\.ray\.name: unknown key"),
        ("bark: {weights: w}", "bark: {weights: w, settings: {speech: {cluster: '10.0.0.1'}}}", r"the roles head and"),
    ],
)  # fmt: skip
def test_clusters_that_cannot_work_are_refused(inventory: Read, old: str, new: str, said: str) -> None:
    text = FLEET[: FLEET.index("  watch")]
    assert old in text
    with pytest.raises(FleetError, match=said):
        inventory(text.replace(old, new))


@pytest.mark.parametrize(("token", "said"), [("short", "at least 32 characters"), ("two " * 10, "expected one word")])
def test_a_token_is_one_long_word(tmp_path: Path, token: str, said: str) -> None:
    path = tmp_path / "secrets.yaml"
    path.touch(mode=0o600)
    path.write_text(f"cluster-token: {'ab' * 32}\n")
    assert read(path).of("cluster") == {"cluster-token": b"ab" * 32}
    path.write_text(f"cluster-token: '{token}'\n")
    with pytest.raises(FleetError, match=said) as caught:
        read(path)
    assert token not in str(caught.value)
