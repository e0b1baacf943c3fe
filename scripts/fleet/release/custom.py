"""Part of a release that the role custom brings: services of the operator's own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.inventory.custom_settings import Custom
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import Secrets, place, versioned
from fleet.release import compose
from fleet.release.config_hash import variable
from fleet.release.gpu_assignment import Assignment
from fleet.release.service import RolePart, Service
from fleet.release.tls import places

HOST_FILE = "custom.yaml"
_WRITTEN = ("image", "build", "container_name", "extends", "env_file")
_LOGGING = {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}}


def custom_part(
    host: Host,
    images: Mapping[str, LocalImage],
    assignment: Assignment,
    secrets: Secrets,
    withheld: Collection[str] = (),
) -> RolePart:
    """The operator's own services of `host`; `images` by service.

    Raises FleetError for invalid compose parts, and where GPUs or secrets are missing of services not `withheld`.
    """
    gpus = {name: [each.gpu for each in assignment.workloads if each.workload == name] for name in host.own_services}
    for name in (
        name for name, each in host.own_services.items() if name not in withheld and len(gpus[name]) < each.gpus
    ):
        found = assignment.problem or f"found {len(gpus[name])}"
        raise FleetError(f"{host.name}: {name}: expected {host.own_services[name].gpus} GPUs ({found})")
    wanted = {each for settings in host.own_services.values() for each in settings.secrets}
    if missing := sorted(wanted - secrets.values.keys()):
        raise FleetError(f"{host.name}: add the secret {missing[0]} to {place(host.secrets)}")
    files = {name: versioned(name, secrets.values[name]) for name in sorted(wanted)}
    parts = {name: _read(host, name, each) for name, each in host.own_services.items()}
    entries = {
        name: _entry(name, each, gpus[name], compose.parse(parts[name], str(each.compose))["services"][name] or {})
        for name, each in host.own_services.items()
    }
    return RolePart(
        services=tuple(_service(name, each, images[name]) for name, each in host.own_services.items()),
        compose={
            **{f"custom-{name}.yaml": content for name, content in parts.items()},
            HOST_FILE: compose.to_bytes(
                {"services": entries, **({"secrets": places(files)} if files else {})},
                "Images, labels, GPUs and secrets of the operator's own services",
            ),
        },
        secrets={
            name: {files[secret]: secrets.values[secret] for secret in each.secrets}
            for name, each in host.own_services.items()
            if each.secrets
        },
    )


def _service(name: str, settings: Custom, image: LocalImage) -> Service:
    return Service(
        name=name,
        config="",
        image=image,
        address=settings.health.address,
        port=settings.health.port,
        ready=settings.health.path,
        stop_seconds=settings.stop_seconds,
        healthy_seconds=settings.start_seconds,
        metrics="",
        foreign=True,
    )


def _entry(name: str, settings: Custom, gpus: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a deploy adds to the entry of a service; its own `restart` and `logging` stay."""
    added = {"restart": "unless-stopped", "logging": _LOGGING}
    return {
        "image": f"${{{variable(name, 'IMAGE')}:?is written by fab deploy}}",
        "pull_policy": "never",
        "stop_grace_period": f"{settings.stop_seconds}s",
        "labels": {
            "voxyard.role": name,
            "voxyard.release": "${VOXYARD_RELEASE:?is written by fab deploy}",
            "voxyard.config": f"${{{variable(name, 'CONFIG')}:?is written by fab deploy}}",
            "voxyard.port": str(settings.health.port),
        },
        **{key: value for key, value in added.items() if key not in given},
        **(compose.gpu_request(sorted(gpus)) if gpus else {}),
        **({"secrets": list(settings.secrets)} if settings.secrets else {}),
    }


def _read(host: Host, name: str, settings: Custom) -> bytes:
    path = settings.compose
    content = compose.required(path, host).read_bytes()
    document = compose.parse(content, str(path))
    if problem := next(_problems(document, name), None):
        raise FleetError(f"{path}: {problem}")
    for key in ("deploy", "gpus"):
        if settings.gpus and key in (document["services"][name] or {}):
            said = "leave it out: the GPUs are those of gpus in the inventory"
            raise FleetError(f"{path}: services.{name}.{key}: {said}")
    return content


def _problems(document: Mapping[str, Any], name: str) -> Iterator[str]:
    """Reasons why this compose part of a service cannot be deployed."""
    services = document.get("services") or {}
    if list(services) != [name]:
        found = ", ".join(services) or "none"
        yield f"expected one service, {name}, found {found}: each has an entry and a file of its own"
        return
    if "name" in document or "include" in document:
        yield "has `name` or `include`: leave them out, the part is merged with voxyard's other services"
    entry = services[name] or {}
    if not isinstance(entry, Mapping):
        yield f"services.{name}: expected a mapping"
        return
    if written := [key for key in _WRITTEN if key in entry]:
        advice = "leave it out: the image is named in the inventory, and of files this one alone is sent"
        yield f"services.{name}.{written[0]}: {advice}"
    volumes = [
        str(each.get("source", "")) if isinstance(each, Mapping) else str(each) for each in _list(entry, "volumes")
    ]
    files = [str(each.get("file", "")) for kind in ("secrets", "configs") for each in _objects(document, kind)]
    for source in (*(each.partition(":")[0] for each in volumes), *files):
        if source.startswith((".", "~")) or (source and (source in files or "/" in source) and source[0] not in "/$"):
            yield f"{source} is not on the host: name a volume, or the whole path of what is there"


def _list(entry: Mapping[str, Any], key: str) -> list[Any]:
    return found if isinstance(found := entry.get(key), list) else []


def _objects(document: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    found = document.get(kind)
    return [each for each in found.values() if isinstance(each, Mapping)] if isinstance(found, Mapping) else []
