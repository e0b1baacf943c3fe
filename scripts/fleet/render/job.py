"""Kubernetes: a training run as a Job, which starts again after a disruption and continues from its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleet.errors import FleetError
from fleet.inventory.clusters import Cluster
from fleet.release.plan import PLAN_FILE
from fleet.release.release import Release
from fleet.render.compose_service import service_of
from fleet.render.documents import KUSTOMIZATION, config_map, kustomization, labels, to_bytes
from fleet.render.objects import (
    claim,
    gpu_tolerations,
    object_metadata,
    one_a_node,
    pins,
    pod_metadata,
    pod_spec,
    release_variables,
)
from fleet.render.pod import ContainerRole, Storage, parts, probe
from fleet.render.run import ClusterRun

SCRIPT = "deploy/kubernetes/train.sh"
CORPORA = Path("/corpora")
STOPPED = 75
"""Exit code of a pod that was stopped before the run's end (deploy/kubernetes/train.sh)."""


def run_files(cluster: Cluster, release: Release, run: ClusterRun, root: Path) -> Mapping[str, bytes]:
    """Files of the run by name, a kustomization of its own; `root` is the repository. Raises FleetError."""
    if outside := [str(path) for path in run.paths if not path.is_relative_to(CORPORA)]:
        raise FleetError(
            f"{', '.join(outside)}: expected a path below {CORPORA}, where the pod of a run has the claim "
            f"{cluster.trainer.corpora} (clusters.{cluster.name}.trainer.corpora)"
        )
    name = f"run-{run.name}"
    heading = f"Training run {run.name} for the cluster {cluster.name}; written by fab render --to kubernetes."
    script = (root / SCRIPT).read_text(encoding="utf-8")
    data = {"train.yaml": run.settings.decode(), PLAN_FILE: dict(release.files)[PLAN_FILE].decode(), "train.sh": script}
    documents = [
        config_map(name, data, labels("trainer", name)),
        claim(name, cluster.trainer.storage, cluster.storage_class, labels("trainer", name)),
        _job(cluster, release, run, name),
    ]
    top = kustomization(
        f"{heading} Start it with\n  kubectl apply --server-side --kustomize THIS-DIRECTORY\n"
        f"after the cluster's overlay. Checkpoints lie on the claim {name}; delete --kustomize deletes them too.",
        namespace=cluster.namespace,
        resources=["run.yaml"],
        images=pins(release, "trainer"),
    )
    return {"run.yaml": to_bytes(documents, heading), KUSTOMIZATION: top}


def _job(cluster: Cluster, release: Release, run: ClusterRun, name: str) -> Mapping[str, Any]:
    files = dict(release.files)
    variables = {
        **release_variables(release),
        "VOXYARD_RUN": run.name,
        "VOXYARD_TRAINER_CONFIG": run.config,
        "VOXYARD_TRAINER_DATA": str(run.paths[0]),
        "VOXYARD_TRAINER_CORPUS": cluster.trainer.corpora,
    }
    entry = dict(service_of(files["trainer.yaml"], "trainer.yaml", "train", variables))
    entry["command"] = list(run.words)
    entry["environment"] = {**entry["environment"], "VOXYARD_TRAIN_RESUME": "true"}
    corpus = {"source": cluster.trainer.corpora, "target": str(CORPORA), "read_only": True}
    kept = [each for each in entry["volumes"] if each["source"] != cluster.trainer.corpora]
    entry["volumes"] = [*kept, corpus]
    storage = Storage(
        {
            "run": {"configMap": {"name": name}},
            "checkpoints": {"persistentVolumeClaim": {"claimName": name}},
            "corpora": {"persistentVolumeClaim": {"claimName": cluster.trainer.corpora, "readOnly": True}},
        },
        {
            "./train.yaml": ("run", "train.yaml"),
            f"./{PLAN_FILE}": ("run", PLAN_FILE),
            "./checkpoints": ("checkpoints", ""),
            cluster.trainer.corpora: ("corpora", ""),
        },
    )
    ready = {
        "command": ["bash", "/etc/voxyard/train.sh"],
        "readinessProbe": probe(entry, "/healthz", "metrics"),
    }
    made = parts(
        entry,
        ContainerRole("trainer", "train", 9411, "metrics", gpus=run.gpus, memory=cluster.trainer.memory, more=ready),
        storage,
    )
    made.container["volumeMounts"].append({"name": "run", "mountPath": "/etc/voxyard/train.sh", "subPath": "train.sh"})
    spec = pod_spec(
        made,
        cluster.trainer.stop_seconds,
        restartPolicy="Never",
        affinity=one_a_node("trainer"),
        **gpu_tolerations(run.gpus),
    )
    disrupted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    stopped = {
        "action": "Ignore",
        "onExitCodes": {"containerName": "train", "operator": "In", "values": [STOPPED]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": object_metadata("trainer", name, release.id, name),
        "spec": {
            "backoffLimit": 0,  # what fails by itself is looked at first
            "podFailurePolicy": {"rules": [disrupted, stopped]},
            "template": {"metadata": pod_metadata("trainer", run.config, name), "spec": spec},
        },
    }
