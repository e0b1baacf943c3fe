"""Files of a training run, rendered from the run request and the host's release."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from fleet.command_line import fab
from fleet.errors import FleetError
from fleet.inventory.secrets import HOST_CERTIFICATE, HOST_KEY
from fleet.inventory.types import bracketed
from fleet.release import compose
from fleet.release.tls import (
    CA_FILE,
    CERTIFICATE,
    CERTIFICATE_VARIABLE,
    KEY,
    KEY_VARIABLE,
    NAME_VARIABLE,
    WEB_CONFIG,
    WEB_FILE,
    places,
    web_config,
)
from fleet.runs.config import RunSettings, shards_key, validate
from fleet.runs.corpus_sync import SOURCE, RunInput
from fleet.runs.hosts import RunHosts, refuse_misfit
from fleet.ssh.verbs import Tls, tar_of
from voxyard.settings import Loaded
from voxyard.trainer.config import TrainConfig

COMPOSE, RUN_COMPOSE = "trainer.yaml", "run.yaml"  # of the release, and the run-specific part
ENVIRONMENT, MANIFEST = "run.env", "run.json"
SETTINGS, PLAN = "train.yaml", "plan.yaml"
RESTARTS = 3
"""Of a run over hosts: an hour where it lost one, by the trainer; in all after a crash or a reboot, by Docker."""
_INPUTS = {  # further inputs: role → environment variable of the setting, mount point
    "validation": ("VOXYARD_TRAIN_VAL_DATA", "/validation"),
    "init": ("VOXYARD_TRAIN_INIT_FROM", "/init"),
}


class _Reset:
    """List of an earlier compose file that is emptied."""


class _Dumper(yaml.SafeDumper):
    """Dumper of compose files."""


_Dumper.add_representer(_Reset, lambda dumper, _: dumper.represent_sequence("!reset", []))


@dataclass(frozen=True, slots=True)
class RunTls:
    """TLS of a run's metrics: the release's files, and the file names of certificate and key on the host."""

    name: str  # that the certificate is for
    certificate: str
    key: str
    web: bytes
    authorities: bytes


@dataclass(frozen=True, slots=True)
class DeployedRelease:
    """Parts of a host's release that training runs use."""

    release: str
    image: str
    uid: int
    gid: int
    address: str  # listen address of the metrics
    port: int
    stop_seconds: int  # grace period for the checkpoint
    plan: bytes
    compose: bytes  # trainer.yaml
    gpus: tuple[str, ...] = ()  # UUIDs of the host in nvidia-smi order
    memory_mib: int | None = None  # limit of its containers; None: the memory of its host is not known
    tls: RunTls | None = None  # None: metrics in plain HTTP


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Run request; stored with the run, so that it can be resumed under another release."""

    run: str
    host: str  # name in the inventory
    settings: RunSettings
    inputs: Mapping[str, RunInput]  # by role: train, validation, init
    overrides: tuple[tuple[str, bytes], ...]  # additional compose files, merged last
    by: str  # operator who started it
    hosts: RunHosts | None = None  # that it trains over; None: this one alone


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Rendered files of a run; the same request and release have the same `config` hash."""

    wanted: RunRequest
    deployed: DeployedRelease
    config: str
    gpus: tuple[str, ...]
    limits: Mapping[str, int]  # MiB by UUID
    device: str  # auto, gpu, cpu
    files: tuple[tuple[str, bytes], ...]
    shards: str | None  # directory of prepared shards below the corpus; None: the corpus is shards
    notes: tuple[str, ...] = ()

    @property
    def checksums(self) -> Mapping[str, str]:
        """SHA-256 of each file, by name."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files}

    @property
    def compose_files(self) -> tuple[str, ...]:
        """Compose files in merge order; additional ones last."""
        return (COMPOSE, RUN_COMPOSE, *(name for name, _ in self.wanted.overrides))

    @property
    def corpora(self) -> tuple[str, ...]:
        """Directories below corpora/ that it reads; the first gets the shards."""
        return tuple(self.wanted.inputs[role].place for role in ("train", *_INPUTS) if role in self.wanted.inputs)

    @property
    def metrics(self) -> str:
        """URL of its metrics."""
        return metrics_url(self.deployed.address, self.deployed.port, tls=self.deployed.tls is not None)

    def archive(self) -> bytes:
        """Tar archive of the files."""
        # What containers read, as another user; the run's directory is the login's alone.
        return tar_of(self.files, dict.fromkeys((SETTINGS, PLAN, WEB_FILE), 0o644))


def render(wanted: RunRequest, deployed: DeployedRelease) -> RunFiles:
    """Render the files of a run. Raises FleetError for settings that are invalid on this host, or missing GPUs."""
    settings = wanted.settings if wanted.hosts is None else wanted.settings.with_flags(wanted.hosts.flags)
    loaded = validate(settings, name=SETTINGS, plan=deployed.plan)
    if wanted.hosts is not None:
        refuse_misfit(loaded.config, len(wanted.hosts.names))
    gpus = reserved(loaded, deployed)
    corpus = wanted.inputs["train"]
    shards = f"shards-{shards_key(loaded.config)}" if corpus.kind == "recordings" else None
    own = _run_compose(replace(wanted, settings=settings), loaded, deployed, gpus)
    parts = {
        COMPOSE: deployed.compose,
        **dict(wanted.overrides),
        RUN_COMPOSE: yaml.dump(own, Dumper=_Dumper, sort_keys=False).encode(),
        SETTINGS: wanted.settings.file or b"{}\n",
        PLAN: deployed.plan,
    }
    if deployed.tls is not None:
        parts |= {WEB_FILE: deployed.tls.web, CA_FILE: deployed.tls.authorities}
    variables = {
        "VOXYARD_RUN": wanted.run,
        "VOXYARD_TRAINER_IMAGE": deployed.image,
        "VOXYARD_UID": str(deployed.uid),
        "VOXYARD_GID": str(deployed.gid),
        "VOXYARD_TRAINER_METRICS_ADDRESS": deployed.address,
        "VOXYARD_TRAINER_METRICS_PORT": str(deployed.port),
        "VOXYARD_TRAINER_STOP_SECONDS": str(deployed.stop_seconds),
        "VOXYARD_TRAINER_CORPUS": f"../../corpora/{corpus.place}",
        "VOXYARD_TRAINER_DATA": f"/corpus/{shards or SOURCE}",
    }
    config = _hash(parts, variables)
    limits = _limits(loaded.config, deployed, gpus)
    made = RunFiles(
        wanted=wanted,
        deployed=deployed,
        config=config,
        gpus=gpus,
        limits=limits,
        device=loaded.config.training.device,
        files=(),
        shards=shards,
        notes=loaded.notes,
    )
    environment = {"VOXYARD_RELEASE": deployed.release, "VOXYARD_TRAINER_CONFIG": config, **variables}
    parts[ENVIRONMENT] = "".join(f"{name}={value}\n" for name, value in environment.items()).encode()
    parts[MANIFEST] = json.dumps(_manifest(made), indent=1).encode() + b"\n"
    return replace(made, files=tuple(parts.items()))


def parse_release(answer: str, gpus: tuple[str, ...]) -> DeployedRelease:
    """Parse the output of `commands.release_there`. Raises FleetError."""
    place, *bodies = answer.split("\n")
    environment, plan, compose, web, authorities = (base64.b64decode(body) for body in [*bodies, *[""] * 5][:5])
    pairs = (line.partition("=") for line in environment.decode().splitlines())
    found = {name: value for name, _, value in pairs}
    release = place.rpartition("/")[2]
    if "VOXYARD_TRAINER_IMAGE" not in found or not compose:
        raise FleetError(
            f"release {release} has no trainer: add the role trainer to the host in the inventory, or repair what the "
            f"preflight says of it ({fab()} check), then {fab()} deploy"
        )
    try:
        return DeployedRelease(
            release=release,
            image=found["VOXYARD_TRAINER_IMAGE"],
            uid=int(found["VOXYARD_UID"]),
            gid=int(found["VOXYARD_GID"]),
            address=found["VOXYARD_TRAINER_METRICS_ADDRESS"],
            port=int(found["VOXYARD_TRAINER_METRICS_PORT"]),
            stop_seconds=int(found["VOXYARD_TRAINER_STOP_SECONDS"]),
            plan=plan,
            compose=compose,
            gpus=gpus,
            memory_mib=int(found["VOXYARD_TRAINER_MEMORY"]) if "VOXYARD_TRAINER_MEMORY" in found else None,
            tls=RunTls(found[NAME_VARIABLE], found[CERTIFICATE_VARIABLE], found[KEY_VARIABLE], web, authorities)
            if NAME_VARIABLE in found
            else None,
        )
    except (LookupError, ValueError) as error:
        raise FleetError(f"release {release} cannot be parsed ({error}): deploy again with this version") from error


def request_from_files(files: Mapping[str, bytes]) -> RunRequest:
    """Parse a run request from the files of a run. Raises FleetError for invalid files."""
    try:
        found = json.loads(files[MANIFEST])
        names = [name for name in found["compose_files"] if name not in (COMPOSE, RUN_COMPOSE)]
        return RunRequest(
            run=str(found["run"]),
            host=str(found["host"]),
            settings=RunSettings(files[SETTINGS], tuple((str(key), str(value)) for key, value in found["flags"])),
            inputs={role: RunInput.from_json(each) for role, each in found["inputs"].items()},
            overrides=tuple((name, files[name]) for name in names),
            by=str(found["by"]),
            hosts=RunHosts.from_json(found["hosts"]) if "hosts" in found else None,
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FleetError(
            f"the files of the run cannot be parsed ({type(error).__name__}: {error}): "
            f"start a new run with `{fab()} train` from its checkpoint (training.init_from)"
        ) from error


def reserved(loaded: Loaded[TrainConfig], deployed: DeployedRelease) -> tuple[str, ...]:
    """UUIDs of the GPUs of the run: ids of the settings, else all trainer GPUs of the plan.

    Raises FleetError for ids that match no GPU of the host.
    """
    config = loaded.config
    planned = trainer_gpus(deployed.plan)
    if config.training.device == "cpu" or not deployed.gpus:
        return ()
    ids = (config.data.model_gpu, config.data.data_gpu)
    if all(each is None for each in ids):
        return planned
    return tuple(dict.fromkeys(_uuid(each, deployed) for each in ids if each is not None))


def metrics_url(address: str, port: int, *, tls: bool) -> str:
    """URL of a run's metrics."""
    return f"http{'s' if tls else ''}://{bracketed(address)}:{port}/metrics"


