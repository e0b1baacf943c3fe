"""Release of a host: rendered files under a content hash."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import yaml

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.images.third_party import GATEWAY, NODE_EXPORTER
from fleet.inventory import bark_settings
from fleet.inventory.bark_settings import VOICE_NAMES
from fleet.inventory.host_tls import HostTls, host_tls
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import (
    BARK_KEYS,
    BARK_SESSIONS,
    BARK_WEBHOOK,
    CLUSTER_TOKEN,
    Secrets,
    place,
    read_all,
    versioned,
)
from fleet.inventory.shared_documents import SHELF, is_bucket
from fleet.release import compose, environment, tls
from fleet.release.artefact import BUILDERS, Artefact, ChecksumCache
from fleet.release.config_hash import config_hash, variable
from fleet.release.environment import ENVIRONMENT_FILE, LoginInfo
from fleet.release.gpu_assignment import Assignment
from fleet.release.memory import memory_limits
from fleet.release.plan import PLAN_FILE, plan_document
from fleet.release.ray_nodes import cluster_token, head_address
from fleet.release.service import RolePart, Service
from fleet.ssh.verbs import tar_of

MANIFEST_FILE = "release.json"
START_MARGIN = 60  # seconds of a start beside loading the model
# Read by another user inside the containers; their parent directory is accessible to the owner only.
_MODES = {PLAN_FILE: 0o644, bark_settings.BARK_FILE: 0o644, "haproxy.cfg": 0o644}
_TLS_MODES = {tls.WEB_FILE: 0o644, tls.CA_FILE: 0o644}

__all__ = [
    "ENVIRONMENT_FILE",
    "MANIFEST_FILE",
    "PLAN_FILE",
    "LoginInfo",
    "Release",
    "ReleaseInputs",
    "found_images",
    "plan_document",
    "read_inputs",
    "render",
    "wanted_images",
]


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


@dataclass(frozen=True, slots=True)
class Release:
    """Release of one host; the same content has the same id."""

    id: str
    files: tuple[tuple[str, bytes], ...]
    compose_files: tuple[str, ...]  # of the services, in merge order
    services: tuple[Service, ...]  # in start order
    images: tuple[LocalImage, ...]  # including the trainer's
    artefacts: tuple[Artefact, ...] = ()
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # by file name on the host

    @property
    def checksums(self) -> Mapping[str, str]:
        """SHA-256 of each file, by name."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files}

    def service(self, name: str) -> Service | None:
        """The service of this name."""
        return next((each for each in self.services if each.name == name), None)

    def archive(self) -> bytes:
        """Tar archive of the files, readable by the owner only."""
        return tar_of(self.files, _MODES | _TLS_MODES)


def wanted_images(host: Host) -> tuple[str, ...]:
    """Roles whose images are built here and which a host needs."""
    bark = ("bark",) if "bark" in host.roles or host.ray_roles else ()
    return ("exporter", *bark, *(("trainer",) if "trainer" in host.roles else ()))


def found_images(host: Host) -> tuple[str, ...]:
    """Roles whose images are made by others."""
    node_exporter = (NODE_EXPORTER,) if host.node_exporter else ()
    return (*node_exporter, *((GATEWAY,) if "gateway" in host.roles else ()))


