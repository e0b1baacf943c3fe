"""Inventory file deploy/hosts.yaml, parsed and validated; errors name file, line, host and key."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import PlainValidator, TypeAdapter

from fleet.command_line import fab
from fleet.errors import FleetError
from fleet.inventory import types
from fleet.inventory.bark_settings import ServiceSettings, StopSeconds
from fleet.inventory.clusters import Cluster, read_clusters
from fleet.inventory.custom_settings import CUSTOM, Custom, CustomServices
from fleet.inventory.gateway_settings import Gateway, Upstream
from fleet.inventory.listeners import Listener
from fleet.inventory.monitoring_settings import AlertReceiver, MonitoringSettings, read_receivers
from fleet.inventory.ray_clusters import BARK, RayNode, head_addresses, ray_listeners, ray_problems
from fleet.inventory.rollout_settings import MaxFailed, RolloutSettings, SickGpus
from fleet.inventory.shared_documents import Shelf, Store, store_problems
from fleet.inventory.source import STANDARD_INPUT, printed
from fleet.inventory.ssh_config import of_ssh_config
from fleet.inventory.types import (
    Address,
    Between,
    LocalPath,
    LocalPaths,
    Login,
    Matching,
    Port,
    Registry,
    RemoteDirectory,
    Seconds,
    Switch,
    Word,
    expected,
    list_of,
    refusal,
)
from fleet.inventory.validation import ErrorCollector, Values, keys_of, merged
from voxyard.settings import SettingsError
from voxyard.settings.yaml_reader import YamlValue, read

Role = Literal["trainer", "bark", "monitoring", "gateway", "head", "worker", "custom"]
_MONITORING_PORTS = {"Prometheus": 9090, "Alertmanager": 9093, "Grafana": 3000}
WARNINGS = (
    "certificate", "cgroup_driver", "clock", "disk", "docker_limits", "docker_storage", "driver", "driver_compat",
    "ecc", "gpu_inventory", "gpu_memory", "gpu_process", "gpu_state", "numa", "out_of_work", "pair_link", "pcie_width",
    "persistence", "programs", "ray", "row_remap", "selinux", "state", "store", "throttling", "tls", "toolkit",
    "topology", "xid",
)  # fmt: skip
"""Ids of the checks that warn: what `acknowledged` may name."""
_UUID = r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@dataclass(frozen=True, slots=True)
class Jump:
    """Jump host of an SSH route."""

    address: str
    port: int = 22
    user: str | None = None  # None: as on the target host


def _jump(value: object) -> Jump:
    pattern = r"(?:([A-Za-z0-9_][\w.-]*)@)?(\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[A-Za-z0-9][\w.-]*)(?::([0-9]{1,5}))?"
    parts = re.fullmatch(pattern, value) if isinstance(value, str) else None
    if value == "none":
        raise expected("[user@]address[:port]", value, ": a host without a jump host has jump: []")
    if parts is None:
        raise expected("[user@]address[:port], or a list of them", value)
    user, address, port = parts.groups()
    if port is not None and not types.PORT.least <= int(port) <= types.PORT.most:
        raise expected(str(types.PORT), int(port))
    return Jump(address.strip("[]"), int(port or 22), user)


def _jumps(value: object) -> tuple[Jump, ...]:
    jumps = tuple(map(_jump, value if isinstance(value, list) else [value]))
    if len(set(jumps)) < len(jumps):
        raise refusal("the list has a duplicate entry")
    return jumps


def _gpus(value: object) -> int | tuple[str, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if not isinstance(value, list):
        raise expected("a count or a list of UUIDs", value)
    return _UUIDS.validate_python(value)


def _kept(value: object) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    if not isinstance(value, list):
        raise expected("true, or a list of UUIDs", value)
    return _UUIDS.validate_python(value)


def _warning(value: object) -> str:
    """Id of a warning of `fab check`; failures cannot be acknowledged."""
    if value not in WARNINGS:
        near = difflib.get_close_matches(str(value), WARNINGS, n=1)
        advice = f": is {near[0]} meant?" if near else f": known are {', '.join(WARNINGS)}"
        raise expected("the id of a warning of `make check`", value, advice)
    return str(value)


Gibibytes = Annotated[int, Between("GiB", 1, 1 << 16)]
Gpus = Annotated[int | tuple[str, ...], PlainValidator(_gpus)]
KeptGpus = Annotated[bool | tuple[str, ...], PlainValidator(_kept)]
Jumps = Annotated[tuple[Jump, ...], PlainValidator(_jumps)]
WarningId = Annotated[str, PlainValidator(_warning)]
_UUIDS: TypeAdapter[tuple[str, ...]] = TypeAdapter(
    Annotated[tuple[Annotated[str, Matching(_UUID, "a GPU's UUID as nvidia-smi -L prints it")], ...], list_of()]
)


@dataclass(frozen=True, slots=True)
class Bark:
    """Speech service settings of one host."""

    port: Port = 8080
    address: Address | None = None  # None: the address of the SSH login
    weights: LocalPath | None = None  # directory
    voices: LocalPath | None = None  # directory; None: Bark's own voices
    stop_seconds: StopSeconds = 60
    memory_gib: Gibibytes | None = None  # limit of its container; None: a share of the host's memory
    settings: ServiceSettings = field(default_factory=dict)  # of its file, by section
    store: Store | None = None  # database of documents that it shares; None: they are its own
    shelf: Shelf | None = None  # place of their audio: a directory of the host, or a bucket


@dataclass(frozen=True, slots=True)
class Trainer:
    """Training settings of one host."""

    metrics_port: Port = 9411
    stop_seconds: Seconds = 120  # longer than writing a checkpoint
    memory_gib: Gibibytes | None = None  # as of Bark


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the fleet."""

    name: str
    address: Address
    user: Login
    port: Port = 22
    roles: Annotated[tuple[Role, ...], list_of()] = ()
    memory_policy: Literal["recommended", "full"] = "recommended"
    gpus: Gpus | None = None  # count or UUIDs; None: not given
    keep_sick_gpus: KeptGpus = ()  # at work: True, or UUIDs of those that nothing but their operator takes out
    sick_gpus: int | None = None  # that its exporter may take out of work; None: a quarter of what it finds, at least 1
    jump: Jumps = ()  # first hop first
    acknowledged: Annotated[frozenset[WarningId], list_of()] = frozenset()  # check ids
    exporter_port: Port = 9410
    exporter_address: Address | None = None  # None: the address of the SSH login
    node_exporter: Switch = True  # False: the host has one of its own
    node_exporter_port: Port = 9100
    identity_file: LocalPath | None = None
    known_hosts: LocalPath | None = None
    ssh_config: Switch = False  # also read the operator's ~/.ssh/config; user and port, where they are not given
    compose_overrides: Annotated[tuple[LocalPath, ...], list_of()] = ()  # merged last, in this order
    registry: Registry | None = None  # None: images are sent with docker save and docker load
    bark: Bark = field(default_factory=Bark)
    trainer: Trainer = field(default_factory=Trainer)
    gateway: Gateway = field(default_factory=Gateway)
    custom: CustomServices = field(default_factory=dict)  # services of the operator's own, by name
    upstreams: tuple[Upstream, ...] = ()  # of a gateway: all speech services of the fleet
    behind_gateway: bool = False  # its speech service
    ray: RayNode = field(default_factory=RayNode)
    ray_head: str | None = None  # address of the head of its cluster
    secrets: LocalPaths = ()  # files
    state_dir: RemoteDirectory | None = None  # directory of all its files; None: ~/.voxyard of the login
    canary: Switch = False  # first of its roles to get a release
    groups: Annotated[tuple[Word, ...], list_of()] = ()  # names that select it, with others

    @property
    def files(self) -> str:
        """Directory of all its files, for rsync: relative ones are below the login's home."""
        return self.state_dir or ".voxyard"

    @property
    def own_services(self) -> Mapping[str, Custom]:
        """Services of the operator's own, by name, where it has that role."""
        return self.custom if CUSTOM in self.roles else {}

    @property
    def own_gpus(self) -> int:
        """GPUs of the operator's own services."""
        return sum(each.gpus for each in self.own_services.values())

    @property
    def ray_roles(self) -> tuple[str, ...]:
        """Its services with a node in a Ray cluster, in start order; a speech service only where a cluster is named."""
        bark = (BARK,) if self.ray.cluster is not None else ()
        return tuple(role for role in ("head", "worker", *bark) if role in self.roles)

    @property
    def ray_address(self) -> str:
        """Its address in a Ray cluster."""
        return self.ray.address or self.address

    @property
    def speaks_on_gpus(self) -> bool:
        """True where its GPUs are for speech: of its own service, or of a cluster's."""
        return "worker" in self.roles or ("bark" in self.roles and BARK not in self.ray_roles)

    @property
    def listeners(self) -> Sequence[Listener]:
        """TCP ports of a deployment."""
        found = [Listener("the exporter", "exporter", self.exporter_port, "exporter_port")]
        if self.node_exporter:
            key, port = "node_exporter_port", self.node_exporter_port
            found.append(Listener("the host's node_exporter", "node-exporter", port, key))
        if BARK in self.roles:
            found.append(Listener("the speech service", BARK, self.bark.port, "bark.port"))
        if "trainer" in self.roles:
            port = self.trainer.metrics_port
            found.append(Listener("a training run's metrics", "trainer", port, "trainer.metrics_port"))
        if "gateway" in self.roles:
            found.append(Listener("the gateway", "gateway", self.gateway.port, "gateway.port"))
            port = self.gateway.metrics_port
            found.append(Listener("the gateway's metrics", "gateway", port, "gateway.metrics_port"))
        found += ray_listeners(self.ray_roles)
        if "monitoring" in self.roles:
            found += (Listener(name, name.lower(), port) for name, port in _MONITORING_PORTS.items())
        found += (
            Listener(f"the service {name}", name, each.health.port, f"custom.{name}.health")
            for name, each in self.own_services.items()
        )
        return found


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hosts, clusters, alert receivers and rollout settings of a fleet."""

    path: Path
    hosts: tuple[Host, ...]
    alert_receivers: tuple[AlertReceiver, ...] = ()
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    clusters: tuple[Cluster, ...] = ()
    monitoring: MonitoringSettings = field(default_factory=MonitoringSettings)

    def select(self, names: Iterable[str], groups: Iterable[str] = ()) -> tuple[Host, ...]:
        """Hosts of these names and groups, all without either, in the inventory's order. Raises FleetError."""
        wanted, of_groups = list(dict.fromkeys(names)), list(dict.fromkeys(groups))
        known = [host.name for host in self.hosts]
        if not known:
            raise FleetError(f"{self.path} has clusters only: add hosts, or write files for them with {fab()} render")
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


