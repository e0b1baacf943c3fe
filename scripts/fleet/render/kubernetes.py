"""Kubernetes: the overlay of a cluster, with the exporter and the speech service of its release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fleet.images.image import LocalImage, repository_of
from fleet.inventory.bark_settings import BARK_FILE
from fleet.inventory.clusters import Cluster
from fleet.release.environment import ENVIRONMENT_FILE
from fleet.release.release import PLAN_FILE, Release
from fleet.release.service import Service
from fleet.render.cluster_release import secret_names
from fleet.render.compose_service import service_of
from fleet.render.documents import KUSTOMIZATION, Document, config_map, kustomization, labels, to_bytes
from fleet.render.pod import ContainerRole, PodParts, Storage, container_security, parts, pod_security, probe

ARTEFACTS_SCRIPT = "deploy/kubernetes/artefacts.sh"
SECRET = "voxyard-bark"  # noqa: S105 - a name
NODE = "kubernetes.io/hostname"
ROUTES_SECONDS = 10
"""Time in which a pod that ends leaves the routes of its Service, before it is told to stop."""
RELEASE, CONFIG = "voxyard/release", "voxyard/config"


def overlay_files(cluster: Cluster, release: Release, root: Path) -> Mapping[str, bytes]:
    """Files of the cluster's overlay by name; `root` is the repository. Raises FleetError."""
    variables = release_variables(release)
    files = {
        "namespace.yaml": to_bytes([_namespace(cluster)], _heading(cluster)),
        "exporter.yaml": to_bytes(_exporter(cluster, release, variables), _heading(cluster)),
    }
    if "bark" in cluster.roles:
        script = (root / ARTEFACTS_SCRIPT).read_text(encoding="utf-8")
        files["bark.yaml"] = to_bytes(_bark(cluster, release, variables, script), _heading(cluster))
    monitoring = [{"pairs": dict(cluster.monitoring_labels)}] if cluster.monitoring_labels else []
    top = kustomization(
        _how_to_apply(cluster, release),
        namespace=cluster.namespace,
        resources=["../../base", *files],
        images=[pin for service in release.services for pin in pins(release, service.name)],
        **({"labels": monitoring} if monitoring else {}),
    )
    return files | {KUSTOMIZATION: top}


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


def claim(cluster: Cluster, name: str, storage: str, labelled: Mapping[str, str]) -> dict[str, Any]:
    """A PersistentVolumeClaim of one pod at a time."""
    of_class = {"storageClassName": cluster.storage_class} if cluster.storage_class else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": dict(labelled)},
        "spec": {"accessModes": ["ReadWriteOnce"], **of_class, "resources": {"requests": {"storage": storage}}},
    }


def _heading(cluster: Cluster) -> str:
    return f"Cluster {cluster.name}; written by fab render --to kubernetes."


def _how_to_apply(cluster: Cluster, release: Release) -> str:
    lines = [f"Release {release.id} for the cluster {cluster.name}; written by fab render --to kubernetes. Apply with"]
    lines += ["  kubectl apply --server-side --kustomize THIS-DIRECTORY"]
    if release.secrets:
        files = " ".join(f"--from-file={name}=FILE" for name in secret_names(release))
        lines += ["Once before, from files that hold the values of the secrets:"]
        lines += [f"  kubectl --namespace {cluster.namespace} create secret generic {SECRET} {files}"]
    if cluster.bark.replicas > 1 and "bark" in cluster.roles:
        lines += ["A change restarts all pods of the speech service at once; one after the other:"]
        lines += [
            f"  kubectl apply … --selector app.kubernetes.io/instance=voxyard-bark-N, for N to {cluster.bark.replicas}"
        ]
    if release.artefacts:
        names = " and ".join(f"{each.name} (the directory bark.{each.kind})" for each in release.artefacts)
        lines += [f"A new pod of the speech service waits for {names}: its container"]
        lines += ["`artefacts` prints the kubectl cp that brings the files, once a volume and version."]
    return "\n".join(lines)


def _namespace(cluster: Cluster) -> Document:
    standard = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.namespace, "labels": standard}}


def _exporter(cluster: Cluster, release: Release, variables: Mapping[str, str]) -> Sequence[Document]:
    service = _service(release, "exporter")
    entry = service_of(dict(release.files)["exporter.yaml"], "exporter.yaml", "exporter", variables)
    plan = config_map("voxyard-exporter", {PLAN_FILE: dict(release.files)[PLAN_FILE].decode()}, labels("exporter"))
    storage = Storage(
        {"plan": {"configMap": {"name": "voxyard-exporter"}}, "state": {"emptyDir": {}}},
        {f"./{PLAN_FILE}": ("plan", PLAN_FILE), "../../state": ("state", "")},
    )
    start = service.healthy_seconds
    probes = {
        "startupProbe": _startup(probe(entry, "/healthz", "metrics"), start),
        "livenessProbe": probe(entry, "/healthz", "metrics"),
        "readinessProbe": probe(entry, service.ready, "metrics"),
    }
    made = parts(entry, ContainerRole("exporter", "exporter", 9410, "metrics", more=probes), storage)
    runtime = {"runtimeClassName": cluster.runtime_class}
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": object_metadata("exporter", "voxyard-exporter", release.id),
        "spec": {
            "selector": {"matchLabels": labels("exporter")},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": pod_metadata("exporter", service.config),
                "spec": pod_spec(
                    made,
                    service.stop_seconds,
                    **runtime,
                    nodeSelector=dict(cluster.gpu_nodes),
                    tolerations=[{"operator": "Exists"}],
                ),
            },
        },
    }
    return plan, daemon_set