def run_tls(run: str, name: str | None) -> Tls | None:
    """Verification of the certificate of a run's metrics on its host, by the name that it is for."""
    return None if name is None else Tls(name, f"runs/{run}/{CA_FILE}")


def trainer_gpus(plan: bytes) -> tuple[str, ...]:
    """Trainer GPUs of a host plan, model GPU first."""
    found = yaml.safe_load(plan) or {}
    roles = {each["role"]: each["gpu"] for each in found.get("workloads", ()) if each["workload"] == "trainer"}
    return tuple(roles[role] for role in ("model", "data") if role in roles)


def _uuid(asked: int | str, deployed: DeployedRelease) -> str:
    text = str(asked).strip()
    if text.isdecimal() and int(text) < len(deployed.gpus):
        return deployed.gpus[int(text)]
    found = next((each for each in deployed.gpus if each.lower() == text.lower()), None)
    if found is None:
        there = ", ".join(f"{index} = {uuid}" for index, uuid in enumerate(deployed.gpus))
        raise FleetError(f"{text} is not a GPU of the host: expected one of {there}; without ids the plan decides")
    return found


def _limits(config: TrainConfig, deployed: DeployedRelease, gpus: Sequence[str]) -> dict[str, int]:
    """Memory limits of the trainer by GPU."""
    training = config.training
    if not gpus or not training.enable_memory_isolation:
        return {}
    data = config.data
    by_role = ((data.data_gpu, training.data_gpu_memory), (data.model_gpu, training.model_gpu_memory))
    found = {_uuid(asked, deployed): limit for asked, limit in by_role if asked is not None and limit is not None}
    if not found and training.model_gpu_memory is not None:  # one GPU without an id, or a replica on each
        found = dict.fromkeys(gpus, training.model_gpu_memory)
    return found