def read_inputs(
    host: Host,
    login_info: LoginInfo,
    folder: Path,
    images: Mapping[str, LocalImage],
    checksums: ChecksumCache | None = None,
    parts: Sequence[RolePart] = (),
    *,
    with_tls: bool = True,
) -> ReleaseInputs:
    """Read the inputs of a host's release; `folder` contains the compose files, `parts` come from other roles.

    `checksums` caches the checksums of weights. Without `with_tls` the host's certificate is not used. Raises
    FleetError for missing or invalid inputs.
    """
    secrets = read_all(host.secrets)
    loopback = "bark" in host.roles and _without_keys(host, login_info, secrets)
    _require_shared_sessions(host, secrets)
    sources = compose.sources(folder, host, gpus=login_info.gpus, host_network=loopback or "bark" in host.ray_roles)
    return ReleaseInputs(
        images={role: images[role] for role in (*wanted_images(host), *found_images(host)) if role != GATEWAY},
        compose={name: path.read_bytes() for name, path in sources.items()},
        trainer={name: path.read_bytes() for name, path in compose.trainer_sources(folder, host).items()},
        artefacts=_artefacts(host, checksums or ChecksumCache()),
        secrets=secrets,
        parts=tuple(parts),
        tls=host_tls(host.name, host.secrets, secrets) if with_tls else None,
    )


def render(
    host: Host,
    assignment: Assignment,
    login_info: LoginInfo,
    inputs: ReleaseInputs,
    *,
    withheld: Sequence[str] = (),
) -> Release:
    """Render the release of `host`. Raises FleetError where the host lacks what the inventory requires.

    Services that the preflight keeps from it, `withheld`, stay in the files, which their compose overrides need, but
    are neither started nor sent. A blocked trainer is no role of `host`.
    """
    if "bark" not in withheld:
        _require_gpus(host, assignment, login_info)
    secrets = dict(inputs.secrets.of("bark")) if "bark" in host.roles else {}
    if "bark" in host.ray_roles:
        secrets[CLUSTER_TOKEN] = cluster_token(host)
    memory = memory_limits(host, login_info.memory_mib).get("bark")
    files, compose_files = _files(host, assignment, inputs, secrets, memory)
    variables = environment.variables(host, assignment, login_info, inputs.all_images, inputs.artefacts)
    variables |= {} if inputs.tls is None else tls.variables(inputs.tls)
    variables |= {name: value for part in inputs.parts for name, value in part.variables.items()}
    ordered = [(name, files[name]) for name in compose_files]

    def hashed(service: Service) -> Service:
        config = config_hash(
            service.name,
            service.image.id,
            compose=ordered,
            environment=variables,
            files=files,
            artefacts=tuple(inputs.artefacts.values()) if service.name in ("bark", "worker") else (),
        )
        return replace(service, config=config)

    services = tuple(hashed(each) for each in _services(host, assignment, login_info, inputs))
    variables |= {variable(each.name, "CONFIG"): each.config for each in services}
    services = tuple(each for each in services if each.name not in withheld)
    images = tuple(dict.fromkeys(image for role, image in inputs.all_images.items() if role not in withheld))
    speaking = {"bark", "worker"} & set(host.roles)
    artefacts = () if speaking <= set(withheld) else tuple(inputs.artefacts.values())
    release = _id(files, variables, withheld)
    files[ENVIRONMENT_FILE] = environment.to_bytes({"VOXYARD_RELEASE": release, **variables})
    of_services = {"bark": {versioned(name, value): value for name, value in secrets.items()}}
    if inputs.tls is not None:  # those of the exporter are those of all but node_exporter, and always there
        of_services |= {
            name: tls.secrets(inputs.tls, name) for name in ("exporter", NODE_EXPORTER)[: 1 + host.node_exporter]
        }
    of_services |= {name: dict(values) for part in inputs.parts for name, values in part.secrets.items()}
    values = {file: each for name, found in of_services.items() if name not in withheld for file, each in found.items()}
    files[MANIFEST_FILE] = _manifest(release, compose_files, services, images, artefacts, tuple(values), withheld)
    return Release(release, tuple(files.items()), compose_files, services, images, artefacts, values)


def _artefacts(host: Host, checksums: ChecksumCache) -> Mapping[str, Artefact]:
    speaking = next((role for role in ("bark", "worker") if role in host.roles), None)
    if speaking is None:
        return {}
    if host.bark.weights is None:
        raise FleetError(
            f"{host.name}: the role {speaking} needs weights: set bark.weights in the inventory to a directory made by "
            "voxyard weights fetch --out DIR"
        )
    wanted = {"weights": host.bark.weights, "voices": host.bark.voices}
    return {kind: BUILDERS[kind](path, checksums) for kind, path in wanted.items() if path is not None}


