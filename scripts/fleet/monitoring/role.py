"""Role monitoring: Prometheus, Alertmanager and Grafana as a part of a host's release."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.images.third_party import MONITORING
from fleet.inventory.hosts import Inventory
from fleet.inventory.secrets import GRAFANA, HOST_CA, Secrets, versioned
from fleet.monitoring.render import (
    CA_FILE,
    JOBS,
    SECRETS,
    TARGETS,
    base_configuration,
    mail_relay,
    render_configuration,
    webhook_secrets,
    with_authorities,
    with_runbook,
)
from fleet.release import compose
from fleet.release.config_hash import variable
from fleet.release.service import ConfigFiles, RolePart, Service, below, digest_of
from fleet.rollout.commands import INSIDE

COMPOSE_FILE, SITE_FILE, SECRETS_FILE = "monitoring.yaml", "monitoring-site.yaml", "monitoring-secrets.yaml"
PROMETHEUS_FILE = "prometheus/prometheus.yml"
PROMETHEUS_PORT, ALERTMANAGER_PORT = 9090, 9093  # on the host's loopback
_READ = f"{INSIDE}/current"
_OURS = {
    PROMETHEUS_FILE: "deploy/prometheus/prometheus.yml",
    "prometheus/rules": "deploy/prometheus/rules",
    "grafana/provisioning": "grafana/provisioning",
    "grafana/dashboards": "grafana/dashboards",
}
_RELOAD = "/-/reload"
_HEALTHY_SECONDS = 180  # includes the replay of Prometheus's log after a crash
_STOP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class MonitoringInputs:
    """Inputs of the role, the same for all hosts: repository, inventory's site directory."""

    files: Mapping[str, bytes]  # by path in the release
    compose: Mapping[str, bytes]  # in merge order
    alertmanager: Mapping[str, Any]  # configuration without receivers
    variables: Mapping[str, str]  # of the operator's monitoring.env

    @property
    def programs(self) -> tuple[str, ...]:
        """Services of the merged compose files, without those that the operator removed."""
        site = compose.parse(self.compose.get(SITE_FILE, b""), SITE_FILE).get("services") or {}
        return tuple(
            name for name in MONITORING if not (isinstance(entry := site.get(name), dict) and "!reset" in entry)
        )

    @property
    def images(self) -> Mapping[str, str | None]:
        """Image of each program that monitoring.env names; None: the repository's."""
        return {name: self.variables.get(variable(name, "IMAGE")) for name in self.programs}


