"""Kubernetes: the overlay of a cluster and its training runs, from templates with values of the cluster's release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fleet.errors import FleetError
from fleet.images.image import repository_of
from fleet.inventory.bark_settings import BARK_FILE
from fleet.inventory.clusters import Cluster, ClusterBark, ClusterTrainer, ClusterWorker
from fleet.inventory.ray_clusters import HEAD, WORKER
from fleet.inventory.secrets import BARK_STORE
from fleet.inventory.shared_documents import SHELF, is_bucket, variables
from fleet.release.plan import PLAN_FILE
from fleet.release.ray_nodes import device_flags, redis_flags
from fleet.release.release import Release
from fleet.release.service import Service
from fleet.render.cluster_release import secret_names
from fleet.render.documents import (
    KUSTOMIZATION,
    Document,
    filled,
    kustomization,
    labels,
    name_of,
    text_of,
    to_bytes,
    versioned_map,
)
from fleet.render.run import ClusterRun

TEMPLATES = "deploy/kubernetes"
SECRET, WEIGHTS = "voxyard-bark", "voxyard-weights"
CORPORA = Path("/corpora")
ROUTES_SECONDS = 10
"""Time in which a pod that ends leaves the routes of its Service, before it is told to stop."""
SAVING_SECONDS = 10
"""Time of a stopped run beyond its own, before its pod is killed."""
_MEMORY = "8Gi"  # request where the inventory names none: without one the node would end the pod first
_PERIOD = 10  # seconds between two probes


def overlay_files(cluster: Cluster, release: Release, root: Path) -> Mapping[str, bytes]:
    """Files of the cluster's overlay by name; `root` is the repository. Raises FleetError."""
    standard = "privileged" if cluster.host_pid else "restricted"
    values = _values_of_all(cluster, release) | {"namespace": cluster.namespace, "pod_standard": standard}
    files: dict[str, list[Document]] = {"namespace.yaml": _filled(root, "namespace.yaml", values)}
    plan = versioned_map("voxyard-exporter", {PLAN_FILE: _file(release, PLAN_FILE)}, "exporter")
    files["exporter.yaml"] = [plan, *_filled(root, "exporter.yaml", values | _exporter(cluster, release, plan))]
    if "bark" in cluster.roles:
        settings = versioned_map("voxyard-bark", {"bark.yaml": _file(release, BARK_FILE)}, "bark")
        lists = {"artefacts.sh": text_of(root / TEMPLATES / "artefacts.sh"), **_checksums(release)}
        artefacts = versioned_map("voxyard-artefacts", lists, "bark")
        source = cluster.bark.weights_from
        values |= {
            "settings": name_of(settings),
            "artefacts": name_of(artefacts),
            "weights_from": [{"name": "WEIGHTS_FROM", "value": source}] if source else [],
        }
        files["bark.yaml"] = [settings, artefacts, *_filled(root, "bark.yaml", values | _bark(cluster, release))]
        if (shared := _shared_weights(cluster)) is not None:
            files["weights.yaml"] = _filled(root, "weights.yaml", shared)
        if cluster.bark.scaling.most is not None:
            files["scaling.yaml"] = _filled(root, "scaling.yaml", values | _scaling(cluster.bark))
    if cluster.has_workers:
        files["ray.yaml"] = _filled(root, "ray.yaml", values | _ray(cluster, release))
    heading = f"Cluster {cluster.name}; written by fab render --to kubernetes from {TEMPLATES}."
    top = kustomization(
        _how_to_apply(cluster, release),
        namespace=cluster.namespace,
        resources=["../../base", *files],
        images=[pin for service in release.services for pin in pins(release, service.name)],
        labels=[{"pairs": dict(cluster.monitoring_labels)}] if cluster.monitoring_labels else [],
    )
    return {name: to_bytes(documents, heading) for name, documents in files.items()} | {KUSTOMIZATION: top}


