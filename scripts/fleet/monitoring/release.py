"""Release of a monitoring host: configuration and compose files of its programs."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.inventory.hosts import Inventory
from fleet.inventory.secrets import GRAFANA, Secrets, versioned
from fleet.monitoring.render import (
    SECRETS,
    TARGETS,
    base_configuration,
    mail_relay,
    render_configuration,
    webhook_secrets,
)
from fleet.release import compose
from fleet.release.config_hash import LENGTH, config_hash

COMPOSE_FILE, SITE_FILE, HOST_FILE = "monitoring.yaml", "site.yaml", "host.yaml"
ENVIRONMENT_FILE, MANIFEST_FILE = "monitoring.env", "release.json"
RELOADED = {"prometheus": "prometheus/", "alertmanager": "alertmanager/"}
"""Programs with a reload request, and the directory of their configuration."""
READ_AT_START = {"grafana": "grafana/provisioning/"}
_OURS = {
    "prometheus/prometheus.yml": "deploy/prometheus/prometheus.yml",
    "prometheus/rules": "deploy/prometheus/rules",
    "grafana/provisioning": "grafana/provisioning",
    "grafana/dashboards": "grafana/dashboards",
}
_IMAGE = re.compile(r"\$\{(VOXYARD_[A-Z_]+_IMAGE):-([^}]+)\}")


@dataclass(frozen=True, slots=True)
class MonitoringImage:
    """Image of a monitoring program: a local image that is sent, or a reference that the host pulls."""

    reference: str  # as in the compose file
    local: LocalImage | None = None

    @property
    def identity(self) -> str:
        """Identity for the configuration hash."""
        return self.reference if self.local is None else self.local.id


@dataclass(frozen=True, slots=True)
class Program:
    """Expected state of one monitoring container."""

    name: str
    config: str  # configuration hash, 12 hex digits
    files: str  # hash of the files it reloads; empty without reload
    image: str


@dataclass(frozen=True, slots=True)
class MonitoringManifest:
    """Manifest of a monitoring release (release.json): all data for a rollback."""

    id: str
    compose_files: tuple[str, ...]
    programs: tuple[Program, ...]
    targets: frozenset[tuple[str, str]]  # job and instance of each target
    groups: frozenset[tuple[str, str]]  # file and name of each rule group

    def program(self, name: str) -> Program | None:
        """Program with this name."""
        return next((each for each in self.programs if each.name == name), None)


@dataclass(frozen=True, slots=True)
class MonitoringRelease:
    """Monitoring release: manifest, files, images; the same content has the same id."""

    manifest: MonitoringManifest
    files: tuple[tuple[str, bytes], ...]
    program_images: tuple[MonitoringImage, ...]
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # by file name on the host

    @property
    def id(self) -> str:
        """Content hash, 12 hex digits."""
        return self.manifest.id

    @property
    def checksums(self) -> Mapping[str, str]:
        """SHA-256 of each file, by name."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files}

    def archive(self) -> bytes:
        """Tar archive of the files, readable by the owner only."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, content in self.files:
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), 0o600
                archive.addfile(member, io.BytesIO(content))
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class MonitoringInputs:
    """Inputs of a monitoring release, the same for all hosts."""

    files: Mapping[str, bytes]  # by path on the host
    compose: Mapping[str, bytes]  # in merge order
    alertmanager: Mapping[str, Any]  # configuration without receivers
    variables: Mapping[str, str]  # of the operator's monitoring.env

    @property
    def programs(self) -> tuple[str, ...]:
        """Services of the merged compose files, without removed ones."""
        documents = [compose.parse(content, name).get("services") or {} for name, content in self.compose.items()]
        found: dict[str, bool] = {}
        for document in documents:
            found |= {name: not (isinstance(entry, dict) and "!reset" in entry) for name, entry in document.items()}
        return tuple(name for name, there in found.items() if there)

    @property
    def images(self) -> Mapping[str, str]:
        """Image names by program, from the compose file or the operator's variables."""
        services = compose.parse(self.compose[COMPOSE_FILE], COMPOSE_FILE)["services"]
        found = {}
        for name in self.programs:
            if name in services and (match := _IMAGE.fullmatch(services[name]["image"])):
                found[name] = self.variables.get(match[1], match[2])
        return found