def _without_keys(host: Host, login_info: LoginInfo, secrets: Secrets) -> bool:
    """True where the speech service has no API keys: allowed on loopback only. Raises FleetError otherwise."""
    if BARK_KEYS in secrets.values:
        return False
    address = environment.bark_address(host, login_info)
    if not _is_loopback(address):
        raise FleetError(
            f"{host.name}: the speech service would listen on {address} without API keys: "
            f"add {BARK_KEYS} to {place(host.secrets)} (created by voxyard keys new NAME --file FILE), or set "
            "bark.address to 127.0.0.1"
        )
    return True


def _require_shared_sessions(host: Host, secrets: Secrets) -> None:
    if (host.behind_gateway or host.bark.store is not None) and BARK_SESSIONS not in secrets.values:
        why = "behind a gateway" if host.behind_gateway else "on one store"
        raise FleetError(
            f"{host.name}: {why} all speech services sign the page's sessions with one secret: add "
            f"{BARK_SESSIONS} to {place(host.secrets)}, such as what `openssl rand -hex 32` prints"
        )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return address == "localhost"


def _require_gpus(host: Host, assignment: Assignment, login_info: LoginInfo) -> None:
    """Raises FleetError for a speech service without a usable GPU on a host with GPUs."""
    if "bark" in host.roles and host.speaks_on_gpus and login_info.gpus and not assignment.bark_limits:
        reason = assignment.problem or "none is usable or free"
        raise FleetError(f"{host.name}: no GPU for the speech service: {reason}: remove the role bark from this host")