_DERIVED = {"name", "upstreams", "behind_gateway", "ray_head", "sick_gpus"}
_OF_A_HOST = {*_DERIVED, "address", "exporter_address", "canary", "bark.address", "gateway.address", "ray.address"}
_HOST, _ROLLOUT, _MONITORING = TypeAdapter(Host), TypeAdapter(RolloutSettings), TypeAdapter(MonitoringSettings)
_DEFAULT_KEYS, _HOST_KEYS = keys_of(Host, _OF_A_HOST), keys_of(Host, _DERIVED)
_ROLLOUT_KEYS = keys_of(RolloutSettings, {"hooks.folder"})  # the inventory's
_MONITORING_KEYS = keys_of(MonitoringSettings)
_SICK = TypeAdapter(SickGpus)
_SECTIONS = ("defaults", "hosts", "clusters", "alert_receivers", "rollout", "monitoring", "sick_gpus")


def load(path: Path) -> Inventory:
    """Load the inventory in `path`, or that a program there or standard input (`-`) gives; paths in it are beside it.

    Raises FleetError with all errors, one line each, by file, line, host and key.
    """
    if path.name != STANDARD_INPUT and not path.exists():
        raise FleetError(f"{path}: no such inventory: copy deploy/hosts.example.yaml there and edit it")
    problems = ErrorCollector(path)
    try:
        document = read(path, anchors=True, data=printed(path))
    except SettingsError as error:
        raise FleetError(str(error)) from None
    for note in document.problems:
        problems.add(note.line, "", note.text)
    top = problems.mapping(document.root, "", _SECTIONS)
    defaults = problems.valid(_HOST, problems.nested(top.get("defaults"), "defaults", _DEFAULT_KEYS), "defaults")
    clusters = tuple(read_clusters(top.get("clusters"), defaults, problems))
    hosts = tuple(_hosts(top.get("hosts"), defaults, problems)) if "hosts" in top or not clusters else ()
    _check_addresses(hosts, top.get("hosts"), problems)
    heads, hosts = head_addresses(hosts), with_upstreams(hosts)
    hosts = tuple(replace(host, ray_head=heads.get(host.ray.cluster)) if host.ray_roles else host for host in hosts)
    _check_together(hosts, top.get("hosts"), problems)
    sick = problems.validated(_SICK, keys_of(SickGpus), top.get("sick_gpus"), "sick_gpus") or SickGpus()
    hosts = with_allowances(hosts, sick.most)
    receivers = tuple(read_receivers(top.get("alert_receivers"), problems))
    rollout = problems.validated(_ROLLOUT, _ROLLOUT_KEYS, top.get("rollout"), "rollout") or RolloutSettings()
    watching = problems.validated(_MONITORING, _MONITORING_KEYS, top.get("monitoring"), "monitoring")
    problems.raise_any()
    return Inventory(path, hosts, receivers, rollout, clusters, watching or MonitoringSettings())


