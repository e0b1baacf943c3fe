"""Release of a host: rendered files under a content hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import yaml

from fleet.images.image import LocalImage
from fleet.images.third_party import GATEWAY, NODE_EXPORTER
from fleet.inventory.bark_settings import BARK_FILE
from fleet.inventory.host_tls import host_tls
from fleet.inventory.hosts import Host
from fleet.inventory.ray_clusters import BARK
from fleet.inventory.secrets import Secrets, read_all
from fleet.release import bark, compose, environment, exporter, tls, trainer
from fleet.release.artefact import Artefact, ChecksumCache
from fleet.release.config_hash import config_hash, variable
from fleet.release.environment import ENVIRONMENT_FILE, USER_ID, LoginInfo
from fleet.release.gpu_assignment import Assignment
from fleet.release.inputs import ReleaseInputs
from fleet.release.plan import PLAN_FILE, plan_document
from fleet.release.service import RolePart, Service
from fleet.ssh.verbs import tar_of

MANIFEST_FILE = "release.json"
# Read by another user inside the containers; their parent directory is accessible to the owner only.
_MODES = {PLAN_FILE: 0o644, BARK_FILE: 0o644, "haproxy.cfg": 0o644, "frozen.lua": 0o644}
_TLS_MODES = {tls.WEB_FILE: 0o644, tls.CA_FILE: 0o644}


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
    speaking = (BARK,) if BARK in host.roles or host.ray_roles else ()
    return (exporter.EXPORTER, *speaking, *((trainer.TRAINER,) if trainer.TRAINER in host.roles else ()))


def found_images(host: Host) -> tuple[str, ...]:
    """Roles whose images are made by others."""
    node_exporter = (NODE_EXPORTER,) if host.node_exporter else ()
    return (*node_exporter, *((GATEWAY,) if GATEWAY in host.roles else ()))


def source_names(host: Host, login_info: LoginInfo, secrets: Secrets) -> tuple[str, ...]:
    """Names of the compose files of the host's own services, in merge order. Raises FleetError."""
    speaking = bark.compose_files(host, login_info, secrets) if BARK in host.roles else ()
    return (*exporter.compose_files(host), *speaking, *(() if login_info.gpus else (compose.CPU_FILE,)))


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
    names = source_names(host, login_info, secrets)
    bark.require_shared_sessions(host, secrets)
    runs = (trainer.COMPOSE_FILE,) if trainer.TRAINER in host.roles else ()
    return ReleaseInputs(
        images={role: images[role] for role in (*wanted_images(host), *found_images(host)) if role != GATEWAY},
        compose={name: path.read_bytes() for name, path in compose.sources(folder, host, names).items()},
        trainer={name: compose.required(folder / name, host).read_bytes() for name in runs},
        artefacts=bark.artefacts(host, checksums or ChecksumCache()),
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
    if BARK not in withheld:
        bark.require_gpus(host, assignment, login_info)
    own = _parts(host, assignment, login_info, inputs)
    files, compose_files = _files(host, assignment, inputs, own)
    variables = {variable(role, "IMAGE"): image.reference for role, image in inputs.all_images.items()}
    variables |= {"VOXYARD_UID": str(USER_ID), "VOXYARD_GID": str(USER_ID)}
    variables |= {name: value for part in own for name, value in part.variables.items()}
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
            artefacts=service.artefacts,
        )
        return replace(service, config=config)

    parts = (*own, *inputs.parts)
    services = tuple(map(hashed, _in_start_order([each for part in parts for each in part.services])))
    variables |= {variable(each.name, "CONFIG"): each.config for each in services}
    services = tuple(each for each in services if each.name not in withheld)
    images = tuple(dict.fromkeys(image for role, image in inputs.all_images.items() if role not in withheld))
    mounted = {each.name: each for service in services for each in service.artefacts}
    artefacts = tuple(mounted.values())
    release = _id(files, variables, withheld)
    files[ENVIRONMENT_FILE] = environment.to_bytes({"VOXYARD_RELEASE": release, **variables})
    of_services = [each for part in parts for each in part.secrets.items() if each[0] not in withheld]
    secrets = {file: value for _, found in of_services for file, value in found.items()}
    files[MANIFEST_FILE] = _manifest(release, compose_files, services, images, artefacts, tuple(secrets), withheld)
    return Release(release, tuple(files.items()), compose_files, services, images, artefacts, secrets)


def _parts(host: Host, assignment: Assignment, login_info: LoginInfo, inputs: ReleaseInputs) -> tuple[RolePart, ...]:
    """Parts whose services speak TLS with the host's certificate, where it has one."""
    found = [exporter.exporter_part(host, login_info, inputs)]
    if BARK in host.roles:
        found.append(bark.bark_part(host, assignment, login_info, inputs))
    if trainer.TRAINER in host.roles:
        found.append(trainer.trainer_part(host, assignment, login_info, inputs))
    if (own := inputs.tls) is None:
        return tuple(found)
    return tuple(replace(part, services=tuple(replace(each, tls=own.name) for each in part.services)) for part in found)


def _files(
    host: Host, assignment: Assignment, inputs: ReleaseInputs, own: Sequence[RolePart]
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Files that do not depend on the release id, and the names of the compose files in merge order."""
    ours = {name: body for name, body in inputs.compose.items() if not name.startswith(compose.SITE)}
    theirs = {name: body for name, body in inputs.compose.items() if name.startswith(compose.SITE)}
    plan = plan_document(assignment, host.acknowledged, _sick_gpus(host))
    files = {PLAN_FILE: yaml.safe_dump(plan, sort_keys=False).encode()}
    for part in own:
        ours |= part.compose
        files |= part.files
    if inputs.tls is not None:
        services = [each.name for part in own for each in part.services]
        ours[tls.COMPOSE_FILE] = tls.compose_file(inputs.tls, services, ours)
        files |= tls.files(inputs.tls)
    for part in inputs.parts:
        ours |= part.compose
        files |= part.files
    compose.refuse_strangers(theirs, ours, host)
    return {**ours, **theirs, **files}, (*ours, *theirs)


def _sick_gpus(host: Host) -> dict[str, object]:
    """How many of its sick GPUs the exporter may take out of work, and which stay whatever they have."""
    kept, most = host.keep_sick_gpus, host.sick_gpus
    stay: dict[str, object] = {"stay": True if isinstance(kept, bool) else list(kept)} if kept else {}
    return stay if most is None else {"most": most, **stay}


def _in_start_order(services: Sequence[Service]) -> tuple[Service, ...]:
    """The services, each behind those that start before it."""
    found: dict[str, Service] = {}
    for service in services:
        found |= {each.name: each for each in services if each.name in service.after}
        found[service.name] = service
    return tuple(found.values())


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
                **({"foreign": True} if each.foreign else {}),
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
