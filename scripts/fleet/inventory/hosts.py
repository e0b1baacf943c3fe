"""Inventory file deploy/hosts.yaml, parsed and validated; errors name file, line, host and key."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast

from fleet.errors import FleetError
from fleet.inventory import bark_settings, rollout_settings, validators
from fleet.inventory.clusters import Cluster, read_clusters
from fleet.inventory.rollout_settings import RolloutSettings
from fleet.inventory.validators import ErrorCollector, InvalidValueError, Readers, list_of, merged
from fleet.inventory.yaml_lines import YamlValue, read

Role = Literal["trainer", "bark", "monitoring"]
Policy = Literal["recommended", "full"]

ROLES: tuple[Role, ...] = ("trainer", "bark", "monitoring")
POLICIES: tuple[Policy, ...] = ("recommended", "full")
MONITORING_PORTS = {"Prometheus": 9090, "Alertmanager": 9093, "Grafana": 3000, "node_exporter": 9100}
WARNINGS = (
    "audit", "cgroup_driver", "clock", "disk", "driver", "driver_compat", "ecc", "gpu_inventory", "gpu_memory",
    "gpu_process", "numa", "pair_link", "pcie_width", "persistence", "programs", "row_remap", "selinux", "throttling",
    "toolkit", "topology", "xid",
)  # fmt: skip
"""Ids of the checks that warn: what `acknowledged` may name."""
LONGEST_STOP = 3600  # seconds


@dataclass(frozen=True, slots=True)
class Jump:
    """Jump host of an SSH route."""

    address: str
    port: int = 22
    user: str | None = None  # None: as on the target host


@dataclass(frozen=True, slots=True)
class Bark:
    """Speech service settings of one host."""

    port: int = 8080
    address: str | None = None  # None: the address of the SSH login
    weights: Path | None = None  # local directory
    voices: Path | None = None  # local directory; None: Bark's own voices
    stop_seconds: int = 60
    memory_gib: int | None = None  # limit of its container; None: a share of the host's memory
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # of its file, by section


@dataclass(frozen=True, slots=True)
class Trainer:
    """Training settings of one host."""

    metrics_port: int = 9411
    stop_seconds: int = 120  # longer than writing a checkpoint
    memory_gib: int | None = None  # as of Bark


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the fleet."""

    name: str
    address: str
    user: str
    port: int = 22
    roles: tuple[Role, ...] = ()
    memory_policy: Policy = "recommended"
    gpus: int | tuple[str, ...] | None = None  # count or UUIDs; None: not given
    jump: tuple[Jump, ...] = ()  # first hop first
    acknowledged: frozenset[str] = frozenset()  # check ids
    exporter_port: int = 9410
    exporter_address: str | None = None  # None: the address of the SSH login
    node_exporter: bool = True  # False: the host has one of its own
    node_exporter_port: int = 9100
    identity_file: Path | None = None
    known_hosts: Path | None = None
    ssh_config: bool = False  # also read the operator's ~/.ssh/config
    compose_overrides: tuple[Path, ...] = ()  # merged last, in this order
    registry: str | None = None  # None: images are sent with docker save and docker load
    bark: Bark = field(default_factory=Bark)
    trainer: Trainer = field(default_factory=Trainer)
    secrets: Path | None = None  # local file
    canary: bool = False  # first of its roles to get a release
    groups: tuple[str, ...] = ()  # names that select it, with others

    @property
    def gets_node_exporter(self) -> bool:
        """True where node_exporter is part of the release; on a monitoring host it is part of monitoring."""
        return self.node_exporter and "monitoring" not in self.roles

    @property
    def ports(self) -> Mapping[str, int]:
        """TCP ports of a deployment, by listener."""
        taken = {"the exporter": self.exporter_port}
        if self.gets_node_exporter:
            taken["the host's node_exporter"] = self.node_exporter_port
        if "bark" in self.roles:
            taken["the speech service"] = self.bark.port
        if "trainer" in self.roles:
            taken["a training run's metrics"] = self.trainer.metrics_port
        return taken | (MONITORING_PORTS if "monitoring" in self.roles else {})