def _hosts(node: YamlValue | None, defaults: Values, problems: ErrorCollector) -> Iterable[Host]:
    entries = problems.mapping(node, "hosts")
    if not entries and not problems.found:
        problems.add(node.line if node else 1, "hosts", "expected at least one host")
    for name, entry in entries.items():
        where = f"hosts.{name}"
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            problems.add(entry.line, where, "a host name has letters, digits, dots, dashes and underscores only")
        before = len(problems.found)
        under = merged(of_ssh_config(entry, defaults), defaults)
        host = problems.validated(_HOST, _HOST_KEYS, entry, where, defaults=under, name=name)
        if host is None:
            continue
        if len(problems.found) == before:
            _check_ports(host, entry, where, problems)
            _check_kept(host, entry, where, problems)
        yield host


def _check_kept(host: Host, entry: YamlValue, where: str, problems: ErrorCollector) -> None:
    """Reports GPUs that are to stay and are none of the host's; what all hosts inherit may name those of others."""
    line = _line(entry, ["keep_sick_gpus"])
    if line is None or not isinstance(host.gpus, tuple) or isinstance(host.keep_sick_gpus, bool):
        return
    if others := [each for each in host.keep_sick_gpus if each not in host.gpus]:
        problems.add(line, f"{where}.keep_sick_gpus", f"{', '.join(others)}: not among the gpus of this host")