def read_inputs(root: Path, site: Path) -> MonitoringInputs:
    """Read the repository `root` and the operator's additions in the directory `site`, which may be missing.

    Additions: rules/*.yaml and targets/*.yaml for Prometheus, compose.yaml, merged last, and monitoring.env with
    values for the variables of the compose files. Raises FleetError.
    """
    files: dict[str, bytes] = {}
    for name, source in _OURS.items():
        files |= _ours(root / source, name)
    for name, folder in (("prometheus/site", site / "rules"), (TARGETS, site / "targets")):
        files |= _read(folder, name) if folder.is_dir() else {}
    sources = {COMPOSE_FILE: root / "deploy/compose/monitoring.yaml", SITE_FILE: site / "compose.yaml"}
    texts = {name: path.read_bytes() for name, path in sources.items() if name == COMPOSE_FILE or path.is_file()}
    _refuse_unknown_services(texts)
    known = compose.variables([compose.parse(content, name) for name, content in texts.items()])
    alertmanager = base_configuration(root / "deploy/alertmanager/alertmanager.yml")
    return MonitoringInputs(files, texts, alertmanager, _variables(site / "monitoring.env", known))


def render(
    inventory: Inventory,
    inputs: MonitoringInputs,
    secrets: Secrets,
    program_images: Mapping[str, MonitoringImage],
    uid: int,
    gid: int,
    named: Callable[[str, bytes], str] = versioned,
) -> MonitoringRelease:
    """Render the release of a monitoring host; `uid` and `gid` of its login, `program_images` by program.

    `named` gives the file name of a secret from its name and value. Raises FleetError for missing secrets or invalid
    files.
    """
    programs = inputs.programs
    owned = _secrets(inventory, secrets, programs)
    relay, made = mail_relay(secrets.of("alertmanager"))
    owned["alertmanager"] |= made
    files = dict(inputs.files)
    for name, content in render_configuration(inventory, inputs.alertmanager, relay).items():
        if name in files:
            raise FleetError(
                f"site/targets/{Path(name).name}: this name is used by a generated file: choose another name"
            )
        files[name] = content
    texts = dict(inputs.compose)
    names = {program: {name: named(name, value) for name, value in each.items()} for program, each in owned.items()}
    if own := _secrets_file(names):
        texts[HOST_FILE] = own
    variables = {**inputs.variables, "VOXYARD_UID": str(uid), "VOXYARD_GID": str(gid)}
    made_of = _programs(programs, texts, variables, files, program_images)
    variables |= {
        f"VOXYARD_{_upper(name)}_IMAGE": program_image.reference for name, program_image in program_images.items()
    }
    left_out = dict.fromkeys(compose.parse(texts[COMPOSE_FILE], COMPOSE_FILE)["services"], "none")
    configs = left_out | {each.name: each.config for each in made_of}
    variables |= {f"VOXYARD_{_upper(name)}_CONFIG": config for name, config in configs.items()}
    files |= texts
    release = _digest({**files, "": json.dumps([variables, [each.config for each in made_of]]).encode()})
    files[ENVIRONMENT_FILE] = _environment({"VOXYARD_RELEASE": release, **variables})
    manifest = MonitoringManifest(release, tuple(texts), made_of, frozenset(_targets(files)), frozenset(_groups(files)))
    files[MANIFEST_FILE] = _written(manifest)
    secret_values = {names[program][name]: value for program, each in owned.items() for name, value in each.items()}
    return MonitoringRelease(
        manifest, tuple(sorted(files.items())), tuple(dict.fromkeys(program_images.values())), secret_values
    )


