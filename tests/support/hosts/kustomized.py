"""Strict reader of kustomizations: builds those of `fab render` as kustomize does; anything else is an error."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Objects = list[dict[str, Any]]
_KEYS = {"apiVersion", "kind", "namespace", "resources", "images", "labels"}


def build(folder: Path) -> Objects:
    """Objects of the kustomization in `folder`. Raises AssertionError for what it does not understand."""
    top = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert set(top) <= _KEYS, f"unknown keys {set(top) - _KEYS}"
    assert (top["apiVersion"], top["kind"]) == ("kustomize.config.k8s.io/v1beta1", "Kustomization")
    found: Objects = []
    for name in top["resources"]:
        path = folder / name
        found += build(path) if path.is_dir() else list(yaml.load_all(path.read_text(), yaml.CSafeLoader))
    beside = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert beside <= set(top["resources"]), f"files of no resource: {beside - set(top['resources'])}"
    found = copy.deepcopy(found)
    used = set()
    for each in found:
        for container in containers(each):
            image = next((image for image in top.get("images", ()) if image["name"] == container["image"]), None)
            if image is not None:
                container["image"] = f"{image['newName']}@{image['digest']}"
                used.add(image["name"])
        for entry in top.get("labels", ()):
            assert set(entry) == {"pairs"}
            each["metadata"].setdefault("labels", {}).update(entry["pairs"])
        if "namespace" in top:
            key = "name" if each["kind"] == "Namespace" else "namespace"
            each["metadata"][key] = top["namespace"]
    assert used == {image["name"] for image in top.get("images", ())}, "an image that no container has"
    names = [identity(each) for each in found]
    assert len(names) == len(set(names)), "two objects of one name"
    return found


def build_with_kubectl(folder: Path) -> Objects:
    """Objects as `kubectl kustomize` builds them."""
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return list(yaml.load_all(done.stdout, yaml.CSafeLoader))


def builders() -> Mapping[str, Callable[[Path], Objects]]:
    """Ways to build that this machine has: our own, and kubectl where its kustomize is 4.1 or newer."""
    found: dict[str, Callable[[Path], Objects]] = {"reader": build}
    if shutil.which("kubectl") and _kustomize_of_kubectl() >= (4, 1):
        found["kubectl"] = build_with_kubectl
    return found


def identity(each: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and name."""
    return each["kind"], each["metadata"]["name"]


def containers(each: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Containers of an object with pods, those of its initialisation too."""
    for spec in pods_of(each):
        yield from (*spec.get("initContainers", ()), *spec["containers"])


def pod_of(each: Mapping[str, Any]) -> dict[str, Any] | None:
    """Pod spec of an object; None for one without pods."""
    found: dict[str, Any] | None = each.get("spec", {}).get("template", {}).get("spec")
    return found


def pods_of(each: Mapping[str, Any]) -> Objects:
    """Pod specs of an object: a RayCluster has those of its head and of its groups of workers."""
    if each["kind"] != "RayCluster":
        return [] if (pod := pod_of(each)) is None else [pod]
    spec = each["spec"]
    return [group["template"]["spec"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]


def _kustomize_of_kubectl() -> tuple[int, ...]:
    done = subprocess.run(["kubectl", "version", "--client", "--output=json"], capture_output=True, text=True)
    said = json.loads(done.stdout or "{}").get("kustomizeVersion", "v0.0")
    return tuple(int(part) for part in said.removeprefix("v").split(".")[:2])
