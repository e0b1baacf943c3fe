"""Parts of Kubernetes' objects that all renderings share: metadata, pods, claims, digests of a release's images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.images.image import LocalImage, repository_of
from fleet.release.environment import ENVIRONMENT_FILE
from fleet.release.release import Release
from fleet.release.service import Service
from fleet.render.documents import Document, labels
from fleet.render.pod import PodParts, container_security, pod_security

SECRET = "voxyard-bark"  # noqa: S105 - a name
SCRIPTS, ARTEFACTS = "voxyard-bark-scripts", "voxyard-bark-artefacts"
NODE = "kubernetes.io/hostname"
RELEASE, CONFIG = "voxyard/release", "voxyard/config"


def release_variables(release: Release) -> Mapping[str, str]:
    """Variables of the release's compose files."""
    lines = dict(release.files)[ENVIRONMENT_FILE].decode().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def pins(release: Release, role: str) -> list[dict[str, str]]:
    """Entry of a kustomization that replaces the name of a role's image by its digest."""
    return [_pin(image) for image in release.images if image.repository == repository_of(role)]


def pod_metadata(component: str, config: str, instance: str = "") -> dict[str, Any]:
    """Metadata of a pod template: a changed configuration starts new pods, another release alone does not."""
    return {"labels": labels(component, instance), "annotations": {CONFIG: config}}


def object_metadata(component: str, name: str, release: str, instance: str = "") -> dict[str, Any]:
    """Metadata of an object that starts pods, with the release that it is of."""
    return {"name": name, "labels": labels(component, instance), "annotations": {RELEASE: release}}


def pod_spec(parts_of: PodParts, stop_seconds: int, **more: Any) -> dict[str, Any]:
    """A pod with one container."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # they would set variables that begin as the settings do
        "terminationGracePeriodSeconds": stop_seconds,
        "securityContext": pod_security(),
        **more,
        "containers": [dict(parts_of.container)],
        "volumes": [dict(each) for each in parts_of.volumes],
    }


def one_a_node(component: str) -> dict[str, Any]:
    """Affinity that keeps pods of a component apart, for rules join them and the GPUs of their node by its name."""
    term = {"labelSelector": {"matchLabels": labels(component)}, "topologyKey": NODE}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def gpu_tolerations(gpus: int) -> dict[str, Any]:
    """Tolerations of pods on nodes that are kept for GPU work."""
    return {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]} if gpus else {}


def claim(
    name: str, storage: str, of_class: str | None, labelled: Mapping[str, str], *, many: bool = False
) -> Document:
    """A PersistentVolumeClaim of a storage class (None: the default one) for one pod at a time, or for `many`."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": dict(labelled)},
        "spec": {
            "accessModes": ["ReadWriteMany" if many else "ReadWriteOnce"],
            **({"storageClassName": of_class} if of_class else {}),
            "resources": {"requests": {"storage": storage}},
        },
    }


def awaiting_artefacts(made: PodParts, *volumes: Mapping[str, Any], shared: bool) -> tuple[PodParts, dict[str, Any]]:
    """The pod with `volumes`, and its init container, which waits until weights and voices are whole.

    They lie in the volume `volume` below artefacts, or where they are `shared` in `weights`.
    """
    of_weights = [{"name": "weights", "mountPath": "/volume/artefacts"}] if shared else []
    scripts = [
        {"name": "scripts", "configMap": {"name": SCRIPTS}},
        {"name": "artefacts", "configMap": {"name": ARTEFACTS}},
    ]
    waiting = {
        "name": "artefacts",
        "image": repository_of("bark"),
        "command": ["bash", "/etc/voxyard/scripts/artefacts.sh"],
        "env": [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "volume", "mountPath": "/volume"},
            *of_weights,
            {"name": "scripts", "mountPath": "/etc/voxyard/scripts", "readOnly": True},
            {"name": "artefacts", "mountPath": "/etc/voxyard/artefacts", "readOnly": True},
        ],
    }
    return PodParts(made.container, [*made.volumes, *volumes, *scripts]), waiting


def artefact_sources(release: Release, *, shared: bool) -> dict[str, tuple[str, str]]:
    """Places of weights and voices, of which compose files say where they lie on a host; for Storage."""
    return {
        f"../../artefacts/{each.name}": ("weights", each.name) if shared else ("volume", f"artefacts/{each.name}")
        for each in release.artefacts
    }


def startup(regular: Mapping[str, Any], start_seconds: int) -> dict[str, Any]:
    """Probe of a start, which may take so long."""
    return {**regular, "failureThreshold": -(-start_seconds // int(regular["periodSeconds"]))}


def service_in(release: Release, name: str) -> Service:
    """Service of this name in the release."""
    return next(each for each in release.services if each.name == name)


def _pin(image: LocalImage) -> dict[str, str]:
    name, _, digest = image.reference.partition("@")
    return {"name": image.repository, "newName": name, "digest": digest}
