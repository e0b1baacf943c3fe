"""What is put on a host: the rendered files of one release, under a name that says what is in them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from fleet.assignment import Assignment
from fleet.errors import FleetError
from fleet.image import LocalImage
from fleet.inventory import Host

ENVIRONMENT_FILE = "voxyard.env"
PLAN_FILE = "plan.yaml"
# The plan is read inside the container by a user of its own; around it is a directory that only the owner can enter.
_MODES = {PLAN_FILE: 0o644}


@dataclass(frozen=True, slots=True)
class Release:
    """The files of one release on one host; the same content always has the same id."""

    id: str
    image: LocalImage
    compose_files: tuple[str, ...]  # in the order in which they are merged
    files: tuple[tuple[str, bytes], ...]
    address: str  # where the exporter listens
    port: int

    @property
    def checksums(self) -> Mapping[str, str]:
        """SHA-256 of each file, by name."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files}

    def archive(self) -> bytes:
        """The files as a tar archive, for nobody but their owner."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, content in self.files:
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), _MODES.get(name, 0o600)
                archive.addfile(member, io.BytesIO(content))
        return buffer.getvalue()


def compose_sources(folder: Path, host: Host, *, gpus: bool) -> dict[str, Path]:
    """The compose files of a host in the order in which they are merged: name in the release → where it lies here.

    Raises FleetError for a missing one.
    """
    names = ["exporter.yaml", *([] if gpus else ["cpu.yaml"])]
    sources = {name: folder / name for name in names}
    sources |= {f"site-{number}-{path.name}": path for number, path in enumerate(host.compose_overrides, 1)}
    for path in sources.values():
        if not path.is_file():
            raise FleetError(f"{path}: no such compose file, needed for {host.name}")
    return sources


def render(host: Host, assignment: Assignment, image: LocalImage, sources: Mapping[str, Path], address: str) -> Release:
    """The release of `host`: compose files, environment and plan. `address` is the one that the exporter listens on."""
    compose = {name: path.read_bytes() for name, path in sources.items()}
    variables = {
        "VOXYARD_EXPORTER_IMAGE": image.release_tag,
        "VOXYARD_EXPORTER_ADDRESS": address,
        "VOXYARD_EXPORTER_PORT": str(host.exporter_port),
    }
    plan = plan_document(assignment)
    content = {"variables": variables, "plan": plan, "modes": _MODES}  # the image is in its tag
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name, body in compose.items():
        digest.update(f"\0{name}\0{len(body)}\0".encode() + body)
    release = digest.hexdigest()[:12]
    files = {
        **compose,
        ENVIRONMENT_FILE: _environment({"VOXYARD_RELEASE": release, **variables}),
        PLAN_FILE: yaml.safe_dump({"release": release, **plan}, sort_keys=False).encode(),
    }
    return Release(release, image, tuple(compose), tuple(files.items()), address, host.exporter_port)


def plan_document(assignment: Assignment) -> dict[str, object]:
    """What the programs of a host read as their host plan: the workloads, and the trainer's settings."""
    document: dict[str, object] = {
        "workloads": [{"workload": each.workload, "role": each.role, "gpu": each.gpu} for each in assignment.workloads]
    }
    limits = assignment.limits
    if limits is None:
        return document
    data: dict[str, object] = {
        "prefetch_buffer_size": limits.ring_slots,
        "pipeline_buffer_size": limits.buffer_size,
    }
    training: dict[str, object] = {"batch_size": limits.batch_size}
    if limits.data is not None:
        data |= {"data_gpu": limits.data.uuid, "model_gpu": limits.model.uuid}
        training |= {
            "enable_memory_isolation": True,
            "data_gpu_memory": limits.data.limit_mib,
            "model_gpu_memory": limits.model.limit_mib,
        }
    return document | {"data": data, "training": training}


def _environment(variables: Mapping[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in variables.items()).encode()