def _files(
    host: Host, assignment: Assignment, inputs: ReleaseInputs, secrets: Mapping[str, bytes], memory: int | None
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Files that do not depend on the release id, and the names of the compose files in merge order.

    `memory`: limit of the speech service in MiB.
    """
    ours = {name: body for name, body in inputs.compose.items() if not name.startswith(compose.SITE)}
    theirs = {name: body for name, body in inputs.compose.items() if name.startswith(compose.SITE)}
    files = {PLAN_FILE: yaml.safe_dump(plan_document(assignment, host.acknowledged), sort_keys=False).encode()}
    if "bark" in host.roles:
        voices = inputs.artefacts.get("voices")
        shelf = host.bark.shelf
        directory = None if shelf is None or is_bucket(shelf) else shelf
        own = compose.host_file(
            gpus=sorted(environment.bark_limits(host, assignment)),
            voices=None if voices is None else voices.name,
            secrets={name: versioned(name, value) for name, value in sorted(secrets.items())},
            memory_mib=memory,
            shelf=directory,
        )
        if own:
            ours[compose.HOST_FILE] = compose.to_bytes(own, "Host-specific settings of the speech service")
        files[bark_settings.BARK_FILE] = bark_settings.render(
            host.bark.settings,
            bark_settings.DeploymentValues(
                gpus=environment.bark_limits(host, assignment),
                keys=BARK_KEYS in secrets,
                webhook_secret=BARK_WEBHOOK in secrets,
                voices=voices is not None,
                voice_names=voices is not None and VOICE_NAMES in voices.checksums,
                stop_seconds=host.bark.stop_seconds,
                instance=host.name,
                session_secret=BARK_SESSIONS in secrets,
                lame_duck_seconds=bark_settings.lame_duck_seconds(
                    host.bark.settings, behind_gateway=host.behind_gateway
                ),
                tls=inputs.tls is not None,
                store=host.bark.store,
                shelf=shelf if directory is None else SHELF,
                cluster=head_address(host) if "bark" in host.ray_roles else None,
            ),
        )
    if inputs.tls is not None:
        services = (
            "exporter",
            *([NODE_EXPORTER] if host.node_exporter else []),
            *(["bark"] if "bark" in host.roles else []),
        )
        ours[tls.COMPOSE_FILE] = tls.compose_file(inputs.tls, services, ours)
        files |= tls.files(inputs.tls)
    for part in inputs.parts:
        ours |= part.compose
        files |= part.files
    merged = ours | theirs
    return {**merged, **inputs.trainer, **files}, tuple(merged)


def _services(host: Host, assignment: Assignment, login_info: LoginInfo, inputs: ReleaseInputs) -> Sequence[Service]:
    """Services in start order, without configuration hashes."""
    exporter = Service(
        name="exporter",
        config="",
        image=inputs.images["exporter"],
        address=environment.exporter_address(host, login_info),
        port=host.exporter_port,
        ready="/readyz" if login_info.gpus else "/healthz",  # without a driver it is never ready
    )
    found = [exporter]
    if host.node_exporter:
        node_exporter = Service(
            name=NODE_EXPORTER,
            config="",
            image=inputs.images[NODE_EXPORTER],
            address=environment.exporter_address(host, login_info),
            port=host.node_exporter_port,
            ready="/",
            metrics="node_",
        )
        found.append(node_exporter)
    if "bark" in host.roles:
        speech = Service(
            name="bark",
            config="",
            image=inputs.images["bark"],
            address=environment.bark_address(host, login_info),
            port=host.bark.port,
            stop_seconds=environment.bark_stop_seconds(host),
            healthy_seconds=bark_settings.start_seconds(host.bark.settings) + START_MARGIN,
            gpu_limits=environment.bark_limits(host, assignment),
        )
        found.append(speech)
    if inputs.tls is not None:
        found = [replace(each, tls=inputs.tls.name) for each in found]
    of_parts = [each for part in inputs.parts for each in part.services]
    nodes = [each for each in of_parts if each.name in ("head", "worker")]  # which the speech service joins
    bark = [each for each in found if each.name == "bark"]
    others = [each for each in of_parts if each not in nodes]
    return [*(each for each in found if each not in bark), *nodes, *bark, *others]


def _id(files: Mapping[str, bytes], variables: Mapping[str, str], withheld: Sequence[str]) -> str:
    """Content hash; images, artefacts and secrets are part of the variables, as names and hashes."""
    content: dict[str, object] = {
        "files": {name: hashlib.sha256(body).hexdigest() for name, body in files.items()},
        "variables": variables,
        "modes": _MODES | {name: mode for name, mode in _TLS_MODES.items() if name in files},
    }
    if withheld:
        content["withheld"] = sorted(withheld)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _manifest(
    release: str,
    compose_files: Sequence[str],
    services: Sequence[Service],
    images: Sequence[LocalImage],
    artefacts: Sequence[Artefact],
    secrets: Sequence[str],
    withheld: Sequence[str],
) -> bytes:
    """Manifest as JSON; `secrets` are file names."""
    document: dict[str, object] = {
        "id": release,
        "services": {
            each.name: {
                "config": each.config,
                "image": each.image.reference,
                "image_id": each.image.id,
                "address": each.address,
                "port": each.port,
                "ready": each.ready,
                "stop_seconds": each.stop_seconds,
                "healthy_seconds": each.healthy_seconds,
                "gpu_limits": dict(sorted(each.gpu_limits.items())),
                "metrics": each.metrics,
                "files": None if each.files is None else asdict(each.files),
                **({"tls": each.tls} if each.tls else {}),
            }
            for each in services
        },
        "images": [{"image": each.reference, "image_id": each.id} for each in images],
        "artefacts": [{"kind": each.kind, "id": each.id, "name": each.name} for each in artefacts],
        "secrets": sorted(secrets),
        "compose_files": list(compose_files),
    }
    if withheld:
        document["withheld"] = sorted(withheld)
    return json.dumps(document, indent=2).encode() + b"\n"
