"""Kubernetes: the overlay of a cluster, with the exporter and the speech service of its release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fleet.inventory.bark_settings import BARK_FILE
from fleet.inventory.clusters import Cluster
from fleet.release.plan import PLAN_FILE
from fleet.release.release import Release
from fleet.render.cluster_release import secret_names
from fleet.render.compose_service import service_of
from fleet.render.documents import KUSTOMIZATION, Document, config_map, kustomization, labels, to_bytes
from fleet.render.objects import (
    ARTEFACTS,
    SCRIPTS,
    SECRET,
    artefact_sources,
    awaiting_artefacts,
    claim,
    gpu_tolerations,
    object_metadata,
    one_a_node,
    pins,
    pod_metadata,
    pod_spec,
    release_variables,
    service_in,
    startup,
)
from fleet.render.pod import ContainerRole, Storage, parts, probe
from fleet.render.ray_cluster import WEIGHTS, ray_documents

ARTEFACTS_SCRIPT = "deploy/kubernetes/artefacts.sh"
ROUTES_SECONDS = 10
"""Time in which a pod that ends leaves the routes of its Service, before it is told to stop."""


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
    if cluster.has_workers:
        files["ray.yaml"] = to_bytes(ray_documents(cluster, release, variables), _heading(cluster))
    monitoring = [{"pairs": dict(cluster.monitoring_labels)}] if cluster.monitoring_labels else []
    top = kustomization(
        _how_to_apply(cluster, release),
        namespace=cluster.namespace,
        resources=["../../base", *files],
        images=[pin for service in release.services for pin in pins(release, service.name)],
        **({"labels": monitoring} if monitoring else {}),
    )
    return files | {KUSTOMIZATION: top}


def _heading(cluster: Cluster) -> str:
    return f"Cluster {cluster.name}; written by fab render --to kubernetes."


def _how_to_apply(cluster: Cluster, release: Release) -> str:
    lines = [f"Release {release.id} for the cluster {cluster.name}; written by fab render --to kubernetes. Apply with"]
    lines += ["  kubectl apply --server-side --kustomize THIS-DIRECTORY"]
    if release.secrets:
        files = " ".join(f"--from-file={name}=FILE" for name in secret_names(release))
        lines += ["Once before, from files that hold the values of the secrets:"]
        lines += [f"  kubectl --namespace {cluster.namespace} create secret generic {SECRET} {files}"]
    if cluster.has_workers:
        lines += [
            "It needs KubeRay 1.6 or newer. Another release ends all pods of the Ray cluster before it starts others."
        ]
    if cluster.bark.replicas > 1 and "bark" in cluster.roles:
        lines += ["A change restarts all pods of the speech service at once; one after the other:"]
        lines += [
            f"  kubectl apply … --selector app.kubernetes.io/instance=voxyard-bark-N, for N to {cluster.bark.replicas}"
        ]
    if release.artefacts:
        names = " and ".join(f"{each.name} (the directory bark.{each.kind})" for each in release.artefacts)
        which = "of the speech service or its workers" if cluster.has_workers else "of the speech service"
        lines += [f"A new pod {which} waits for {names}: its container"]
        lines += ["`artefacts` prints the kubectl cp that brings the files, once a volume and version."]
    return "\n".join(lines)


def _namespace(cluster: Cluster) -> Document:
    standard = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.namespace, "labels": standard}}


def _exporter(cluster: Cluster, release: Release, variables: Mapping[str, str]) -> Sequence[Document]:
    service = service_in(release, "exporter")
    entry = service_of(dict(release.files)["exporter.yaml"], "exporter.yaml", "exporter", variables)
    plan = config_map("voxyard-exporter", {PLAN_FILE: dict(release.files)[PLAN_FILE].decode()}, labels("exporter"))
    storage = Storage(
        {"plan": {"configMap": {"name": "voxyard-exporter"}}, "state": {"emptyDir": {}}},
        {f"./{PLAN_FILE}": ("plan", PLAN_FILE), "../../state": ("state", "")},
    )
    start = service.healthy_seconds
    probes = {
        "startupProbe": startup(probe(entry, "/healthz", "metrics"), start),
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
    scripts = config_map(SCRIPTS, {"artefacts.sh": artefacts_script}, labels("bark"))
    artefacts = config_map(ARTEFACTS, lists, labels("bark"))
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
            claim(name, cluster.bark.storage, cluster.storage_class, labels("bark", name)),
            _bark_deployment(cluster, release, variables, name),
        ]
    return found


def _bark_deployment(cluster: Cluster, release: Release, variables: Mapping[str, str], name: str) -> Document:
    """One pod of the speech service: it stops before its successor starts, for its GPUs and its volume are its own."""
    files, service = dict(release.files), service_in(release, "bark")
    gpus = 0 if cluster.has_workers else cluster.bark.gpus
    entry = dict(service_of(files["bark.yaml"], "bark.yaml", "bark", variables))
    voices = next((each.name for each in release.artefacts if each.kind == "voices"), None)
    if voices is not None:
        mount = {"source": f"../../artefacts/{voices}", "target": "/var/lib/voxyard/voices", "read_only": True}
        entry["volumes"] = [*entry["volumes"], mount]
    shared = cluster.has_workers
    storage = Storage(
        {
            "settings": {"configMap": {"name": "voxyard-bark"}},
            "volume": {"persistentVolumeClaim": {"claimName": name}},
            "weights": {"persistentVolumeClaim": {"claimName": WEIGHTS}},
        },
        {
            f"./{BARK_FILE}": ("settings", BARK_FILE),
            "../../data/bark": ("volume", "data"),
            **artefact_sources(release, shared=shared),
        },
    )
    started = "/healthz" if shared else service.ready  # workers of a cluster may come later
    more = {
        "startupProbe": startup(probe(entry, started, "http"), service.healthy_seconds),
        "livenessProbe": probe(entry, "/healthz", "http"),
        "readinessProbe": probe(entry, service.ready, "http"),
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(ROUTES_SECONDS)]}}},
    }
    target = ContainerRole(
        "bark",
        "bark",
        8080,
        "http",
        gpus=gpus,
        memory=cluster.bark.memory,
        secrets=secret_names(release),
        secret=SECRET,
        more=more,
    )
    made, waiting = awaiting_artefacts(parts(entry, target, storage), shared=shared)
    spec = pod_spec(
        made,
        service.stop_seconds + ROUTES_SECONDS,
        initContainers=[waiting],
        affinity=one_a_node("bark"),
        **gpu_tolerations(gpus),
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
