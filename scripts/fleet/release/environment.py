"""Environment file of a release: the variables of its compose files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.images.image import LocalImage
from fleet.inventory.bark_settings import lame_duck_seconds, start_seconds
from fleet.inventory.hosts import Host
from fleet.release.artefact import Artefact
from fleet.release.config_hash import variable
from fleet.release.gpu_assignment import Assignment
from fleet.release.memory import memory_limits
from fleet.release.plan import plan_variables

ENVIRONMENT_FILE = "voxyard.env"
USER_ID = 65532
"""User and group of the containers, as in the images: nobody logs in as it, and it owns what containers write."""


@dataclass(frozen=True, slots=True)
class LoginInfo:
    """Login data of a host that its release depends on."""

    address: str  # of the SSH login; default listen address of the services
    gpus: bool
    memory_mib: int | None = None  # of the host; None: not known, nothing is derived from it


def exporter_address(host: Host, login_info: LoginInfo) -> str:
    """Listen address of the exporter."""
    return host.exporter_address or login_info.address


def bark_address(host: Host, login_info: LoginInfo) -> str:
    """Listen address of the speech service."""
    return host.bark.address or login_info.address


def bark_stop_seconds(host: Host) -> int:
    """Seconds until the container of the speech service is killed."""
    return host.bark.stop_seconds + lame_duck_seconds(host.bark.settings, behind_gateway=host.behind_gateway)


def bark_limits(host: Host, assignment: Assignment) -> Mapping[str, int]:
    """GPUs of the speech service, with their limits in MiB; in a Ray cluster it has none of its own."""
    return {} if "bark" in host.ray_roles else assignment.bark_limits


def trainer_memory(host: Host, login_info: LoginInfo) -> int | None:
    """Memory limit of a training run in MiB; None without one."""
    return memory_limits(host, login_info.memory_mib).get("trainer")


def variables(
    host: Host,
    assignment: Assignment,
    login_info: LoginInfo,
    images: Mapping[str, LocalImage],
    artefacts: Mapping[str, Artefact],
) -> dict[str, str]:
    """Variables of the compose files, except the release id and the configuration hashes."""
    found = {variable(role, "IMAGE"): image.reference for role, image in images.items()}
    found |= {
        "VOXYARD_UID": str(USER_ID),
        "VOXYARD_GID": str(USER_ID),
        "VOXYARD_EXPORTER_ADDRESS": exporter_address(host, login_info),
        "VOXYARD_EXPORTER_PUBLISHED_PORT": str(host.exporter_port),
    }
    if host.node_exporter:
        address = exporter_address(host, login_info)
        listen = f"[{address}]" if ":" in address else address
        found["VOXYARD_NODE_EXPORTER_LISTEN"] = f"{listen}:{host.node_exporter_port}"
    found |= {f"VOXYARD_BARK_{kind.upper()}_ARTEFACT": each.name for kind, each in artefacts.items()}
    if "bark" in host.roles:
        limits = ",".join(f"{uuid}={mib}" for uuid, mib in sorted(bark_limits(host, assignment).items()))
        found |= {
            "VOXYARD_BARK_ADDRESS": bark_address(host, login_info),
            "VOXYARD_BARK_PORT": str(host.bark.port),
            "VOXYARD_BARK_STOP_SECONDS": str(bark_stop_seconds(host)),
            "VOXYARD_BARK_START_SECONDS": str(start_seconds(host.bark.settings)),
            **({"VOXYARD_BARK_GPU_MEMORY": limits} if limits else {}),
        }
    if "trainer" in host.roles:
        found |= {
            "VOXYARD_TRAINER_METRICS_ADDRESS": exporter_address(host, login_info),
            "VOXYARD_TRAINER_METRICS_PORT": str(host.trainer.metrics_port),
            "VOXYARD_TRAINER_STOP_SECONDS": str(host.trainer.stop_seconds),
            **({"VOXYARD_TRAINER_MEMORY": str(memory)} if (memory := trainer_memory(host, login_info)) else {}),
            **plan_variables(assignment),
        }
    return found


def to_bytes(values: Mapping[str, str]) -> bytes:
    """Content of the environment file."""
    return "".join(f"{name}={_quoted(value)}\n" for name, value in values.items()).encode()


def _quoted(value: str) -> str:
    """Value without interpolation or comment; `'` cannot be quoted, and stands in no value."""
    return f"'{value}'" if re.search(r"[\s$#\"\\`]", value) else value