def identified(cluster: Cluster, release: Release, root: Path) -> Release:
    """The release with an id of all that the overlay applies: also of the cluster's pods, volumes and nodes.

    Raises FleetError.
    """
    files = overlay_files(cluster, replace(release, id=""), root)
    hashes = [release.id, *(hashlib.sha256(files[name]).hexdigest() for name in sorted(files))]
    digest = hashlib.sha256(" ".join(hashes).encode())
    return replace(release, id=digest.hexdigest()[:12])


def run_files(cluster: Cluster, release: Release, run: ClusterRun, root: Path) -> Mapping[str, bytes]:
    """Files of the run by name, a kustomization of its own; `root` is the repository. Raises FleetError."""
    if outside := [str(path) for path in run.paths if not path.is_relative_to(CORPORA)]:
        raise FleetError(
            f"{', '.join(outside)}: expected a path below {CORPORA}, where the pod of a run has the claim "
            f"{cluster.trainer.corpora} (clusters.{cluster.name}.trainer.corpora)"
        )
    name = f"run-{run.name}"
    data = {
        "train.yaml": run.settings.decode(),
        PLAN_FILE: _file(release, PLAN_FILE),
        "train.sh": text_of(root / TEMPLATES / "train.sh"),
    }
    settings = versioned_map(name, data, "trainer")
    values = {
        **_values_of_all(cluster, release),
        **_pod(cluster, cluster.trainer, run.gpus),
        "name": name,
        "run": run.name,
        "config": run.config,
        "settings": name_of(settings),
        "words": [word.replace("$", "$$") for word in run.words],  # Kubernetes expands $(NAME)
        "corpus": str(run.paths[0]).replace("$", "$$"),
        "corpora": cluster.trainer.corpora,
        "queue": cluster.trainer.queue,
        "storage": cluster.trainer.storage,
        "grace_seconds": cluster.trainer.stop_seconds + SAVING_SECONDS,
    }
    heading = f"Training run {run.name} for the cluster {cluster.name}; written by fab render --to kubernetes."
    top = kustomization(
        f"{heading} Start it with\n  kubectl apply --server-side --kustomize THIS-DIRECTORY\n"
        "after the cluster's overlay; before an apply with other settings, which continues at the last checkpoint,\n"
        f"  kubectl --namespace {cluster.namespace} delete job {name}\n"
        f"Checkpoints lie on the claim {name}; delete --kustomize deletes them too.",
        namespace=cluster.namespace,
        resources=["run.yaml"],
        images=pins(release, "trainer"),
    )
    return {"run.yaml": to_bytes([settings, *_filled(root, "run.yaml", values)], heading), KUSTOMIZATION: top}


def pins(release: Release, role: str) -> list[dict[str, str]]:
    """Entry of a kustomization that replaces the name of a role's image by its digest."""
    found = [image for image in release.images if image.repository == repository_of(role)]
    parts = [(image.repository, *image.reference.partition("@")) for image in found]
    return [{"name": repository, "newName": name, "digest": digest} for repository, name, _, digest in parts]


def _filled(root: Path, name: str, values: Mapping[str, Any]) -> list[Document]:
    return filled(root / TEMPLATES / name, values)


def _file(release: Release, name: str) -> str:
    return dict(release.files)[name].decode()


def _service(release: Release, name: str) -> Service:
    return next(each for each in release.services if each.name == name)


def _checksums(release: Release) -> Mapping[str, str]:
    """Lists of checksums by the artefact's name, as sha256sum reads them."""
    return {
        each.name: "".join(f"{checksum}  {name}\n" for name, checksum in each.checksums.items())
        for each in release.artefacts
    }


def _values_of_all(cluster: Cluster, release: Release) -> dict[str, Any]:
    secret = cluster.pull_secret
    return {
        "release": release.id,
        "pull_secrets": [{"name": secret}] if secret else None,
        "storage_class": cluster.storage_class,
    }


