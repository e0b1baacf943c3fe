"""Kubernetes: the Ray cluster of a speech service as a RayCluster of KubeRay, its address, and who may reach its ports.

KubeRay writes a `ray start` of its own, with a dashboard and a client server, unless an annotation keeps it from that:
head and workers run `voxyard cluster` as on hosts, with its fixed ports, its token, and without either. Its probes ask
the dashboard's agent, which is not installed: each container has probes of its own. KubeRay is left to create and
replace the pods. Its token mode is not used: it would make a token of its own, which Ray prefers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fleet.inventory.bark_settings import CLUSTER_TOKEN_FILE as TOKEN_FILE
from fleet.inventory.clusters import Cluster
from fleet.inventory.ray_clusters import HEAD, WORKER
from fleet.inventory.secrets import CLUSTER_TOKEN
from fleet.release.ray_nodes import COMPOSE_FILES, HOST_FILE
from fleet.release.release import Release
from fleet.render.cluster_release import RAY_HEAD
from fleet.render.compose_service import service_of
from fleet.render.documents import Document, labels
from fleet.render.objects import (
    RELEASE,
    SECRET,
    artefact_sources,
    awaiting_artefacts,
    claim,
    gpu_tolerations,
    one_a_node,
    pod_metadata,
    pod_spec,
    service_in,
)
from fleet.render.pod import ContainerRole, PodParts, Storage, parts
from voxyard.speech.cluster.ports import HEAD_PORT, ROLES, node_ports

NAME = "voxyard"
WEIGHTS = "voxyard-weights"
OWN_COMMAND = {"ray.io/overwrite-container-cmd": "true"}
COMPONENTS = {HEAD: "cluster-head", WORKER: "cluster-worker"}
"""As the jobs of Prometheus are named."""
_NODE = {"POD_IP": "status.podIP", "POD_NAME": "metadata.name"}
_PLACE = {
    HEAD: {"VOXYARD_CLUSTER_HEAD": "$(POD_IP)", "VOXYARD_CLUSTER_NAME": "$(POD_NAME)"},
    WORKER: {"VOXYARD_CLUSTER_ADDRESS": "$(POD_IP)", "VOXYARD_CLUSTER_NAME": "$(POD_NAME)"},
}
"""Variables of the compose files that only the pod knows."""
_WAITING = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": TOKEN_FILE}
"""For the container that KubeRay puts before each worker: it asks the head whether it is there."""
_NO_RESOURCES = {"num-cpus": "0", "num-gpus": "0"}
_PERIOD, _TIMEOUT = 10, 5


def ray_documents(cluster: Cluster, release: Release, variables: Mapping[str, str]) -> Sequence[Document]:
    """RayCluster, the Service before its head, the claim of its weights, and network policies."""
    return (
        claim(
            WEIGHTS,
            cluster.worker.storage,
            cluster.worker.storage_class or cluster.storage_class,
            labels(COMPONENTS[WORKER]),
            many=True,
        ),
        _head_service(),
        _ray_cluster(cluster, release, variables),
        *_network_policies(),
    )


def _head_service() -> Document:
    """Address of the head: that of a pod changes, and those who join resolve a name once."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": RAY_HEAD, "labels": labels(COMPONENTS[HEAD])},
        "spec": {
            "selector": labels(COMPONENTS[HEAD]),
            "publishNotReadyAddresses": True,  # a head that is slow for a while loses no host
            "ports": [{"name": "gcs-server", "port": HEAD_PORT, "targetPort": "gcs-server"}],
        },
    }


def _ray_cluster(cluster: Cluster, release: Release, variables: Mapping[str, str]) -> Document:
    worker = cluster.worker
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": NAME,
            "labels": labels("cluster"),
            "annotations": {RELEASE: release.id, **OWN_COMMAND},
        },
        "spec": {
            "upgradeStrategy": {"type": "Recreate"},  # other releases refuse each other
            "enableInTreeAutoscaling": False,
            "headGroupSpec": {
                "serviceType": "ClusterIP",
                "rayStartParams": {"include-dashboard": "false", **_NO_RESOURCES},
                "template": _template(release, HEAD, _head(release, variables)),
            },
            "workerGroupSpecs": [
                {
                    "groupName": "gpu" if worker.gpus else "cpu",
                    "replicas": worker.replicas,
                    "minReplicas": worker.replicas,
                    "maxReplicas": worker.replicas,
                    "rayStartParams": dict(_NO_RESOURCES),
                    "template": _template(release, WORKER, _worker(cluster, release, variables)),
                }
            ],
        },
    }


