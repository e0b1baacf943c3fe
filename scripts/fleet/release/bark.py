"""Part of a release that the role bark brings: the speech service, its settings file, weights and voices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import yaml

from fleet.errors import FleetError
from fleet.inventory.bark_settings import (
    BARK_FILE,
    CLUSTER_TOKEN_FILE,
    DATA,
    HOST_CERTIFICATE,
    HOST_KEY,
    KEYS,
    SESSION_SECRET,
    VOICE_NAMES,
    VOICES,
    WEBHOOK_SECRET,
    WEIGHTS,
)
from fleet.inventory.gateway_settings import LAME_DUCK_SECONDS
from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import BARK, HEAD, WORKER
from fleet.inventory.secrets import (
    BARK_KEYS,
    BARK_SESSIONS,
    BARK_WEBHOOK,
    CLUSTER_TOKEN,
    Secrets,
    place,
    versioned,
)
from fleet.inventory.shared_documents import SHELF, idle_secrets, is_bucket
from fleet.inventory.shared_documents import variables as variables_of_secrets
from fleet.inventory.types import is_loopback
from fleet.release import compose, tls
from fleet.release.artefact import BUILDERS, Artefact, ChecksumCache, artefact_variables
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import Assignment
from fleet.release.inputs import ReleaseInputs
from fleet.release.memory import memory_limits
from fleet.release.ray_nodes import cluster_token, head_address
from fleet.release.service import RolePart, Service
from voxyard.speech.config import SpeechSection

HOST_FILE = "host.yaml"
_START_MARGIN = 60  # seconds of a start beside loading the model
_CLOSING_SECONDS = 15  # reserved for idle workers to end and documents to be saved


def compose_files(host: Host, login_info: LoginInfo, secrets: Secrets) -> tuple[str, ...]:
    """Names of its compose files, in merge order. Raises FleetError for a service that anyone could use."""
    own_network = BARK in host.ray_roles or _without_keys(host, login_info, secrets)
    return ("bark.yaml", *(["bark-host-network.yaml"] if own_network else []))


def artefacts(host: Host, checksums: ChecksumCache) -> Mapping[str, Artefact]:
    """Weights and voices of a host that speaks, by kind. Raises FleetError where they are missing or invalid."""
    speaking = next((role for role in (BARK, WORKER) if role in host.roles), None)
    if speaking is None:
        return {}
    if host.bark.weights is None:
        raise FleetError(
            f"{host.name}: the role {speaking} needs weights: set bark.weights in the inventory to a directory made by "
            "voxyard weights fetch --out DIR"
        )
    wanted = {"weights": host.bark.weights, "voices": host.bark.voices}
    return {kind: BUILDERS[kind](path, checksums) for kind, path in wanted.items() if path is not None}


def require_shared_sessions(host: Host, secrets: Secrets) -> None:
    """Raises FleetError where services that share their pages or documents could not read each other's sessions."""
    if (host.behind_gateway or host.bark.store is not None) and BARK_SESSIONS not in secrets.values:
        why = "behind a gateway" if host.behind_gateway else "on one store"
        raise FleetError(
            f"{host.name}: {why} all speech services sign the page's sessions with one secret: add "
            f"{BARK_SESSIONS} to {place(host.secrets)}, such as what `openssl rand -hex 32` prints"
        )


def require_gpus(host: Host, assignment: Assignment, login_info: LoginInfo) -> None:
    """Raises FleetError for a speech service without a usable GPU on a host with GPUs."""
    if BARK in host.roles and host.speaks_on_gpus and login_info.gpus and not assignment.bark_limits:
        reason = assignment.problem or "none is usable or free"
        raise FleetError(f"{host.name}: no GPU for the speech service: {reason}: remove the role bark from this host")


def bark_part(host: Host, assignment: Assignment, login_info: LoginInfo, inputs: ReleaseInputs) -> RolePart:
    """The speech service of `host`. Raises FleetError for missing or invalid inputs."""
    idle = idle_secrets(host.bark.store, host.bark.shelf)
    secrets = {name: value for name, value in inputs.secrets.of(BARK).items() if name not in idle}
    if BARK in host.ray_roles:
        secrets[CLUSTER_TOKEN] = cluster_token(host)
    limits = {} if BARK in host.ray_roles else assignment.bark_limits  # in a cluster it has no GPU of its own
    lame_duck = _lame_duck_seconds(host)
    address, stop_seconds = _address(host, login_info), host.bark.stop_seconds + lame_duck
    start_seconds = _start_seconds(host.bark.settings)
    listed = ",".join(f"{uuid}={mib}" for uuid, mib in sorted(limits.items()))
    service = Service(
        name=BARK,
        config="",
        image=inputs.images[BARK],
        address=address,
        port=host.bark.port,
        stop_seconds=stop_seconds,
        healthy_seconds=start_seconds + _START_MARGIN,
        gpu_limits=limits,
        after=(HEAD, WORKER),  # which it joins
        artefacts=tuple(inputs.artefacts.values()),
    )
    names = {name: versioned(name, value) for name, value in sorted(secrets.items())}
    own = _host_file(host, limits, inputs, names, memory_limits(host, login_info.memory_mib).get(BARK))
    return RolePart(
        services=(service,),
        compose={HOST_FILE: compose.to_bytes(own, "Host-specific settings of the speech service")} if own else {},
        files={BARK_FILE: _settings_file(host, limits, inputs, secrets, lame_duck)},
        variables=artefact_variables(inputs.artefacts)
        | {
            "VOXYARD_BARK_ADDRESS": address,
            "VOXYARD_BARK_PORT": str(host.bark.port),
            "VOXYARD_BARK_STOP_SECONDS": str(stop_seconds),
            "VOXYARD_BARK_START_SECONDS": str(start_seconds),
            **({"VOXYARD_BARK_GPU_MEMORY": listed} if listed else {}),
        },
        secrets={BARK: {names[name]: value for name, value in secrets.items()}},
    )