def read_inputs(root: Path, site: Path) -> MonitoringInputs:
    """Read the repository `root` and the operator's additions in the directory `site`, which may be missing.

    Additions: rules/*.yaml and targets/*.yaml for Prometheus, compose.yaml, merged after ours, and monitoring.env with
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


def monitoring_part(
    inventory: Inventory,
    inputs: MonitoringInputs,
    secrets: Secrets,
    images: Mapping[str, LocalImage],
    named: Callable[[str, bytes], str] = versioned,
    encrypted: Collection[str] = (),
) -> RolePart:
    """Part of a monitoring host's release; `images` by program.

    `named` gives the file name of a secret from its name and value; the hosts `encrypted` speak TLS. Raises FleetError
    for missing secrets or invalid files.
    """
    owned = _secrets(inventory, secrets, inputs.programs)
    relay, made = mail_relay(secrets.of("alertmanager"))
    owned["alertmanager"] |= made
    url = inventory.monitoring.runbook_url
    rules = below(inputs.files, "prometheus/rules")
    files = {**inputs.files, **{name: with_runbook(content, url) for name, content in rules.items()}}
    if encrypted:
        files[PROMETHEUS_FILE] = with_authorities(files[PROMETHEUS_FILE])
        files[f"prometheus/{CA_FILE}"] = _authorities(encrypted, secrets)
    for name, content in render_configuration(inventory, inputs.alertmanager, relay, encrypted).items():
        if name in files:
            raise FleetError(
                f"site/targets/{Path(name).name}: this name is used by a generated file: choose another name"
            )
        files[name] = content
    files = {name: content for name, content in files.items() if name.partition("/")[0] in inputs.programs}
    names = {program: {name: named(name, value) for name, value in each.items()} for program, each in owned.items()}
    own = _secrets_file(names)
    provisioning = digest_of(below(files, "grafana/provisioning"))  # read at its start only
    return RolePart(
        services=tuple(_service(name, images[name], files) for name in inputs.programs),
        compose={**inputs.compose, **({SECRETS_FILE: own} if own else {})},
        files=files,
        variables={
            **{variable(name, "CONFIG"): "none" for name in MONITORING if name not in inputs.programs},
            **{name: value for name, value in inputs.variables.items() if not name.endswith("_IMAGE")},
            "VOXYARD_GRAFANA_PROVISIONING": provisioning,
        },
        secrets={
            program: {names[program][name]: value for name, value in each.items()} for program, each in owned.items()
        },
    )


def _service(name: str, image: LocalImage, files: Mapping[str, bytes]) -> Service:
    port, ready, reload = {
        "prometheus": (PROMETHEUS_PORT, "/-/ready", _RELOAD),
        "alertmanager": (ALERTMANAGER_PORT, "/-/ready", _RELOAD),
        "grafana": (3000, "/api/health", ""),  # it watches its dashboards
    }[name]
    checks = {
        "prometheus": ("promtool", "check", "config", f"{_READ}/prometheus.yml"),
        "alertmanager": ("amtool", "check-config", f"{_READ}/alertmanager.yml"),
    }
    shown = _shown(files) if name == "prometheus" else {}
    return Service(
        name=name,
        config="",
        image=image,
        address="127.0.0.1",
        port=port,
        ready=ready,
        stop_seconds=_STOP_SECONDS,
        healthy_seconds=_HEALTHY_SECONDS,
        metrics=f"{name}_",
        files=ConfigFiles(digest_of(below(files, name)), reload, checks.get(name, ()), shown),
    )


def _shown(files: Mapping[str, bytes]) -> Mapping[str, tuple[str, ...]]:
    """Answers of Prometheus once it has loaded all groups of rules and all targets of the inventory."""
    groups = (f'"name":"{name}","file":"{_READ}/{file}"' for file, name in _groups(files))
    targets = (f'"labels":{{"instance":"{instance}","job":"{job}"}}' for job, instance in _targets(files))
    return {"/api/v1/rules": tuple(sorted(groups)), "/api/v1/targets?state=active": tuple(sorted(set(targets)))}


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
    for name in wanted["alertmanager"]:
        if not re.match(rb"(\s*https?://[^\s/]|$)", secrets.values[name]):
            raise FleetError(
                f"the secret {name} is no webhook: expected its whole URL, https://…, and nothing before it"
            )
    return {program: {name: secrets.values[name] for name in names} for program, names in wanted.items()}


def _authorities(encrypted: Collection[str], secrets: Secrets) -> bytes:
    if HOST_CA not in secrets.values:
        raise FleetError(
            f"{', '.join(sorted(encrypted))} speak TLS, and Prometheus has no {HOST_CA} to verify them: add it, with "
            "host-certificate and host-key, to the file named as `secrets` of the monitoring host in the inventory"
        )
    return secrets.values[HOST_CA]


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
    return compose.to_bytes({"services": services, "secrets": places}, "Secrets of the monitoring programs")


def _mount(program: str, name: str) -> Any:
    """Mount of a secret: below /run/secrets, Alertmanager's where its configuration names them."""
    return {"source": name, "target": str(SECRETS / name)} if program == "alertmanager" else name


def _targets(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Job and instance of each target of the generated files."""
    for job in JOBS:
        for group in yaml.safe_load(files[f"{TARGETS}/{job}.yaml"]):
            yield from ((job, group["labels"]["host"]) for _ in group["targets"])


def _groups(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    for path, content in {**below(files, "prometheus/rules"), **below(files, "prometheus/site")}.items():
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
    """A file, or the YAML and JSON files of a directory, by name in the release. Raises FleetError."""
    try:
        if path.is_file():
            return {name: path.read_bytes()}
        found = sorted(each for each in path.rglob("*") if each.suffix in (".yaml", ".yml", ".json"))
        return {f"{name}/{each.relative_to(path).as_posix()}": each.read_bytes() for each in found}
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror}") from None


def _refuse_unknown_services(texts: Mapping[str, bytes]) -> None:
    """Raises FleetError for services that are not part of monitoring."""
    more = compose.parse(texts.get(SITE_FILE, b""), SITE_FILE).get("services") or {}
    if unknown := [name for name in more if name not in MONITORING]:
        raise FleetError(
            f"site/compose.yaml: {', '.join(unknown)}: expected changes of {', '.join(MONITORING)}, or `!reset null` "
            "to remove one; other services belong into another compose project"
        )


def _variables(path: Path, known: set[str]) -> dict[str, str]:
    """Variables of monitoring.env. Raises FleetError with file and line."""
    if not path.is_file():
        return {}
    ours = {"VOXYARD_RELEASE", "VOXYARD_UID", "VOXYARD_GID", "VOXYARD_GRAFANA_PROVISIONING"}
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
