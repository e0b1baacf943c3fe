"""Pods of a release: a compose service as a container, under Kubernetes' Pod Security Standard "restricted"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import FleetError
from fleet.images.image import repository_of
from fleet.release.environment import USER_ID
from fleet.render.compose_service import quantity, seconds

SECRETS = "/run/secrets"
GPU = "nvidia.com/gpu"
RELEASE_VARIABLE = "VOXYARD_RELEASE"
"""Of compose files alone: in a pod it would restart what a release does not change."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Sources of what a compose service mounts from its host: by the source's path there, a volume and its part."""

    volumes: Mapping[str, Mapping[str, Any]]  # by name
    sources: Mapping[str, tuple[str, str]]  # source → name of a volume, sub path ("" for the whole)


@dataclass(frozen=True, slots=True)
class PodParts:
    """One container, and the volumes that it needs."""

    container: Mapping[str, Any]
    volumes: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ContainerRole:
    """Role, port, GPUs and memory of a container."""

    role: str  # exporter, bark, trainer
    name: str  # of the container
    port: int
    port_name: str
    gpus: int = 0
    memory: str | None = None  # request and limit; None: that of the compose file, if any
    secrets: Sequence[str] = ()  # keys of the Secret `secret`
    secret: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)  # further keys of the container


def parts(service: Mapping[str, Any], target: ContainerRole, storage: Storage) -> PodParts:
    """Container of a compose service. Its image is a name that kustomize replaces by the digest of the cluster."""
    mounts, volumes = _mounts(service, target, storage)
    resources = _resources(service, target)
    container = {
        "name": target.name,
        "image": repository_of(target.role),
        **({"args": list(service["command"])} if "command" in service else {}),
        "env": [
            {"name": name, "value": str(value)}
            for name, value in service.get("environment", {}).items()
            if name != RELEASE_VARIABLE
        ],
        "ports": [{"name": target.port_name, "containerPort": target.port}],
        **({"resources": resources} if resources else {}),
        "securityContext": container_security(),
        "volumeMounts": mounts,
        **target.more,
    }
    return PodParts(container, volumes)


def probe(service: Mapping[str, Any], path: str, port: str) -> dict[str, Any]:
    """HTTP probe with the times of the service's health check."""
    check = service["healthcheck"]
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": seconds(check["interval"]),
        "timeoutSeconds": seconds(check["timeout"]),
        "failureThreshold": int(check["retries"]),
    }


def pod_security() -> dict[str, Any]:
    """Security context of a pod; its volumes belong to the group of the images' user."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    """Security context of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _resources(service: Mapping[str, Any], target: ContainerRole) -> dict[str, Any]:
    limit = target.memory or (quantity(service["mem_limit"]) if "mem_limit" in service else None)
    memory = {"memory": limit} if limit else {}
    limits: dict[str, Any] = {**memory, **({GPU: target.gpus} if target.gpus else {})}
    return {"requests": memory, "limits": limits} if memory else {"limits": limits} if limits else {}


def _mounts(
    service: Mapping[str, Any], target: ContainerRole, storage: Storage
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Mounts of the container, and the volumes behind them."""
    mounts: list[dict[str, Any]] = []
    volumes: dict[str, dict[str, Any]] = {}
    for text in service.get("tmpfs", ()):
        path, _, options = str(text).partition(":")
        size = dict(each.partition("=")[::2] for each in options.split(",")).get("size")
        name = path.strip("/").replace("/", "-")
        volumes[name] = {"emptyDir": {"medium": "Memory", **({"sizeLimit": quantity(size)} if size else {})}}
        mounts.append({"name": name, "mountPath": path})
    if "shm_size" in service or service.get("ipc") == "host":
        limit = {"sizeLimit": quantity(service["shm_size"])} if "shm_size" in service else {}
        volumes["shm"] = {"emptyDir": {"medium": "Memory", **limit}}
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - shared memory
    for volume in service.get("volumes", ()):
        if volume["source"] not in storage.sources:
            raise FleetError(f"{target.role}: no volume of a cluster stands for {volume['source']} of the compose file")
        name, part = storage.sources[volume["source"]]
        volumes[name] = dict(storage.volumes[name])
        mounts.append(
            {
                "name": name,
                "mountPath": volume["target"],
                **({"subPath": part} if part else {}),
                **({"readOnly": True} if volume.get("read_only") else {}),
            }
        )
    if target.secrets:
        items = [{"key": name, "path": name} for name in sorted(target.secrets)]
        volumes["secrets"] = {"secret": {"secretName": target.secret, "items": items, "defaultMode": 0o440}}
        mounts.append({"name": "secrets", "mountPath": SECRETS, "readOnly": True})
    return mounts, [{"name": name, **source} for name, source in volumes.items()]