def working_seconds(stop_seconds: int) -> int:
    """Seconds to finish running work, at least 1: fewer than `stop_seconds`, after which the container is killed."""
    return stop_seconds - min(_CLOSING_SECONDS, -(-stop_seconds // 2))


def _address(host: Host, login_info: LoginInfo) -> str:
    return host.bark.address or login_info.address


def _without_keys(host: Host, login_info: LoginInfo, secrets: Secrets) -> bool:
    """True where the speech service has no API keys: allowed on loopback only. Raises FleetError otherwise."""
    if BARK_KEYS in secrets.values:
        return False
    address = _address(host, login_info)
    if not is_loopback(address):
        raise FleetError(
            f"{host.name}: the speech service would listen on {address} without API keys: "
            f"add {BARK_KEYS} to {place(host.secrets)} (created by voxyard keys new NAME --file FILE), or set "
            "bark.address to 127.0.0.1"
        )
    return True


def _host_file(
    host: Host,
    gpus: Mapping[str, int],
    inputs: ReleaseInputs,
    secrets: Mapping[str, str],
    memory_mib: int | None,
) -> dict[str, Any]:
    """Host-specific compose file: GPUs, memory limit, voices, shelf, and `secrets` (file by name)."""
    service: dict[str, Any] = {} if memory_mib is None else {"mem_limit": f"{memory_mib}m"}
    if gpus:
        service |= compose.gpu_request(sorted(gpus))
    voices, shelf = inputs.artefacts.get("voices"), host.bark.shelf
    volumes = [] if voices is None else [compose.mount(f"../../artefacts/{voices.name}", VOICES, read_only=True)]
    volumes += [] if shelf is None or is_bucket(shelf) else [compose.mount(shelf, SHELF)]
    if volumes:
        service["volumes"] = volumes
    if variables := variables_of_secrets(secrets):
        service["environment"] = dict(variables)
    if secrets:
        service["secrets"] = list(secrets)
    document: dict[str, Any] = {"services": {BARK: service}} if service else {}
    return document | ({"secrets": tls.places(secrets)} if secrets else {})


def _settings_file(
    host: Host, gpus: Mapping[str, int], inputs: ReleaseInputs, secrets: Mapping[str, bytes], lame_duck: int
) -> bytes:
    """Settings file of the service, as YAML: what plan and release determine, then the inventory's own values."""
    own = working_seconds(host.bark.stop_seconds)
    voices, shelf = inputs.artefacts.get("voices"), host.bark.shelf or ""
    named = voices is not None and VOICE_NAMES in voices.checksums
    service: dict[str, object] = {
        "data_dir": DATA,
        "stop_seconds": own,
        "drain_seconds": own,
        "store": host.bark.store,
        "shelf": SHELF if shelf and not is_bucket(shelf) else shelf,
        "instance": host.name,
        "lame_duck_seconds": lame_duck,
        "session_secret": SESSION_SECRET if BARK_SESSIONS in secrets else None,
        "tls_certificate": HOST_CERTIFICATE if inputs.tls else None,
        "tls_key": HOST_KEY if inputs.tls else None,
        "keys": KEYS if BARK_KEYS in secrets else None,
        "webhook_secret": WEBHOOK_SECRET if BARK_WEBHOOK in secrets else None,
        "voices": f"{VOICES}/{VOICE_NAMES}" if named else None,
    }
    speech: dict[str, object] = {}
    bark: dict[str, object] = {"model": WEIGHTS, "device": "cuda" if gpus else "cpu", "voices": voices and VOICES}
    if gpus:
        speech["max_parallel_tts_workers"] = len(gpus)
        speech["worker_memory_mib"] = min(SpeechSection().worker_memory_mib, *gpus.values())
        bark["gpu_memory"] = ",".join(f"{uuid}={mib}" for uuid, mib in sorted(gpus.items()))
    if BARK in host.ray_roles:
        speech |= {"pool": "ray", "cluster": head_address(host), "cluster_token": CLUSTER_TOKEN_FILE}
    made = {"service": service, "speech": speech, "bark": bark}
    document = {name: {key: value for key, value in values.items() if value} for name, values in made.items()}
    for section, values in host.bark.settings.items():
        document[section] |= _without_nulls(values)
    return yaml.safe_dump({name: values for name, values in document.items() if values}, sort_keys=False).encode()


def _start_seconds(settings: Mapping[str, Mapping[str, object]]) -> int:
    """Start timeout of a worker, in seconds."""
    given = _without_nulls(settings.get("speech", {})).get("start_timeout", SpeechSection().start_timeout)
    return round(given) if isinstance(given, int | float) else 0


def _lame_duck_seconds(host: Host) -> int:
    """Seconds at a stop in which the service still accepts requests, for a gateway to notice; rounded up."""
    given = host.bark.settings.get("service", {}).get("lame_duck_seconds")
    if isinstance(given, int | float):
        return math.ceil(given)
    return LAME_DUCK_SECONDS if host.behind_gateway else 0


def _without_nulls(values: Mapping[str, object]) -> dict[str, object]:
    """Settings without null values, which mean the default."""
    return {name: value for name, value in values.items() if value is not None}
