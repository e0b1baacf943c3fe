"""The fleet as the operator writes it: deploy/hosts.yaml, read and judged; a mistake is named by host, key and line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from fleet.errors import FleetError
from fleet.located import Located, read

Role = Literal["trainer", "bark", "monitoring"]
Policy = Literal["recommended", "full"]

ROLES: tuple[Role, ...] = ("trainer", "bark", "monitoring")
POLICIES: tuple[Policy, ...] = ("recommended", "full")


@dataclass(frozen=True, slots=True)
class Jump:
    """A host that is only passed through on the way to another."""

    address: str
    port: int = 22
    user: str | None = None  # None: as on the host behind it


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the fleet."""

    name: str
    address: str
    user: str
    port: int = 22
    roles: tuple[Role, ...] = ()
    memory_policy: Policy = "recommended"
    gpus: int | tuple[str, ...] | None = None  # how many, or which UUIDs; None: not said
    jump: tuple[Jump, ...] = ()  # the first is next to the operator
    acknowledged: frozenset[str] = frozenset()  # check ids
    exporter_port: int = 9410
    exporter_address: str | None = None  # None: the address that the login reached
    identity_file: Path | None = None
    known_hosts: Path | None = None
    compose_overrides: tuple[Path, ...] = ()  # merged after ours, in this order


@dataclass(frozen=True, slots=True)
class AlertReceiver:
    """Who hears of an alert: a mail address, or a file on the monitoring host with a webhook's address in it."""

    name: str
    email: str | None = None
    webhook_url_file: str | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """The whole fleet."""

    path: Path
    hosts: tuple[Host, ...]
    alert_receivers: tuple[AlertReceiver, ...] = ()

    def select(self, names: Iterable[str]) -> tuple[Host, ...]:
        """The hosts of these names in the inventory's order, all without names. Raises FleetError."""
        wanted = list(dict.fromkeys(names))
        known = {host.name: host for host in self.hosts}
        if unknown := [name for name in wanted if name not in known]:
            raise FleetError(f"no host {', '.join(unknown)} in {self.path}: it has {', '.join(known)}")
        return tuple(host for host in self.hosts if not wanted or host.name in wanted)


def load(path: Path) -> Inventory:
    """The inventory in `path`. Raises FleetError with every mistake, a line each, by file, line, host and key."""
    if not path.exists():
        raise FleetError(f"{path}: no such inventory: copy deploy/hosts.example.yaml there and put your hosts in it")
    root = read(path)
    problems = _Problems(path)
    top = problems.mapping(root, "", ("defaults", "hosts", "alert_receivers"))
    defaults = problems.values(top.get("defaults"), "defaults", _SETTINGS)
    hosts = tuple(_hosts(top.get("hosts"), defaults, problems))
    receivers = tuple(_receivers(top.get("alert_receivers"), problems))
    problems.raise_any()
    return Inventory(path, hosts, receivers)


class _MisfitError(Exception):
    """A value that is not what its key wants."""


class _Problems:
    """The mistakes found so far, so that the operator hears of all of them at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[tuple[int, str]] = []

    def say(self, line: int, where: str, what: str) -> None:
        self.found.append((line, f"{self.path}:{line}: {where}: {what}" if where else f"{self.path}:{line}: {what}"))

    def raise_any(self) -> None:
        if self.found:
            raise FleetError("\n".join(text for _, text in sorted(self.found)))

    def mapping(self, node: Located | None, where: str, known: Iterable[str] | None = None) -> Mapping[str, Located]:
        """The keys of `node`; those that nobody knows are mistakes."""
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, Mapping):
            self.say(node.line, where, f"expected keys with values, found {node.said()}")
            return {}
        names = None if known is None else tuple(known)
        for name, value in node.value.items():
            if names is not None and name not in names:
                self.say(value.line, f"{where}.{name}".lstrip("."), _unknown(name, names))
        return {name: value for name, value in node.value.items() if names is None or name in names}

    def values(self, node: Located | None, where: str, readers: Mapping[str, _Reader]) -> dict[str, object]:
        """What the keys of `node` mean, by their readers."""
        found = {}
        for name, value in self.mapping(node, where, readers).items():
            try:
                found[name] = readers[name](value)
            except _MisfitError as misfit:
                self.say(value.line, f"{where}.{name}", str(misfit))
        return found


_Reader = Callable[[Located], object]


def _hosts(node: Located | None, defaults: Mapping[str, object], problems: _Problems) -> Iterable[Host]:
    entries = problems.mapping(node, "hosts")
    if not entries and not problems.found:
        problems.say(node.line if node else 1, "hosts", "expected at least one host")
    for name, entry in entries.items():
        where = f"hosts.{name}"
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            problems.say(entry.line, where, "a host's name has letters, digits, dots, dashes and underscores only")
        before = len(problems.found)
        given = {**defaults, **problems.values(entry, where, _SETTINGS | _OWN)}
        missing = [key for key in ("address", "user") if key not in given]
        if len(problems.found) == before:
            for key in missing:
                problems.say(entry.line, f"{where}.{key}", "missing, and no default is given")
        if not missing:
            yield Host(name=name, **_absolute(given, problems.path))  # type: ignore[arg-type]


def _absolute(given: Mapping[str, object], inventory: Path) -> dict[str, object]:
    """Paths of the operator's machine are meant from where the inventory lies."""

    def placed(value: object) -> object:
        if isinstance(value, Path):
            return (inventory.parent / value.expanduser()).absolute()
        return tuple(placed(each) for each in value) if isinstance(value, tuple) else value

    return {key: placed(value) for key, value in given.items()}


