"""Inputs of a host's release: images, compose files, artefacts, secrets, and the parts of further roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.images.image import LocalImage
from fleet.inventory.host_tls import HostTls
from fleet.inventory.secrets import Secrets
from fleet.release.artefact import Artefact
from fleet.release.service import RolePart


@dataclass(frozen=True, slots=True)
class ReleaseInputs:
    """Inputs of a host's release: local images, compose files, artefacts, secrets."""

    images: Mapping[str, LocalImage]  # by role: exporter, bark, trainer
    compose: Mapping[str, bytes]  # of the services, in merge order
    trainer: Mapping[str, bytes] = field(default_factory=dict)  # of training runs
    artefacts: Mapping[str, Artefact] = field(default_factory=dict)  # by kind
    secrets: Secrets = field(default_factory=Secrets)
    parts: tuple[RolePart, ...] = ()  # of roles with configuration files of their own
    tls: HostTls | None = None

    @property
    def all_images(self) -> Mapping[str, LocalImage]:
        """Images by role or service."""
        return {**self.images, **{each.name: each.image for part in self.parts for each in part.services}}