def _run_compose(
    wanted: RunRequest, loaded: Loaded[TrainConfig], deployed: DeployedRelease, gpus: Sequence[str]
) -> dict[str, Any]:
    """Run-specific compose file: command line, GPUs, mounts."""
    service: dict[str, Any] = {"command": ["train", *wanted.settings.words(), *_ids_as_uuids(loaded, deployed, gpus)]}
    environment = {_INPUTS[role][0]: _INPUTS[role][1] for role in wanted.inputs if role in _INPUTS}
    if loaded.config.data.cache_file is not None:
        environment["VOXYARD_TRAIN_CACHE_FILE"] = "/var/lib/voxyard/run/clips.cache"
    if deployed.tls is not None:
        environment["VOXYARD_TRAIN_METRICS_WEB_CONFIG"] = WEB_CONFIG
    if wanted.hosts is not None:  # TensorFlow's server listens on the host's own address, and so do the metrics
        service |= {"network_mode": "host", "ports": _Reset(), "restart": f"on-failure:{RESTARTS}"}
        environment["VOXYARD_TRAIN_RESTARTS"] = str(RESTARTS)
        environment["VOXYARD_TRAIN_METRICS_HOST"] = deployed.address
        environment["VOXYARD_TRAIN_METRICS_PORT"] = str(deployed.port)
    if environment:
        service["environment"] = environment
    volumes: list[dict[str, Any]] = [
        compose.mount(f"../../corpora/{content.place}/{SOURCE}", _INPUTS[role][1], read_only=True)
        for role, content in wanted.inputs.items()
        if role in _INPUTS
    ]
    secrets = {}
    if deployed.tls is not None:
        volumes.append(web_config())
        secrets = {HOST_CERTIFICATE: deployed.tls.certificate, HOST_KEY: deployed.tls.key}
        targets = {HOST_CERTIFICATE: CERTIFICATE, HOST_KEY: KEY}
        service["secrets"] = [{"source": name, "target": target} for name, target in targets.items()]
    more = {"secrets": places(secrets)} if secrets else {}
    if volumes:
        service["volumes"] = volumes
    if gpus:
        service |= compose.gpu_request(gpus)
    if deployed.memory_mib is None:
        return {"services": {"train": service}, **more}
    limit = {"mem_limit": f"{deployed.memory_mib}m"}
    return {"services": {"prepare": limit, "train": service | limit}, **more}


