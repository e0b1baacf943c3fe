"""Pods are what compose parts are on a host: a change of either that the other lacks is found here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kustomized import build, pods_of

COMPOSE = Path(__file__).resolve().parents[4] / "deploy/compose"
USER = 65532
OF_HOSTS = {
    "VOXYARD_RELEASE",  # in a pod it would restart what a release does not change
    "VOXYARD_OUT_OF_WORK",  # sick GPUs of a cluster are its operators'
}
OF_PODS = {
    "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "PGPASSWORD", "POD_IP", "POD_NAME", "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN_PATH", "VOXYARD_SERVICE_INSTANCE", "VOXYARD_TRAIN_RESUME",
}  # fmt: skip
PLACES = {"/var/lib/voxyard/weights": "/var/lib/voxyard/artefacts", "/corpus": "/corpora"}


class Part(NamedTuple):
    file: str
    service: str
    overlay: str
    container: str


PARTS = [
    Part("exporter.yaml", "exporter", "overlays/lab", "exporter"),
    Part("bark.yaml", "bark", "overlays/lab", "bark"),
    Part("cluster-head.yaml", "head", "overlays/pool", "ray-head"),
    Part("cluster-worker.yaml", "worker", "overlays/pool", "ray-worker"),
    Part("trainer.yaml", "train", "runs/lab/train", "train"),
]


def quantity(text: str) -> str:
    """Kubernetes' quantity of a size such as 512m or 8g."""
    return f"{text[:-1]}{text[-1].upper()}i"


def seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


@pytest.fixture(params=PARTS, ids=[part.service for part in PARTS])
def both(request: pytest.FixtureRequest, out: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A compose service, its pod, and its container there."""
    part: Part = request.param
    service = yaml.safe_load((COMPOSE / part.file).read_text())["services"][part.service]
    pods = [pod for each in build(out / part.overlay) for pod in pods_of(each)]
    ((pod, container),) = [(pod, each) for pod in pods for each in pod["containers"] if each["name"] == part.container]
    return service, pod, container


def test_variables_are_the_same(both: tuple[dict[str, Any], ...]) -> None:
    service, _, container = both
    found = {each["name"]: each.get("value") for each in container["env"]}
    wanted = {name: str(value) for name, value in service["environment"].items() if name not in OF_HOSTS}
    assert set(wanted) <= set(found) <= set(wanted) | OF_PODS
    for name, value in wanted.items():
        assert found[name] == value or "${VOXYARD_" in value, name


def test_command_lines_are_the_same(both: tuple[dict[str, Any], ...]) -> None:
    service, _, container = both
    if container["name"] == "train":
        assert service["command"] == ["train"]  # by train.sh, with flags of the run
        return
    wanted, found = service.get("command", []), container.get("args", [])
    for one, other in zip(wanted, found, strict=False):
        assert one == other or one.startswith("${VOXYARD_")
    assert len(found) == len(wanted) or (container["name"] == "ray-worker" and found[len(wanted)] == "--device")


def test_memory_file_systems_and_limits_are_the_same(both: tuple[dict[str, Any], ...]) -> None:
    service, pod, container = both
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    sizes = {
        path: volumes[name]["emptyDir"].get("sizeLimit")
        for path, name in mounts.items()
        if path in ("/tmp", "/dev/shm")
    }
    wanted = {"/dev/shm": quantity(service["shm_size"])} if "shm_size" in service else {}
    for text in service.get("tmpfs", ()):
        path, _, options = text.partition(":")
        wanted[path] = quantity(re.findall("size=([0-9]+[mg])", options)[0])
    assert sizes == wanted
    if "mem_limit" in service:
        assert container["resources"]["limits"]["memory"] == quantity(service["mem_limit"])


def test_rights_are_the_same(both: tuple[dict[str, Any], ...]) -> None:
    service, pod, container = both
    assert service["user"].startswith(("${VOXYARD_UID", f"{USER}:{USER}"))
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (USER, USER)
    rights = container["securityContext"]
    assert (service["read_only"], service["cap_drop"]) == (
        rights["readOnlyRootFilesystem"],
        rights["capabilities"]["drop"],
    )
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert rights["allowPrivilegeEscalation"] is False


def test_what_is_mounted_is_the_same(both: tuple[dict[str, Any], ...]) -> None:
    service, _, container = both
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
    for volume in service.get("volumes", ()):
        if volume["target"] == "/var/lib/voxyard/gpus":
            continue  # sick GPUs of a cluster are its operators'
        target = Path(PLACES.get(volume["target"], volume["target"]))
        place = next(str(each) for each in (target, target.parent) if str(each) in mounts)
        assert mounts[place] is volume.get("read_only", False), target


def test_ports_and_checks_are_the_same(both: tuple[dict[str, Any], ...]) -> None:
    service, pod, container = both
    ports = [port["containerPort"] for port in container["ports"]]
    assert [port["target"] for port in service.get("ports", ())] in ([], ports)
    if not service["stop_grace_period"].startswith("$"):
        assert pod["terminationGracePeriodSeconds"] == seconds(service["stop_grace_period"])
    if container["name"].startswith("ray-"):
        return  # a pod is asked over HTTP; the host's command takes longer
    check = service["healthcheck"]
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container[name]
        assert (probe["periodSeconds"], probe["timeoutSeconds"]) == (
            seconds(check["interval"]),
            seconds(check["timeout"]),
        )
    assert container["readinessProbe"]["failureThreshold"] == check["retries"]
