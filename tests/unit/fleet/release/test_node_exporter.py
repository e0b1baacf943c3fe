"""node_exporter as a service of a release: its files, its image, its port, its health."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet_doubles import IMAGE, container, facts, host
from release_doubles import image, release

from fleet.checks.preflight import ports
from fleet.errors import FleetError
from fleet.facts.machine import HostImage
from fleet.images import pins, third_party
from fleet.images.image import LocalImage
from fleet.images.third_party import find_third_party
from fleet.inventory.hosts import Host
from fleet.monitoring.render import base_configuration, render_configuration
from fleet.release import manifest
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import assign
from fleet.release.manifest import ServiceEntry
from fleet.release.release import Release, read_inputs, render
from fleet.rollout.change_plan import plan_change
from fleet.rollout.host_state import HostState, probes
from fleet.rollout.host_state import problem as problem_of
from fleet.ssh.command_batch import Answer

ROOT = Path(__file__).resolve().parents[4]
DIGEST = "sha256:" + "9e" * 32
PULLED = LocalImage(DIGEST, (), 0, "voxyard-node-exporter", f"prom/node-exporter@{DIGEST}")
IMAGES = {"exporter": IMAGE, "trainer": replace(IMAGE, repository="voxyard-trainer"), "node-exporter": PULLED}
LOGIN = LoginInfo("192.0.2.11", gpus=True, memory_mib=64 << 10)


def measured(**other: Any) -> Host:
    """Host that gets a node_exporter."""
    return host(node_exporter=True, **other)


def rendered(on: Host) -> Release:
    return render(on, assign(facts(), on), LOGIN, read_inputs(on, LOGIN, ROOT / "deploy/compose", IMAGES))


def test_a_host_with_gpus_gets_one_beside_the_exporter_with_its_image_by_digest() -> None:
    made = rendered(measured())
    assert [(each.name, each.port) for each in made.services] == [("exporter", 9410), ("node-exporter", 9100)]
    assert made.compose_files == ("exporter.yaml", "node-exporter.yaml")
    assert PULLED in made.images
    lines = dict(made.files)["voxyard.env"].decode().splitlines()
    assert f"VOXYARD_NODE_EXPORTER_IMAGE=prom/node-exporter@{DIGEST}" in lines
    assert "VOXYARD_NODE_EXPORTER_LISTEN=192.0.2.11:9100" in lines
    assert f"VOXYARD_NODE_EXPORTER_CONFIG={made.services[1].config}" in lines
    assert manifest.manifest_of(made).service("node-exporter") is not None


def test_an_ipv6_address_is_written_as_its_command_line_reads_it() -> None:
    made = rendered(measured(exporter_address="2001:db8::2"))
    assert "VOXYARD_NODE_EXPORTER_LISTEN=[2001:db8::2]:9100" in dict(made.files)["voxyard.env"].decode().splitlines()


def test_a_host_that_has_one_already_gets_none() -> None:
    assert [each.name for each in rendered(host()).services] == ["exporter"]
    assert "node-exporter" not in {each.service for each in host().listeners}


def test_another_port_touches_it_alone() -> None:
    before, after = (rendered(measured(node_exporter_port=port)) for port in (9100, 9500))
    configs = [{each.name: each.config for each in made.services} for made in (before, after)]
    assert {name for name in configs[0] if configs[0][name] != configs[1][name]} == {"node-exporter"}


def test_it_reads_the_host_and_can_change_nothing() -> None:
    service = yaml.safe_load((ROOT / "deploy/compose/node-exporter.yaml").read_text())["services"]["node-exporter"]
    (mount,) = service["volumes"]
    assert (mount["source"], mount["target"], mount["read_only"]) == ("/", "/host", True)
    assert (service["user"], service["cap_drop"], service["read_only"]) == ("65534:65534", ["ALL"], True)
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "pids_limit", "healthcheck", "logging"} <= set(service)


def test_a_node_exporter_of_the_system_keeps_ours_from_the_release_and_the_ways_out_are_named() -> None:
    (found,) = ports(facts(ports=frozenset({9100})), measured())
    assert (found.level, found.services) == ("FAIL", ("node-exporter",))
    assert "node_exporter: false" in found.remedy
    assert "node_exporter_port" in found.remedy
    assert not list(ports(facts(ports=frozenset({9100})), host()))
    ours = container(name="voxyard-node-exporter-1", service="node-exporter", ports=(), host_network=True)
    assert not list(ports(facts(ports=frozenset({9100}), containers=(ours,)), measured()))


def test_prometheus_asks_where_it_listens() -> None:
    class Fleet:
        hosts = (measured(exporter_address="192.0.2.12", node_exporter_port=9500), host(name="gpu-02"))
        alert_receivers = ()

    base = base_configuration(ROOT / "deploy/alertmanager/alertmanager.yml")
    files = render_configuration(Fleet(), base)  # type: ignore[arg-type]
    groups = yaml.safe_load(files["prometheus/targets/node.yaml"])
    assert [each["targets"] for each in groups] == [["192.0.2.12:9500"], ["192.0.2.11:9100"]]


@pytest.mark.parametrize(
    ("prefix", "metric", "good"),
    [
        ("node_", "node_load1 0.1", True),
        ("node_", "voxyard_up 1", False),
        ("voxyard_", "node_load1 0.1", False),
    ],
)
def test_its_metrics_are_known_by_their_names(prefix: str, metric: str, good: bool) -> None:
    service = ServiceEntry("node-exporter", "", "", "127.0.0.1", 9100, "/", 10, 90, {}, prefix)
    said = (Answer("HTTP/1.0 200 OK\r\n\r\n"), Answer(f"HTTP/1.0 200 OK\r\n\r\n{metric}\n"))
    asked = probes(service)
    problem = problem_of(service, {each.name: answer for each, answer in zip(asked, said, strict=True)})
    assert (problem is None) == good


def test_an_image_of_which_only_the_digest_is_known_is_pulled_once() -> None:
    wanted = release(9100, configs={"exporter": "e-1"}, images={"exporter": PULLED})
    nothing = HostState(None, None, {}, (), {}, (), frozenset(), {}, (), {}, b"", None)
    assert f"pull image {PULLED.digest}" in plan_change(wanted, nothing).lines()
    there = HostImage("sha256:id", frozenset({PULLED.reference}), ("sha256:a", "sha256:b"))
    assert not plan_change(wanted, replace(nothing, images=(there,))).image_transfers


def lock(folder: Path, digest: str | None) -> Path:
    (folder / "images").mkdir()
    (folder / pins.LOCK).write_text(pins.text({"node-exporter": pins.Pin("prom/node-exporter:v1.9.1", digest)}))
    return folder


def test_the_pinned_image_is_pulled_by_the_hosts_and_needs_no_engine_here(tmp_path: Path) -> None:
    assert find_third_party("node-exporter", lock(tmp_path, DIGEST)) == PULLED


def test_an_image_without_a_digest_is_the_local_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def found(*words: str) -> LocalImage:
        asked.append(words)
        return image("node-exporter")

    monkeypatch.setattr(third_party, "find_image", found)
    lock(tmp_path, None)
    assert find_third_party("node-exporter", tmp_path) == image("node-exporter")
    find_third_party("node-exporter", tmp_path, "mine:1")
    assert asked == [("prom/node-exporter:v1.9.1", "node-exporter"), ("mine:1", "node-exporter")]


def test_a_machine_without_an_engine_asks_the_registry_for_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(third_party, "digest_of", lambda name: f"{name.rpartition(':')[0]}@{DIGEST}")
    assert find_third_party("node-exporter", lock(tmp_path, None)) == PULLED

    def silent(name: str) -> str:
        raise FleetError(f"the registry of {name} does not answer")

    monkeypatch.setattr(third_party, "digest_of", silent)
    with pytest.raises(FleetError, match=r"v1\.9\.1 does not answer; or from this machine: docker is not installed"):
        find_third_party("node-exporter", tmp_path)


def test_an_image_that_is_nowhere_is_named_with_the_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str, _: str) -> LocalImage:
        raise FleetError(f"no image {name} on this machine: build it with make images")

    monkeypatch.setattr(third_party, "find_image", none)
    with pytest.raises(FleetError, match=r"no image prom/node-exporter:v1\.9\.1 .*images-lock.*node_exporter: false"):
        find_third_party("node-exporter", lock(tmp_path, None))
