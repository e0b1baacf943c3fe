"""Service of a release: data to start it and to check its health."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.images.image import LocalImage
from fleet.release.artefact import Artefact

OURS = "voxyard_"
"""Prefix of the metrics of our own services."""


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """Files that a service reads anew without a new container: those of the release below its name.

    They are mounted as the directory config/SERVICE of the host, in which `current` leads to those of the release.
    """

    digest: str  # of names and contents, 12 hex digits
    reload: str = ""  # path that makes it read them, by POST; empty: it watches them itself
    check: tuple[str, ...] = ()  # command line in its image that checks them, mounted as in the service
    shown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # path → what it answers once they are read


@dataclass(frozen=True, slots=True)
class Service:
    """Service of the compose project; an unchanged `config` means its container need not be recreated."""

    name: str  # as in the compose file: exporter, bark
    config: str  # configuration hash, 12 hex digits
    image: LocalImage
    address: str  # listen address
    port: int
    ready: str = "/readyz"  # path that answers 200 when ready
    stop_seconds: int = 10  # graceful stop timeout
    healthy_seconds: int = 90  # start timeout
    gpu_limits: Mapping[str, int] = field(default_factory=dict)  # MiB by GPU UUID
    metrics: str = OURS  # prefix of the metrics at /metrics; empty: it has none
    tls: str = ""  # name that its certificate is for; empty: it speaks plain HTTP
    files: ConfigFiles | None = None
    after: tuple[str, ...] = ()  # services that start before it, where the host has them
    artefacts: tuple[Artefact, ...] = ()  # that it mounts
    foreign: bool = False  # the operator's own: no files are given to its user


@dataclass(frozen=True, slots=True)
class RolePart:
    """Part of a host's release that a role brings: services with their images, compose files, configuration, secrets.

    `files` are named as in the release: those that a service reads anew are below its name.
    """

    services: tuple[Service, ...]  # in start order, without configuration hashes
    compose: Mapping[str, bytes]  # in merge order
    files: Mapping[str, bytes] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)  # of the compose files
    secrets: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict, repr=False)  # by service, then file name


def digest_of(files: Mapping[str, bytes]) -> str:
    """Hash of file names and contents, 12 hex digits."""
    found = hashlib.sha256()
    for name, content in sorted(files.items()):
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:12]


def below(files: Mapping[str, bytes], folder: str) -> dict[str, bytes]:
    """Files below a folder, by their names in the release."""
    return {name: content for name, content in files.items() if name.startswith(f"{folder}/")}