@dataclass(frozen=True, slots=True)
class AlertReceiver:
    """Alert receiver: a mail address, or a file on the monitoring host that contains a webhook URL."""

    name: str
    email: str | None = None
    webhook_url_file: str | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts, clusters, alert receivers and rollout settings of a fleet."""

    path: Path
    hosts: tuple[Host, ...]
    alert_receivers: tuple[AlertReceiver, ...] = ()
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    clusters: tuple[Cluster, ...] = ()

    def select(self, names: Iterable[str], groups: Iterable[str] = ()) -> tuple[Host, ...]:
        """Hosts of these names and groups, all without either, in the inventory's order. Raises FleetError."""
        wanted, of_groups = list(dict.fromkeys(names)), list(dict.fromkeys(groups))
        known = [host.name for host in self.hosts]
        if not known:
            raise FleetError(f"{self.path} has clusters only: add hosts, or write files for them with fab render")
        if unknown := [name for name in wanted if name not in known]:
            raise FleetError(f"no host {', '.join(unknown)} in {self.path}: expected one of {', '.join(known)}")
        if unknown := [name for name in of_groups if name not in self.groups]:
            there = f"expected one of {', '.join(self.groups)}" if self.groups else "no host has groups"
            raise FleetError(f"no group {', '.join(unknown)} in {self.path}: {there}")
        return tuple(
            host
            for host in self.hosts
            if not (wanted or of_groups) or host.name in wanted or not set(of_groups).isdisjoint(host.groups)
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of the hosts, in the inventory's order."""
        return tuple(dict.fromkeys(group for host in self.hosts for group in host.groups))


def load(path: Path) -> Inventory:
    """Load the inventory in `path`. Raises FleetError with all errors, one line each, by file, line, host and key."""
    if not path.exists():
        raise FleetError(f"{path}: no such inventory: copy deploy/hosts.example.yaml there and edit it")
    root = read(path)
    problems = ErrorCollector(path)
    top = problems.mapping(root, "", ("defaults", "hosts", "clusters", "alert_receivers", "rollout"))
    defaults = problems.values(top.get("defaults"), "defaults", _SETTINGS)
    clusters = tuple(read_clusters(top.get("clusters"), defaults, problems, _resolve_paths))
    hosts = tuple(_hosts(top.get("hosts"), defaults, problems)) if "hosts" in top or not clusters else ()
    _check_addresses(hosts, top.get("hosts"), problems)
    receivers = tuple(_receivers(top.get("alert_receivers"), problems))
    rollout = problems.values(top.get("rollout"), "rollout", rollout_settings.READERS)
    problems.raise_any()
    return Inventory(path, hosts, receivers, rollout_settings.rollout_settings(rollout, path.parent), clusters)


def _hosts(node: YamlValue | None, defaults: Mapping[str, object], problems: ErrorCollector) -> Iterable[Host]:
    entries = problems.mapping(node, "hosts")
    if not entries and not problems.found:
        problems.add(node.line if node else 1, "hosts", "expected at least one host")
    for name, entry in entries.items():
        where = f"hosts.{name}"
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            problems.add(entry.line, where, "a host name has letters, digits, dots, dashes and underscores only")
        before = len(problems.found)
        given = merged(defaults, problems.values(entry, where, {**_SETTINGS, **_OWN}))
        good = len(problems.found) == before
        missing = [key for key in ("address", "user") if key not in given]
        if good:
            for key in missing:
                problems.add(entry.line, f"{where}.{key}", "missing, and no default is given")
        if missing:
            continue
        host = _host(name, given, problems.path)
        if good:
            _check_ports(host, entry, where, problems)
        yield host


def _host(name: str, given: Mapping[str, object], inventory: Path) -> Host:
    values: dict[str, Any] = {key: _resolve_paths(value, inventory) for key, value in given.items()}
    values |= {key: kind(**values[key]) for key, kind in (("bark", Bark), ("trainer", Trainer)) if key in values}
    return Host(name=name, **values)


def _resolve_paths(value: object, inventory: Path) -> object:
    """Local paths made absolute, relative to the inventory."""
    if isinstance(value, Path):
        return (inventory.parent / value).absolute()
    if isinstance(value, dict):
        return {key: _resolve_paths(each, inventory) for key, each in value.items()}
    return tuple(_resolve_paths(each, inventory) for each in value) if isinstance(value, tuple) else value


def _check_ports(host: Host, entry: YamlValue, where: str, problems: ErrorCollector) -> None:
    """Reports two services on one port."""
    owners: dict[int, str] = {}
    for owner, number in host.ports.items():
        if number in owners:
            said = f"port {number} is used by {owners[number]} and by {owner}: change one of them"
            keys = (_PORT_KEYS.get(each, ()) for each in (owner, owners[number]))
            problems.add(next((line for each in keys if (line := _line(entry, each))), entry.line), where, said)
        owners.setdefault(number, owner)


def _check_addresses(hosts: Iterable[Host], node: YamlValue | None, problems: ErrorCollector) -> None:
    """Reports two hosts with one address: each deploy would replace the other's release."""
    owners: dict[object, Host] = {}
    entries = problems.mapping(node, "hosts") if node is not None else {}
    for host in hosts:
        other = owners.setdefault(_place(host), host)
        if other is not host:
            line = _line(entries[host.name], ["address"]) or entries[host.name].line
            said = f"{host.address}, port {host.port}, is the address of {other.name}, too: one entry a host"
            problems.add(line, f"hosts.{host.name}.address", said)


def _place(host: Host) -> object:
    """Equal for two hosts that are reached at one address over one route, whoever logs in."""
    return _spelled(host.address), host.port, tuple((_spelled(jump.address), jump.port) for jump in host.jump)


def _spelled(address: str) -> str:
    """Address in one spelling: names in lower case, IPv6 in its short form."""
    if validators.is_ip(address):
        return str(ipaddress.ip_address(address))
    return address.lower().rstrip(".")


def _line(entry: YamlValue, keys: Sequence[str]) -> int | None:
    """Line of a nested key of a host; None where it is not set."""
    for key in keys:
        if not isinstance(entry.value, Mapping) or key not in entry.value:
            return None
        entry = entry.value[key]
    return entry.line if keys else None


def _receivers(node: YamlValue | None, problems: ErrorCollector) -> Iterable[AlertReceiver]:
    if node is None or node.value is None:
        return
    if not isinstance(node.value, tuple):
        problems.add(node.line, "alert_receivers", f"expected a list, found {node.describe()}")
        return
    for number, entry in enumerate(node.value):
        where = f"alert_receivers[{number}]"
        before = len(problems.found)
        given = problems.values(entry, where, {each.name: validators.text for each in fields(AlertReceiver)})
        if len(problems.found) > before:
            continue
        if "name" not in given or len(given) != 2:
            problems.add(entry.line, where, "expected a name, and either email or webhook_url_file")
            continue
        yield AlertReceiver(**given)  # type: ignore[arg-type]


def _jumps(node: YamlValue) -> tuple[object, ...]:
    return list_of(node, _jump) if isinstance(node.value, tuple) else (_jump(node),)


def _jump(node: YamlValue) -> Jump:
    pattern = r"(?:([A-Za-z0-9_][\w.-]*)@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][\w.-]*)(?::([0-9]{1,5}))?"
    found = re.fullmatch(pattern, node.value) if isinstance(node.value, str) else None
    if found is None:
        raise InvalidValueError(f"expected [user@]address[:port], found {node.describe()}")
    user, address, port = found.groups()
    return Jump(address.strip("[]"), 22 if port is None else validators.port(YamlValue(node.line, int(port))), user)


def _warning(node: YamlValue) -> str:
    """Id of a warning of `fab check`; failures cannot be acknowledged."""
    if node.value not in WARNINGS:
        near = difflib.get_close_matches(str(node.value), WARNINGS, n=1)
        advice = f"is {near[0]} meant?" if near else f"known are {', '.join(WARNINGS)}"
        raise InvalidValueError(f"expected the id of a warning of `make check`, found {node.describe()}: {advice}")
    return str(node.value)


_memory_gib = validators.integer("GiB", 1, 1 << 16)
_stop_seconds = validators.integer("seconds", 1, LONGEST_STOP)
_PORT_KEYS: Mapping[str, tuple[str, ...]] = {
    "the exporter": ("exporter_port",),
    "the host's node_exporter": ("node_exporter_port",),
    "the speech service": ("bark", "port"),
    "a training run's metrics": ("trainer", "metrics_port"),
}
_SETTINGS: Readers = {  # keys of `defaults` and of a host
    "user": validators.word,
    "port": validators.port,
    "roles": lambda node: list_of(node, validators.one_of(ROLES)),
    "groups": lambda node: list_of(node, validators.word),
    "memory_policy": validators.one_of(POLICIES),
    "gpus": validators.gpus,
    "jump": _jumps,
    "acknowledged": lambda node: frozenset(list_of(node, _warning)),
    "exporter_port": validators.port,
    "node_exporter": validators.boolean,
    "node_exporter_port": validators.port,
    "identity_file": validators.path,
    "known_hosts": validators.path,
    "ssh_config": validators.boolean,
    "compose_overrides": lambda node: list_of(node, validators.path),
    "registry": validators.registry,
    "bark": {
        "port": validators.port,
        "weights": validators.path,
        "voices": validators.path,
        "stop_seconds": _stop_seconds,
        "memory_gib": _memory_gib,
        "settings": bark_settings.readers(),
    },
    "trainer": {"metrics_port": validators.port, "stop_seconds": _stop_seconds, "memory_gib": _memory_gib},
    "secrets": validators.path,
}
_OWN: Readers = {  # keys of a host only
    "address": validators.address,
    "exporter_address": validators.address,
    "canary": validators.boolean,
    "bark": {**cast("Readers", _SETTINGS["bark"]), "address": validators.address},
}