def _bark(
    cluster: Cluster, release: Release, variables: Mapping[str, str], artefacts_script: str
) -> Sequence[Document]:
    files = dict(release.files)
    settings = config_map("voxyard-bark", {BARK_FILE: files[BARK_FILE].decode()}, labels("bark"))
    lists = {
        each.name: "".join(f"{checksum}  {name}\n" for name, checksum in each.checksums.items())
        for each in release.artefacts
    }
    scripts = config_map("voxyard-bark-scripts", {"artefacts.sh": artefacts_script}, labels("bark"))
    artefacts = config_map("voxyard-bark-artefacts", lists, labels("bark"))
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "voxyard-bark", "labels": labels("bark")},
        "spec": {
            "selector": labels("bark"),
            "ports": [{"name": "http", "port": 8080, "targetPort": "http"}],
            # A document lies on the volume of the pod that took it.
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86400}},
        },
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "voxyard-bark", "labels": labels("bark")},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels("bark")}},
    }
    found: list[Document] = [settings, scripts, artefacts, service, budget]
    for number in range(1, cluster.bark.replicas + 1):
        name = f"voxyard-bark-{number}"
        found += [
            claim(cluster, name, cluster.bark.storage, labels("bark", name)),
            _bark_deployment(cluster, release, variables, name),
        ]
    return found


def _bark_deployment(cluster: Cluster, release: Release, variables: Mapping[str, str], name: str) -> Document:
    """One pod of the speech service: it stops before its successor starts, for its GPUs and its volume are its own."""
    files, service = dict(release.files), _service(release, "bark")
    entry = dict(service_of(files["bark.yaml"], "bark.yaml", "bark", variables))
    voices = next((each.name for each in release.artefacts if each.kind == "voices"), None)
    if voices is not None:
        mount = {"source": f"../../artefacts/{voices}", "target": "/var/lib/voxyard/voices", "read_only": True}
        entry["volumes"] = [*entry["volumes"], mount]
    storage = Storage(
        {"settings": {"configMap": {"name": "voxyard-bark"}}, "volume": {"persistentVolumeClaim": {"claimName": name}}},
        {
            f"./{BARK_FILE}": ("settings", BARK_FILE),
            "../../data/bark": ("volume", "data"),
            **{f"../../artefacts/{each.name}": ("volume", f"artefacts/{each.name}") for each in release.artefacts},
        },
    )
    more = {
        "startupProbe": _startup(probe(entry, service.ready, "http"), service.healthy_seconds),
        "livenessProbe": probe(entry, "/healthz", "http"),
        "readinessProbe": probe(entry, service.ready, "http"),
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(ROUTES_SECONDS)]}}},
    }
    target = ContainerRole(
        "bark",
        "bark",
        8080,
        "http",
        gpus=cluster.bark.gpus,
        memory=cluster.bark.memory,
        secrets=secret_names(release),
        secret=SECRET,
        more=more,
    )
    made = parts(entry, target, storage)
    scripts = [
        {"name": "scripts", "configMap": {"name": "voxyard-bark-scripts"}},
        {"name": "artefacts", "configMap": {"name": "voxyard-bark-artefacts"}},
    ]
    spec = pod_spec(
        PodParts(made.container, [*made.volumes, *scripts]),
        service.stop_seconds + ROUTES_SECONDS,
        initContainers=[_artefacts_container()],
        affinity=one_a_node("bark"),
        **gpu_tolerations(cluster.bark.gpus),
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": object_metadata("bark", name, release.id, name),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels("bark", name)},
            "template": {"metadata": pod_metadata("bark", service.config, name), "spec": spec},
        },
    }


def _artefacts_container() -> dict[str, Any]:
    return {
        "name": "artefacts",
        "image": repository_of("bark"),
        "command": ["bash", "/etc/voxyard/scripts/artefacts.sh"],
        "env": [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "volume", "mountPath": "/volume"},
            {"name": "scripts", "mountPath": "/etc/voxyard/scripts", "readOnly": True},
            {"name": "artefacts", "mountPath": "/etc/voxyard/artefacts", "readOnly": True},
        ],
    }


def _startup(regular: Mapping[str, Any], start_seconds: int) -> dict[str, Any]:
    """Probe of a start, which may take so long."""
    return {**regular, "failureThreshold": -(-start_seconds // int(regular["periodSeconds"]))}


def _service(release: Release, name: str) -> Service:
    return next(each for each in release.services if each.name == name)


def _pin(image: LocalImage) -> dict[str, str]:
    name, _, digest = image.reference.partition("@")
    return {"name": image.repository, "newName": name, "digest": digest}
