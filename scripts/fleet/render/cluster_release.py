"""Release of a cluster: rendered by the code of a host's release, with the GPUs that the inventory names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.inventory.bark_settings import VOICE_NAMES
from fleet.inventory.clusters import Cluster
from fleet.inventory.hosts import Bark, Host, Trainer
from fleet.inventory.ray_clusters import RayNode
from fleet.inventory.shared_documents import SHELF, is_bucket
from fleet.release.artefact import Artefact, ChecksumCache
from fleet.release.bark import artefacts
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import Assignment
from fleet.release.ray_nodes import ray_part
from fleet.release.release import Release, read_inputs, render, wanted_images
from voxyard.host.errors import HostError
from voxyard.host.limits import bark_limit_mib
from voxyard.host.nvml import Gpu

EVERYWHERE = "0.0.0.0"  # noqa: S104 - in a pod
ARTEFACTS = "/var/lib/voxyard/artefacts"
"""Directory of weights and voices in the pods of the speech service and of workers."""
RAY_HEAD = "voxyard-head"
"""Service before the head of a Ray cluster: its address stays where a new pod has another."""


def release_of(
    cluster: Cluster, folder: Path, images: Mapping[str, LocalImage], checksums: ChecksumCache | None = None
) -> Release:
    """Release of the cluster; `folder` contains the compose files, `images` the record of built images by role.

    Raises FleetError for missing or invalid inputs, and images that were not pushed to the cluster's registry.
    """
    host, known = _as_host(cluster), checksums or ChecksumCache()
    host = _with_artefacts(host, artefacts(host, known))
    needed = {role: _pushed(cluster, role, images) for role in wanted_images(host)}
    login = LoginInfo(EVERYWHERE, gpus="bark" not in cluster.roles or _gpus(cluster) > 0)
    assignment = Assignment(bark_limits=_limits(cluster))
    inputs = read_inputs(host, login, folder, needed, known, with_tls=False)  # a mesh or an ingress does it
    if cluster.has_workers:
        part = ray_part(host, login, folder, needed["bark"], assignment, inputs.artefacts)
        inputs = replace(inputs, parts=(part,))
    return render(host, assignment, login, inputs)


def image_roles(cluster: Cluster) -> tuple[str, ...]:
    """Roles whose images the cluster's release needs."""
    return wanted_images(_as_host(cluster))


def secret_names(release: Release) -> tuple[str, ...]:
    """Names of the release's secrets, which on a host are part of file names with a fingerprint."""
    return tuple(sorted(name.rpartition(".")[0] for name in release.secrets))


def _with_artefacts(host: Host, found: Mapping[str, Artefact]) -> Host:
    """The host, whose service reads weights and voices below the directory of their volume."""
    places = {kind: f"{ARTEFACTS}/{each.name}" for kind, each in found.items()}
    own: dict[str, dict[str, object]] = {"bark": {}, "service": {}}
    if "weights" in places:
        own["bark"]["model"] = places["weights"]
    if "voices" in places:
        own["bark"]["voices"] = places["voices"]
        if VOICE_NAMES in found["voices"].checksums:
            own["service"]["voices"] = f"{places['voices']}/{VOICE_NAMES}"
    given = host.bark.settings
    settings = {**given, **{name: {**given.get(name, {}), **values} for name, values in own.items() if values}}
    return replace(host, bark=replace(host.bark, settings=settings))


def _as_host(cluster: Cluster) -> Host:
    """The cluster in terms of the inventory's hosts: a host is what a pod of the speech service has for itself."""
    bark = cluster.bark
    limits = {} if cluster.has_workers else _limits(cluster)
    own: dict[str, dict[str, object]] = {"speech": {}, "bark": {}}
    if not cluster.has_workers:
        own["speech"]["max_parallel_tts_workers"] = max(1, bark.gpus)
    if limits:  # UUIDs are known in the pod only, which sees no other GPUs
        own["bark"]["gpu_memory"] = str(min(limits.values()))
    settings = {**bark.settings, **{name: {**own[name], **bark.settings.get(name, {})} for name in own}}
    return Host(
        name=cluster.name,
        address=EVERYWHERE,
        user="voxyard",
        roles=cluster.roles,
        memory_policy=cluster.memory_policy,
        registry=cluster.registry,
        node_exporter=False,  # a cluster's own: it needs the node's files and processes
        bark=Bark(
            address=EVERYWHERE,
            weights=bark.weights,
            voices=bark.voices,
            stop_seconds=bark.stop_seconds,
            settings=settings,
            store=bark.store,
            shelf=SHELF if bark.shelf and not is_bucket(bark.shelf) else bark.shelf,
        ),
        trainer=Trainer(stop_seconds=cluster.trainer.stop_seconds),
        ray=RayNode(cluster.name if cluster.has_workers else None),
        ray_head=RAY_HEAD if cluster.has_workers else None,
        secrets=cluster.secrets,
    )


def _gpus(cluster: Cluster) -> int:
    """GPUs of a pod that speaks."""
    return cluster.worker.gpus if cluster.has_workers else cluster.bark.gpus


def _limits(cluster: Cluster) -> dict[str, int]:
    """MiB per worker of one pod, by the GPU's number in it; 0 in a Ray cluster, whose workers have their whole GPUs.

    Raises FleetError.
    """
    if cluster.has_workers:
        return {str(number): 0 for number in range(cluster.worker.gpus)}
    memory = cluster.gpu_memory
    if "bark" not in cluster.roles or memory is None:
        return {}
    try:
        limit = bark_limit_mib(
            Gpu(0, "", f"a GPU of {cluster.name}", "", memory, memory, None), policy=cluster.memory_policy
        )
    except HostError as error:
        raise FleetError(f"clusters.{cluster.name}.gpu_memory: {error}") from None
    return {str(number): limit for number in range(cluster.bark.gpus)}


def _pushed(cluster: Cluster, role: str, images: Mapping[str, LocalImage]) -> LocalImage:
    """Image of a role, by digest."""
    image, wanted = images.get(role), cluster.registry
    registry = wanted or "REGISTRY"
    how = f'make images ARGS="--push {registry}"'
    if image is None:
        raise FleetError(f"{cluster.name}: the image {role} was never built: {how}")
    if image.digest is None:
        raise FleetError(
            f"{cluster.name}: the image {role} was never pushed to a registry, from which nodes pull: {how}"
        )
    if wanted and not image.digest.startswith(f"{wanted}/"):
        raise FleetError(f"{cluster.name}: the image {role} was pushed as {image.digest}, not to {wanted}: {how}")
    return image