def _pod(cluster: Cluster, part: ClusterBark | ClusterWorker | ClusterTrainer, gpus: int) -> dict[str, Any]:
    """Processors, memory, GPUs and nodes of a pod."""
    claim = cluster.gpu_claim if gpus else None
    return {
        "cpus": part.cpus,
        "memory": part.memory,
        "memory_request": part.memory or _MEMORY,
        "gpus": gpus if gpus and not claim else None,
        "pod_claims": [{"name": "gpu", "resourceClaimTemplateName": claim}] if claim else None,
        "container_claims": [{"name": "gpu"}] if claim else None,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}] if gpus else None,
        "runtime_class": cluster.gpu_runtime_class if gpus else None,
        "nodes": dict(part.nodes) or None,
    }


def _exporter(cluster: Cluster, release: Release, plan: Document) -> dict[str, Any]:
    service = _service(release, "exporter")
    return {
        "config": service.config,
        "plan": name_of(plan),
        "ready": service.ready,
        "runtime_class": cluster.runtime_class,
        "nodes": dict(cluster.gpu_nodes),
        "host_pid": cluster.host_pid or None,
    }


def _bark(cluster: Cluster, release: Release) -> dict[str, Any]:
    bark, service = cluster.bark, _service(release, "bark")
    claim = None if not bark.shelf or is_bucket(bark.shelf) else bark.shelf
    shared = {"name": "weights", "persistentVolumeClaim": {"claimName": WEIGHTS}}
    has_own = _shared_weights(cluster) is None
    return {
        **_pod(cluster, bark, 0 if cluster.has_workers else bark.gpus),
        "replicas": bark.replicas if bark.scaling.most is None else None,  # else KEDA's
        "port": bark.port,
        "config": service.config,
        "grace_seconds": service.stop_seconds + ROUTES_SECONDS,
        "started": "/healthz" if cluster.has_workers else service.ready,  # workers of a cluster may come later
        "start_failures": -(-service.healthy_seconds // _PERIOD),
        "store_variables": _store_variables(secret_names(release)),
        "storage": bark.storage,
        "weights_volume": None if has_own else shared,
        "weights_template": _own_weights(cluster) if has_own else None,
        "shelf_volume": {"name": "shelf", "persistentVolumeClaim": {"claimName": claim}} if claim else None,
        "shelf_mount": {"name": "shelf", "mountPath": SHELF} if claim else None,
    }


def _store_variables(secrets: Collection[str]) -> list[dict[str, Any]]:
    """Variables of database and bucket. The password is no file: libpq refuses one that the pod's group may read."""
    found: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, value in variables(secrets).items() if name != "PGPASSFILE"
    ]
    if BARK_STORE in secrets:
        found.append(
            {"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": SECRET, "key": BARK_STORE}}},
        )
    return found


def _shared_weights(cluster: Cluster) -> dict[str, Any] | None:
    """Size and class of the one volume of weights; None where each pod has its own."""
    if cluster.has_workers:
        worker = cluster.worker
        return {"storage": worker.storage, "storage_class": worker.storage_class or cluster.storage_class}
    bark = cluster.bark
    return {"storage": bark.weights_storage, "storage_class": bark.weights_class} if bark.weights_class else None


def _own_weights(cluster: Cluster) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "weights", "labels": labels("bark")},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            **({"storageClassName": cluster.storage_class} if cluster.storage_class else {}),
            "resources": {"requests": {"storage": cluster.bark.weights_storage}},
        },
    }


def _scaling(bark: ClusterBark) -> dict[str, Any]:
    scaling = bark.scaling
    return {
        "least": bark.replicas,
        "most": scaling.most,
        "chunks": str(scaling.chunks),
        "prometheus": scaling.prometheus,
    }


