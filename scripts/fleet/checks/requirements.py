"""Requirements of a deployment on a host: disk space, CUDA version, architecture."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fleet.images.cuda import DEFAULTS, CudaNeed
from fleet.images.image import LocalImage
from fleet.inventory.hosts import Host

_SPARE_BYTES = 1 << 30  # for logs and layers
SPARE_FILES = 1000
_FILES_OF_IMAGE = 20_000  # of a Python with its libraries


@dataclass(frozen=True, slots=True)
class HostRequirements:
    """Requirements on a host; `images` by role (exporter on every host), `artefact_bytes` by host name."""

    image_bytes: int = 0  # of further images on every host
    cuda: Mapping[str, CudaNeed] = field(default_factory=lambda: DEFAULTS)  # by role
    images: Mapping[str, LocalImage] = field(default_factory=dict)
    artefact_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def architecture(self) -> str:
        """Architecture of the images, as in uname -m; empty where it is not known."""
        return next((each.machine for each in self.images.values() if each.machine), "")

    def docker_bytes(self, host: Host, there: Collection[str]) -> int:
        """Free bytes needed under Docker's root of `host`, which has the images `there` (ids).

        `docker load` unpacks an image beside its layers: the largest image counts twice.
        """
        missing = [each.size_bytes for each in self._missing(host, there)]
        return self.image_bytes + sum(missing) + (0 if host.registry else max(missing, default=0)) + _SPARE_BYTES

    def docker_files(self, host: Host, there: Collection[str]) -> int:
        """Free inodes needed by the images of `host`, which has the images `there` (ids)."""
        return SPARE_FILES + _FILES_OF_IMAGE * len(self._missing(host, there))

    def home_bytes(self, host: Host, there: int) -> int:
        """Free bytes needed in the login's home, which has artefacts of `there` bytes."""
        return max(0, self.artefact_bytes.get(host.name, 0) - there) + _SPARE_BYTES

    def _missing(self, host: Host, there: Collection[str]) -> list[LocalImage]:
        kept = {"bark", "trainer"} - set(host.roles) - ({"bark"} if host.ray_roles else set())
        return [each for role, each in self.images.items() if role not in kept and each.id not in there]
