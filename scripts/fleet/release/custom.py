"""Part of a release that the role custom brings: services of the operator's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.inventory.custom_settings import Custom
from fleet.inventory.hosts import Host
from fleet.release import compose
from fleet.release.config_hash import variable
from fleet.release.service import RolePart, Service

HOST_FILE = "custom.yaml"
_WRITTEN = ("image", "build", "container_name", "extends", "env_file")
_LOGGING = {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}}


def custom_part(host: Host, images: Mapping[str, LocalImage]) -> RolePart:
    """The operator's own services of `host`; `images` by service. Raises FleetError for invalid compose parts."""
    parts = {name: _read(host, name, each.compose) for name, each in host.own_services.items()}
    entries = {
        name: _entry(name, each, compose.parse(parts[name], str(each.compose))["services"][name] or {})
        for name, each in host.own_services.items()
    }
    return RolePart(
        services=tuple(_service(name, each, images[name]) for name, each in host.own_services.items()),
        compose={
            **{f"custom-{name}.yaml": content for name, content in parts.items()},
            HOST_FILE: compose.to_bytes({"services": entries}, "Images and labels of the operator's own services"),
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


def _entry(name: str, settings: Custom, given: Mapping[str, Any]) -> dict[str, Any]:
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
    }


def _read(host: Host, name: str, path: Path) -> bytes:
    content = compose.required(path, host).read_bytes()
    if problem := next(_problems(compose.parse(content, str(path)), name), None):
        raise FleetError(f"{path}: {problem}")
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
        if source.startswith((".", "~")) or (source in files and source and not source.startswith("/")):
            yield f"{source} is not on the host: name a volume, or the whole path of what is there"


def _list(entry: Mapping[str, Any], key: str) -> list[Any]:
    return found if isinstance(found := entry.get(key), list) else []


def _objects(document: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    found = document.get(kind)
    return [each for each in found.values() if isinstance(each, Mapping)] if isinstance(found, Mapping) else []
