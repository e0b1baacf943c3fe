"""Part of a release that the roles head and worker bring: nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.inventory.bark_settings import VOICES
from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import HEAD, WORKER
from fleet.inventory.secrets import CLUSTER_TOKEN, place, read_all, versioned
from fleet.inventory.types import bracketed
from fleet.release import compose, tls
from fleet.release.artefact import Artefact, artefact_variables
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import Assignment
from fleet.release.memory import memory_limits
from fleet.release.service import RolePart, Service
from voxyard.speech.cluster.ports import HEAD_PORT, node_ports

COMPOSE_FILES = {HEAD: "cluster-head.yaml", WORKER: "cluster-worker.yaml"}
HOST_FILE = "cluster.yaml"
_STOP_SECONDS = 60
_HEALTHY_SECONDS = 300  # a first join takes a minute; the container's own check comes each minute


def head_address(host: Host) -> str:
    """HOST:PORT of the head of the host's cluster."""
    return f"{bracketed(host.ray_head or '')}:{HEAD_PORT}"


def cluster_token(host: Host) -> bytes:
    """Token of the host's cluster. Raises FleetError where it has none."""
    token = read_all(host.secrets).values.get(CLUSTER_TOKEN)
    if token is None:
        raise FleetError(
            f"{host.name}: the cluster {host.ray.cluster} has no token, without which whoever reaches its ports runs "
            f"code there: add {CLUSTER_TOKEN} to {place(host.secrets)}, such as what `openssl rand -hex 32` prints"
        )
    return token


def ray_part(
    host: Host,
    login_info: LoginInfo,
    folder: Path,
    image: LocalImage,
    assignment: Assignment,
    artefacts: Mapping[str, Artefact],
    withheld: Collection[str] = (),
) -> RolePart:
    """Head and worker of `host`; `folder` contains their compose files.

    The worker gets the GPUs of the assignment; and mounts the `artefacts`, by kind; services `withheld` are not
    started. Raises FleetError for missing inputs, and for a host whose GPUs cannot be used.
    """
    roles = [role for role in (HEAD, WORKER) if role in host.roles]
    gpus = sorted(assignment.bark_limits)
    if WORKER in roles and WORKER not in withheld and login_info.gpus and not gpus:
        reason = assignment.problem or "none is usable or free"
        raise FleetError(f"{host.name}: no GPU for the worker: {reason}: remove the role worker from this host")
    token = cluster_token(host)
    file = versioned(CLUSTER_TOKEN, token)
    files = {COMPOSE_FILES[role]: compose.required(folder / COMPOSE_FILES[role], host).read_bytes() for role in roles}
    entries: dict[str, dict[str, Any]] = {role: {"secrets": [CLUSTER_TOKEN]} for role in roles}
    if HEAD in roles and host.ray.redis is not None:
        entries[HEAD]["command"] = [*_command(files, HEAD), *redis_flags(host.ray.redis)]
    if WORKER in roles:
        entries[WORKER] |= _worker(
            _command(files, WORKER),
            gpus,
            artefacts.get("voices"),
            memory_limits(host, login_info.memory_mib).get(WORKER),
        )
    own = {"services": entries, "secrets": tls.places({CLUSTER_TOKEN: file})}
    return RolePart(
        services=tuple(_service(host, role, image, artefacts) for role in roles),
        compose={**files, HOST_FILE: compose.to_bytes(own, "Nodes of a Ray cluster")},
        variables={
            **artefact_variables(artefacts),
            "VOXYARD_CLUSTER_HEAD": head_address(host),
            "VOXYARD_CLUSTER_ADDRESS": host.ray_address,
            "VOXYARD_CLUSTER_NAME": host.name,
        },
        secrets={role: {file: token} for role in roles},
    )


def redis_flags(address: str | None) -> list[str]:
    """Flags of a head whose state a Redis keeps; none without one."""
    return [] if address is None else ["--redis", address]


def device_flags(gpus: Sequence[str]) -> list[str]:
    """Flags of a worker: a process for each of its GPUs, or some on the CPU."""
    named = ["--device", "cuda", "--gpus", ",".join(gpus), "--workers", str(len(gpus))]
    return named if gpus else ["--device", "cpu"]


def _command(files: Mapping[str, bytes], role: str) -> list[str]:
    return list(compose.parse(files[COMPOSE_FILES[role]], COMPOSE_FILES[role])["services"][role]["command"])


def _worker(command: list[str], gpus: list[str], voices: Artefact | None, memory_mib: int | None) -> dict[str, Any]:
    """Entry of the worker: its devices, its voices, its limit of memory."""
    entry: dict[str, Any] = {"command": [*command, *device_flags(gpus)]}
    if gpus:
        entry |= compose.gpu_request(gpus)
    if voices is not None:
        entry["volumes"] = [compose.mount(f"../../artefacts/{voices.name}", VOICES, read_only=True)]
    return entry if memory_mib is None else entry | {"mem_limit": f"{memory_mib}m"}


def _service(host: Host, role: str, image: LocalImage, artefacts: Mapping[str, Artefact]) -> Service:
    return Service(
        name=role,
        config="",
        image=image,
        address=host.ray_address,
        port=node_ports("head" if role == HEAD else "worker").own_metrics,
        stop_seconds=_STOP_SECONDS,
        healthy_seconds=_HEALTHY_SECONDS,
        artefacts=tuple(artefacts.values()) if role == WORKER else (),
    )