def _check_ports(host: Host, entry: YamlValue, where: str, problems: ErrorCollector) -> None:
    """Reports two services on one port."""
    owners: dict[int, Listener] = {}
    for owner in host.listeners:
        other = owners.setdefault(owner.port, owner)
        if other is not owner:
            said = f"port {owner.port} is used by {other.what} and by {owner.what}: change one of them"
            lines = (_line(entry, each.key.split(".")) for each in (owner, other) if each.key)
            problems.add(next(filter(None, lines), entry.line), where, said)


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


def _check_together(hosts: Sequence[Host], node: YamlValue | None, problems: ErrorCollector) -> None:
    """Reports gateways, shared documents and Ray clusters that cannot work."""
    entries = problems.mapping(node, "hosts") if node is not None else {}
    for where, said in (
        *_gateway_problems(hosts),
        *_custom_problems(hosts),
        *store_problems(hosts),
        *ray_problems(hosts),
    ):
        name = next(each for each in entries if where.startswith(f"hosts.{each}."))
        keys = where.removeprefix(f"hosts.{name}.").split(".")
        problems.add(_line(entries[name], keys) or entries[name].line, where, said)


def _place(host: Host) -> object:
    """Equal for two hosts that are reached at one address over one route, whoever logs in."""
    return _spelled(host.address), host.port, tuple((_spelled(jump.address), jump.port) for jump in host.jump)