def _template(release: Release, role: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": pod_metadata(COMPONENTS[role], service_in(release, role).config), "spec": dict(spec)}


def _head(release: Release, variables: Mapping[str, str]) -> dict[str, Any]:
    ports = [
        {"name": "gcs-server", "containerPort": HEAD_PORT},
        {"name": "metrics", "containerPort": node_ports("head").own_metrics},
    ]
    role = ContainerRole(
        "bark", "ray-head", 0, "", secrets=[CLUSTER_TOKEN], secret=SECRET, more={"ports": ports, **_probes()}
    )
    made = _node(release, variables, HEAD, role, Storage({}, {}))
    return pod_spec(made, service_in(release, HEAD).stop_seconds)


def _worker(cluster: Cluster, release: Release, variables: Mapping[str, str]) -> dict[str, Any]:
    role = ContainerRole(
        "bark",
        "ray-worker",
        node_ports("worker").own_metrics,
        "metrics",
        gpus=cluster.worker.gpus,
        memory=cluster.worker.memory,
        secrets=[CLUSTER_TOKEN],
        secret=SECRET,
        more=_probes(),
    )
    weights = {"weights": {"persistentVolumeClaim": {"claimName": WEIGHTS}}}
    made = _node(release, variables, WORKER, role, Storage(weights, artefact_sources(release, shared=True)))
    made, waiting = awaiting_artefacts(made, {"name": "volume", "emptyDir": {}}, shared=True)
    return pod_spec(
        made,
        service_in(release, WORKER).stop_seconds,
        initContainers=[waiting],
        affinity=one_a_node(COMPONENTS[WORKER]),
        **gpu_tolerations(cluster.worker.gpus),
    )


def _node(
    release: Release, variables: Mapping[str, str], role: str, container: ContainerRole, storage: Storage
) -> PodParts:
    """Container of a node: its compose service, with what the release's own file adds to it."""
    files, known = dict(release.files), {**variables, **_PLACE[role]}
    entry = dict(service_of(files[COMPOSE_FILES[role]], COMPOSE_FILES[role], role, known))
    own = service_of(files[HOST_FILE], HOST_FILE, role, known)
    entry |= {"command": own["command"]} if "command" in own else {}
    entry["volumes"] = [*entry.get("volumes", ()), *own.get("volumes", ())]
    made = parts(entry, container, storage)
    known_there = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in _NODE.items()]
    token = [{"name": name, "value": value} for name, value in _WAITING.items()]
    return PodParts({**made.container, "env": [*known_there, *token, *made.container["env"]]}, made.volumes)


def _probes() -> dict[str, Any]:
    """Probes of a node: alive while its process answers, ready while it has joined. Head and workers have the same."""

    def probe(path: str, failures: int) -> dict[str, Any]:
        return {
            "httpGet": {"path": path, "port": "metrics"},
            "periodSeconds": _PERIOD,
            "timeoutSeconds": _TIMEOUT,
            "failureThreshold": failures,
        }

    return {
        "startupProbe": probe("/healthz", 12),
        "livenessProbe": probe("/healthz", 6),
        "readinessProbe": probe("/readyz", 3),
    }


def _network_policies() -> Sequence[Document]:
    """Ray's ports are open to the cluster's own pods only; the service and the metrics are open as without it."""
    members = {
        "matchExpressions": [
            {
                "key": "app.kubernetes.io/name",
                "operator": "In",
                "values": [labels(each)["app.kubernetes.io/name"] for each in ("bark", *COMPONENTS.values())],
            }
        ]
    }
    ranges = [(ports.object_manager, ports.agent_grpc) for ports in map(node_ports, ROLES)]
    every = [node_ports(role) for role in ROLES]
    ranges.append((min(each.first_worker for each in every), max(each.last_worker for each in every)))
    of_ray = [_ports(HEAD_PORT), *(_ports(first, last) for first, last in ranges)]
    return (
        _policy("voxyard-ray", members, {"from": [{"podSelector": members}], "ports": of_ray}),
        _policy("voxyard-bark", {"matchLabels": labels("bark")}, {"ports": [_ports("http")]}),
        *(
            _policy(f"voxyard-{component}", {"matchLabels": labels(component)}, {"ports": [_ports("metrics")]})
            for component in COMPONENTS.values()
        ),
    )


def _policy(name: str, pods: Mapping[str, Any], ingress: Mapping[str, Any]) -> Document:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "labels": labels("cluster")},
        "spec": {"podSelector": dict(pods), "policyTypes": ["Ingress"], "ingress": [dict(ingress)]},
    }


def _ports(first: int | str, last: int | None = None) -> dict[str, Any]:
    return {"protocol": "TCP", "port": first, **({} if last is None else {"endPort": last})}
