"""Manifest of a release (release.json): all data for a rollback from the files on the host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from fleet.errors import FleetError
from fleet.release.release import Release
from fleet.release.service import OURS, ConfigFiles
from fleet.release.tls import CA_FILE
from fleet.ssh.verbs import Tls

MANIFEST_FILE = "release.json"


@dataclass(frozen=True, slots=True)
class ServiceEntry:
    """Expected state of one service."""

    name: str
    config: str  # label voxyard.config of its container
    image: str  # as in the compose file
    address: str
    port: int
    ready: str
    stop_seconds: int
    healthy_seconds: int
    gpu_limits: Mapping[str, int]  # MiB by UUID
    metrics: str = OURS  # prefix; empty: it has none
    files: ConfigFiles | None = None
    tls: Tls | None = None  # None: plain HTTP
    foreign: bool = False  # the operator's own: no files are given to its user


_SERVICE = TypeAdapter(ServiceEntry)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest of one release."""

    id: str
    services: tuple[ServiceEntry, ...]  # in start order
    images: tuple[str, ...]
    artefacts: tuple[str, ...]  # names of directories below artefacts/
    compose_files: tuple[str, ...]
    secrets: tuple[str, ...] = ()  # file names below secrets/
    withheld: tuple[str, ...] = ()  # services that the preflight kept from it: left as they are

    def service(self, name: str) -> ServiceEntry | None:
        """The service of this name."""
        return next((each for each in self.services if each.name == name), None)

    @property
    def expected(self) -> bytes:
        """Content of state/expected.json, which the exporter compares with the running configuration."""
        document = {"release": self.id, "services": {each.name: each.config for each in self.services}}
        return json.dumps(document, sort_keys=True).encode() + b"\n"


def manifest_of(release: Release) -> Manifest:
    """Manifest of a rendered release."""
    return parse(dict(release.files)[MANIFEST_FILE])


def parse(data: bytes | str) -> Manifest:
    """Parse a release.json. Raises FleetError for an invalid one."""
    try:
        found: dict[str, Any] = json.loads(data)
        return Manifest(
            id=str(found["id"]),
            services=tuple(_service(name, each, str(found["id"])) for name, each in found["services"].items()),
            images=tuple(str(each["image"]) for each in found["images"]),
            artefacts=tuple(str(each["name"]) for each in found["artefacts"]),
            compose_files=tuple(str(each) for each in found["compose_files"]),
            secrets=tuple(map(str, found["secrets"])),
            withheld=tuple(map(str, found.get("withheld", ()))),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FleetError(
            f"{MANIFEST_FILE} cannot be parsed ({type(error).__name__}: {error}): deploy again with this version"
        ) from error


def _service(name: str, found: Mapping[str, Any], release: str) -> ServiceEntry:
    tls = Tls(str(found["tls"]), f"releases/{release}/{CA_FILE}") if found.get("tls") else None
    return _SERVICE.validate_python({**found, "name": name, "tls": tls})