def _ray(cluster: Cluster, release: Release) -> dict[str, Any]:
    worker = cluster.worker
    return {
        **_pod(cluster, worker, worker.gpus),
        "head_config": _service(release, HEAD).config,
        "worker_config": _service(release, WORKER).config,
        "group": "gpu" if worker.gpus else "cpu",
        "replicas": worker.replicas,
        "devices": device_flags([str(number) for number in range(worker.gpus)]),
        "redis": redis_flags(cluster.redis),
    }


def _number_of_pods(cluster: Cluster) -> Document:
    """Of the speech service, for another owner of that field than the overlay."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "voxyard-bark"},
        "spec": {"replicas": cluster.bark.replicas},
    }


def _how_to_apply(cluster: Cluster, release: Release) -> str:
    kubectl = f"  kubectl --namespace {cluster.namespace}"
    lines = [f"Release {release.id} for the cluster {cluster.name}; written by fab render --to kubernetes."]
    lines += ["Once before, where they are not there yet, the namespace and what the objects refer to:"]
    lines += ["  kubectl apply --server-side --filename THIS-DIRECTORY/namespace.yaml"]
    if names := secret_names(release):
        files = " ".join(f"--from-file={name}=FILE" for name in names)
        lines += [f"{kubectl} create secret generic {SECRET} {files}"]
        if BARK_STORE in names:
            lines += [f"  (the file of {BARK_STORE} has the password alone, without a line break)"]
    lines += [f"  {what}" for what in _expected(cluster)]
    if cluster.bark.scaling.most is not None:
        lines += ["Where it ran before without scaling, too (else an apply that names no number leaves one pod):"]
        lines += [f"  echo '{json.dumps(_number_of_pods(cluster))}' |"]
        lines += [f"  {kubectl} apply --server-side --field-manager=keda --validate=false -f -"]
    lines += ["Then, and for each later release:", "  kubectl apply --server-side --kustomize THIS-DIRECTORY"]
    if cluster.has_workers:
        lines += ["Another release ends all pods of the Ray cluster before it starts others."]
    if "bark" in cluster.roles and cluster.bark.replicas > 1:
        lines += ["A change restarts the pods of the speech service one after the other, and stops at one that fails:"]
        lines += [f"{kubectl} rollout status statefulset/voxyard-bark  # or undo"]
    if release.artefacts:
        names_of = " and ".join(f"{each.name} (the directory bark.{each.kind})" for each in release.artefacts)
        which = "of the speech service or its workers" if cluster.has_workers else "of the speech service"
        source = cluster.bark.weights_from
        fetched = f"fetches the weights from {source}, and prints the kubectl cp for the rest"
        lines += [f"A new pod {which} waits for {names_of}, once a volume and version: its"]
        lines += [f"container `artefacts` {fetched if source else 'prints the kubectl cp that brings them'}."]
    return "\n".join(lines)


def _expected(cluster: Cluster) -> Iterator[str]:
    """What an operator brings, one line each."""
    bark, speaks = cluster.bark, "bark" in cluster.roles
    if cluster.pull_secret:
        yield f"the Secret {cluster.pull_secret} with the login of the registry (kubectl create secret docker-registry)"
    if speaks and bark.shelf and not is_bucket(bark.shelf):
        yield f"the PersistentVolumeClaim {bark.shelf} for the audio, one that many nodes mount"
    if "trainer" in cluster.roles:
        yield f"the PersistentVolumeClaim {cluster.trainer.corpora} for the corpora of runs"
    if cluster.gpu_claim:
        yield f"the ResourceClaimTemplate {cluster.gpu_claim}"
    operators = ["the Prometheus Operator", *(["KEDA"] if speaks and bark.scaling.most is not None else [])]
    operators += ["KubeRay 1.6 or newer"] if cluster.has_workers else []
    operators += ["Kueue"] if "trainer" in cluster.roles and cluster.trainer.queue else []
    yield f"in the cluster: {', '.join(operators)}"