def _spelled(address: str) -> str:
    """Address in one spelling: names in lower case, IPv6 in its short form."""
    if types.is_ip(address):
        return str(ipaddress.ip_address(address))
    return address.lower().rstrip(".")


def _line(entry: YamlValue, keys: Sequence[str]) -> int | None:
    """Line of a nested key of a host; None where it is not set."""
    for key in keys:
        if not isinstance(entry.value, dict) or key not in entry.value:
            return None
        entry = entry.value[key]
    return entry.line if keys else None


def with_upstreams(hosts: Iterable[Host]) -> tuple[Host, ...]:
    """The hosts, each gateway with all speech services, and these with the fact that they are behind one."""
    hosts = tuple(hosts)
    if not any("gateway" in host.roles for host in hosts):
        return hosts
    found = tuple(
        Upstream(host.name, host.bark.address or host.address, host.bark.port, host.secrets, host.bark.store)
        for host in hosts
        if "bark" in host.roles
    )
    return tuple(
        replace(host, upstreams=found if "gateway" in host.roles else (), behind_gateway="bark" in host.roles)
        for host in hosts
    )


def with_allowances(hosts: Sequence[Host], most: MaxFailed) -> tuple[Host, ...]:
    """The hosts with a number of GPUs, each with how many of these may be out of work; together they are `most`.

    Each has its share rounded down; what is left goes to those that lost most by that, in the inventory's order.
    """
    gpus = {host.name: _number_of(host) for host in hosts if host.gpus is not None}
    total = sum(gpus.values())
    budget = max(most.of(total), 0 if most.percent in (0, None) else 1)
    shares = {name: budget * number / max(1, total) for name, number in gpus.items()}
    found = {name: int(share) for name, share in shares.items()}
    for name in sorted(shares, key=lambda name: found[name] - shares[name])[: budget - sum(found.values())]:
        found[name] += 1
    return tuple(
        replace(host, sick_gpus=min(found[host.name], gpus[host.name])) if host.name in gpus else host for host in hosts
    )


def _number_of(host: Host) -> int:
    return len(host.gpus) if isinstance(host.gpus, tuple) else host.gpus or 0


def _gateway_problems(hosts: Iterable[Host]) -> Iterable[tuple[str, str]]:
    """Reasons why a gateway cannot work: host and key, and a sentence."""
    hosts = tuple(hosts)
    for host in hosts:
        if "gateway" in host.roles and not host.upstreams:
            yield f"hosts.{host.name}.roles", "a gateway, and no host has the role bark: add it to one, or remove this"
        if host.behind_gateway and host.bark.address is not None and types.is_loopback(host.bark.address):
            said = f"{host.bark.address} is out of a gateway's reach: remove it, or name an address of the network"
            yield f"hosts.{host.name}.bark.address", said


def _custom_problems(hosts: Iterable[Host]) -> Iterable[tuple[str, str]]:
    """Reasons why services of the operator's own cannot be deployed: host and key, and a sentence."""
    for host in hosts:
        if CUSTOM in host.roles and not host.custom:
            said = "the role custom, and no service: name one below custom, with image, compose and health"
            yield f"hosts.{host.name}.roles", said