def _receivers(node: Located | None, problems: _Problems) -> Iterable[AlertReceiver]:
    if node is None or node.value is None:
        return
    if not isinstance(node.value, tuple):
        problems.say(node.line, "alert_receivers", f"expected a list, found {node.said()}")
        return
    for number, entry in enumerate(node.value):
        where = f"alert_receivers[{number}]"
        before = len(problems.found)
        given = problems.values(entry, where, {each.name: _text for each in fields(AlertReceiver)})
        if len(problems.found) > before:
            continue
        if "name" not in given or len(given) != 2:
            problems.say(entry.line, where, "expected a name, and either email or webhook_url_file")
            continue
        yield AlertReceiver(**given)  # type: ignore[arg-type]


def _text(node: Located) -> str:
    if not isinstance(node.value, str) or not node.value.strip() or not node.value.isprintable():
        raise _MisfitError(f"expected a text, found {node.said()}")
    return node.value


def _word(node: Located) -> str:
    """A text that can stand in a command: an address or a user."""
    text = _text(node)
    if not re.fullmatch(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]*", text):
        raise _MisfitError(f"expected a name or an address, found {node.said()}")
    return text


def _port(node: Located) -> int:
    if not isinstance(node.value, int) or isinstance(node.value, bool) or not 0 < node.value < 65536:
        raise _MisfitError(f"expected a port from 1 to 65535, found {node.said()}")
    return node.value


def _one_of(choices: tuple[str, ...]) -> _Reader:
    def reader(node: Located) -> str:
        if node.value not in choices:
            raise _MisfitError(f"expected one of {', '.join(choices)}, found {node.said()}")
        return str(node.value)

    return reader


def _list(node: Located, reader: _Reader) -> tuple[object, ...]:
    if not isinstance(node.value, tuple):
        raise _MisfitError(f"expected a list, found {node.said()}")
    found = tuple(reader(each) for each in node.value)
    if len(set(found)) < len(found):
        raise _MisfitError("something stands in the list twice")
    return found


def _gpus(node: Located) -> int | tuple[object, ...]:
    if isinstance(node.value, int) and not isinstance(node.value, bool) and node.value >= 0:
        return node.value
    if not isinstance(node.value, tuple):
        raise _MisfitError(f"expected a count or a list of UUIDs, found {node.said()}")
    return _list(node, _uuid)


def _uuid(node: Located) -> str:
    pattern = r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    if isinstance(node.value, str) and re.fullmatch(pattern, node.value):
        return node.value
    raise _MisfitError(f"expected a GPU's UUID as nvidia-smi -L prints it, found {node.said()}")


def _jumps(node: Located) -> tuple[object, ...]:
    return _list(node, _jump) if isinstance(node.value, tuple) else (_jump(node),)


def _jump(node: Located) -> Jump:
    pattern = r"(?:([A-Za-z0-9_][\w.-]*)@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][\w.-]*)(?::([0-9]{1,5}))?"
    found = re.fullmatch(pattern, node.value) if isinstance(node.value, str) else None
    if found is None:
        raise _MisfitError(f"expected [user@]address[:port], found {node.said()}")
    user, address, port = found.groups()
    return Jump(address.strip("[]"), 22 if port is None else _port(Located(node.line, int(port))), user)


def _path(node: Located) -> Path:
    return Path(_text(node))


def _unknown(name: str, known: Iterable[str]) -> str:
    names = tuple(known)
    near = difflib.get_close_matches(name, names, n=1)
    return "unknown key" + (f": is {near[0]} meant?" if near else f", known are {', '.join(names)}")


_SETTINGS: dict[str, _Reader] = {  # what may stand under `defaults` and under a host
    "user": _word,
    "port": _port,
    "roles": lambda node: _list(node, _one_of(ROLES)),
    "memory_policy": _one_of(POLICIES),
    "gpus": _gpus,
    "jump": _jumps,
    "acknowledged": lambda node: frozenset(_list(node, _word)),
    "exporter_port": _port,
    "identity_file": _path,
    "known_hosts": _path,
    "compose_overrides": lambda node: _list(node, _path),
}
_OWN: dict[str, _Reader] = {"address": _word, "exporter_address": _word}  # what only one host can have