def _ids_as_uuids(loaded: Loaded[TrainConfig], deployed: DeployedRelease, gpus: Sequence[str]) -> list[str]:
    """Flags that replace GPU indices by UUIDs: a container numbers its GPUs from 0."""
    data = loaded.config.data
    if not gpus:
        return []
    pairs = (("--data-gpu", data.data_gpu), ("--model-gpu", data.model_gpu))
    return [f"{flag}={_uuid(asked, deployed)}" for flag, asked in pairs if asked is not None and str(asked).isdecimal()]


def _manifest(made: RunFiles) -> dict[str, Any]:
    wanted, deployed = made.wanted, made.deployed
    return {
        "run": wanted.run,
        "host": wanted.host,
        "by": wanted.by,
        "release": deployed.release,
        "image": deployed.image,
        "config": made.config,
        "gpus": list(made.gpus),
        "limits": dict(made.limits),
        "device": made.device,
        "address": deployed.address,
        "port": deployed.port,
        **({"tls": deployed.tls.name} if deployed.tls is not None else {}),
        "stop_seconds": deployed.stop_seconds,
        "inputs": {role: content.to_json() for role, content in wanted.inputs.items()},
        "shards": made.shards,
        "flags": [list(pair) for pair in wanted.settings.flags],
        "compose_files": list(made.compose_files),
        **({"hosts": wanted.hosts.to_json()} if wanted.hosts is not None else {}),
    }


def _hash(parts: Mapping[str, bytes], variables: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(variables, sort_keys=True).encode())
    for name, body in sorted(parts.items()):
        digest.update(f"\0{name}\0{len(body)}\0".encode() + body)
    return digest.hexdigest()[:12]