def parse(text: str | bytes) -> MonitoringManifest:
    """Parse a release.json. Raises FleetError for an invalid one."""
    try:
        found = json.loads(text)
        return MonitoringManifest(
            str(found["id"]),
            tuple(found["compose_files"]),
            tuple(Program(name, **each) for name, each in found["programs"].items()),
            frozenset((job, instance) for job, instance in found["targets"]),
            frozenset((file, name) for file, name in found["groups"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FleetError(
            f"{MANIFEST_FILE} of monitoring cannot be parsed ({error}): run fab monitoring again"
        ) from None


def _written(manifest: MonitoringManifest) -> bytes:
    document = {
        "id": manifest.id,
        "compose_files": manifest.compose_files,
        "programs": {
            each.name: {"config": each.config, "files": each.files, "image": each.image} for each in manifest.programs
        },
        "targets": sorted(manifest.targets),
        "groups": sorted(manifest.groups),
    }
    return json.dumps(document, indent=1).encode()


def _programs(
    names: tuple[str, ...],
    texts: Mapping[str, bytes],
    variables: Mapping[str, str],
    files: Mapping[str, bytes],
    program_images: Mapping[str, MonitoringImage],
) -> tuple[Program, ...]:
    plain = {name: value for name, value in variables.items() if not name.endswith(("_IMAGE", "_CONFIG"))}
    found = []
    for name in names:
        program_image = program_images.get(name)
        config = config_hash(
            name,
            program_image.identity if program_image else "",
            compose=tuple(texts.items()),
            environment=plain,
            files={},
        )
        if name in READ_AT_START:
            config = _digest({"": config.encode(), **_below(files, READ_AT_START[name])})
        again = _digest(_below(files, RELOADED[name])) if name in RELOADED else ""
        found.append(Program(name, config, again, program_image.reference if program_image else ""))
    return tuple(found)


def _secrets(inventory: Inventory, secrets: Secrets, programs: tuple[str, ...]) -> dict[str, dict[str, bytes]]:
    """Secrets by program. Raises FleetError for a missing one."""
    wanted: dict[str, tuple[str, ...]] = {"alertmanager": webhook_secrets(inventory)}
    if "grafana" in programs:
        wanted["grafana"] = (GRAFANA,)
    for program, names in wanted.items():
        if missing := [name for name in names if name not in secrets.values]:
            raise FleetError(
                f"{program} needs the secret {', '.join(missing)}: add it to the file named as "
                "`secrets` of the monitoring host in the inventory"
            )
    return {program: {name: secrets.values[name] for name in names} for program, names in wanted.items()}


def _secrets_file(files: Mapping[str, Mapping[str, str]]) -> bytes | None:
    """Compose file of the programs' secrets, from program, name and file name; None without secrets."""
    if not any(files.values()):
        return None
    services: dict[str, Any] = {
        program: {"secrets": [_mount(program, name) for name in sorted(named)]}
        for program, named in files.items()
        if named
    }
    places = {name: {"file": f"../../secrets/{file}"} for each in files.values() for name, file in sorted(each.items())}
    text = yaml.safe_dump({"services": services, "secrets": places}, sort_keys=False)
    return f"# The secrets of this host's programs; written by fab monitoring.\n{text}".encode()


def _mount(program: str, name: str) -> Any:
    """Mount of a secret: below /run/secrets, Alertmanager's where its configuration names them."""
    return {"source": name, "target": str(SECRETS / name)} if program == "alertmanager" else name


def _targets(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Job and instance of each target of the generated files."""
    for job in ("exporter", "trainer", "bark", "gateway", "node"):
        for group in yaml.safe_load(files[f"{TARGETS}/{job}.yaml"]):
            yield from ((job, group["labels"]["host"]) for _ in group["targets"])


def _groups(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    for path, content in {**_below(files, "prometheus/rules/"), **_below(files, "prometheus/site/")}.items():
        try:
            for group in yaml.safe_load(content)["groups"]:
                yield path.removeprefix("prometheus/"), str(group["name"])
        except (yaml.YAMLError, LookupError, TypeError) as error:
            said = " ".join(str(error).split())
            raise FleetError(f"{path}: not a Prometheus rule file: {said}: correct it") from None


def _ours(path: Path, name: str) -> dict[str, bytes]:
    found = _read(path, name)
    if not found:
        raise FleetError(f"{path}: missing or empty, required for {name}: check that the repository is complete")
    return found


def _read(path: Path, name: str) -> dict[str, bytes]:
    """A file, or the YAML and JSON files of a directory, by name on the host. Raises FleetError."""
    try:
        if path.is_file():
            return {name: path.read_bytes()}
        found = sorted(each for each in path.rglob("*") if each.suffix in (".yaml", ".yml", ".json"))
        return {f"{name}/{each.relative_to(path).as_posix()}": each.read_bytes() for each in found}
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror}") from None


def _refuse_unknown_services(texts: Mapping[str, bytes]) -> None:
    """Raises FleetError for services that are not part of monitoring."""
    ours = compose.parse(texts[COMPOSE_FILE], COMPOSE_FILE)["services"]
    more = compose.parse(texts[SITE_FILE], SITE_FILE).get("services") or {} if SITE_FILE in texts else {}
    if unknown := [name for name in more if name not in ours]:
        raise FleetError(
            f"site/compose.yaml: {', '.join(unknown)}: expected changes of {', '.join(ours)}, or `!reset null` to "
            "remove one; other services belong into another compose project"
        )


def _variables(path: Path, known: set[str]) -> dict[str, str]:
    """Variables of monitoring.env. Raises FleetError with file and line."""
    if not path.is_file():
        return {}
    ours = {"VOXYARD_RELEASE", "VOXYARD_UID", "VOXYARD_GID"}
    may = {name for name in known - ours if not name.endswith("_CONFIG")}
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, sign, value = line.partition("=")
        if not sign or name.strip() not in may or not value.strip().isprintable() or "'" in value:
            raise FleetError(f"{path}:{number}: expected NAME=VALUE, with a name of {', '.join(sorted(may))}")
        found[name.strip()] = value.strip()
    return found


def _environment(variables: Mapping[str, str]) -> bytes:
    return "".join(f"{name}='{value}'\n" for name, value in sorted(variables.items())).encode()


def _below(files: Mapping[str, bytes], folder: str) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name.startswith(folder)}


def _digest(files: Mapping[str, bytes]) -> str:
    found = hashlib.sha256()
    for name, content in sorted(files.items()):
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:LENGTH]


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")
