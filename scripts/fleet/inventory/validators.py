"""Validators of inventory values: types and ranges, with errors by file, line and key."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fleet.errors import FleetError
from fleet.inventory.yaml_lines import OddNumber, YamlValue

Reader = Callable[[YamlValue], object]
Readers = Mapping[str, "Reader | Readers"]  # nested readers read nested values

_UUID = r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_HOST_NAME = r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?"
_REGISTRY = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*"


class InvalidValueError(Exception):
    """Value of a wrong type or range."""


class ErrorCollector:
    """Collects all errors of a file, for one message."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[tuple[int, str]] = []

    def add(self, line: int, where: str, what: str) -> None:
        """Add an error; `where` is the key, empty for the whole file."""
        self.found.append((line, f"{self.path}:{line}: {where}: {what}" if where else f"{self.path}:{line}: {what}"))

    def raise_any(self) -> None:
        """Raises FleetError with all errors, one line each, where there are any."""
        if self.found:
            raise FleetError("\n".join(text for _, text in sorted(self.found)))

    def mapping(
        self, node: YamlValue | None, where: str, known: Iterable[str] | None = None
    ) -> Mapping[str, YamlValue]:
        """Entries of the mapping `node`; unknown keys are errors."""
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, Mapping):
            self.add(node.line, where, f"expected keys with values, found {node.describe()}")
            return {}
        names = None if known is None else tuple(known)
        for name, value in node.value.items():
            if names is not None and name not in names:
                self.add(value.line, f"{where}.{name}".lstrip("."), unknown(name, names))
        return {name: value for name, value in node.value.items() if names is None or name in names}

    def values(self, node: YamlValue | None, where: str, readers: Readers) -> dict[str, object]:
        """Values of the mapping `node`, converted by `readers`; nested readers give a dict."""
        found: dict[str, object] = {}
        for name, value in self.mapping(node, where, readers).items():
            reader = readers[name]
            if isinstance(reader, Mapping):
                found[name] = self.values(value, f"{where}.{name}", reader)
                continue
            try:
                found[name] = reader(value)
            except InvalidValueError as error:
                self.add(value.line, f"{where}.{name}", str(error))
        return found


def merged(under: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Merge of two nested mappings; `over` takes precedence."""
    result = dict(under)
    for key, value in over.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def unknown(name: str, known: Iterable[str]) -> str:
    """Error message for an unknown key."""
    names = tuple(known)
    near = difflib.get_close_matches(name, names, n=1)
    return "unknown key" + (f": is {near[0]} meant?" if near else f", known are {', '.join(names)}")


def text(node: YamlValue) -> str:
    """Non-empty line of text."""
    if not isinstance(node.value, str) or not node.value.strip() or not node.value.isprintable():
        raise InvalidValueError(f"expected a string, found {node.describe()}")
    return node.value


def word(node: YamlValue) -> str:
    """User name or check id: safe in a command line."""
    found = text(node)
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", found):
        raise InvalidValueError(f"expected a name, found {node.describe()}")
    return found


def address(node: YamlValue) -> str:
    """IP address, IPv6 without brackets, or host name; without a port."""
    found = text(node)
    if is_ip(found):
        return found
    name, colon, number = found.rpartition(":")
    if colon and number.isdecimal() and (_is_name(name) or is_ip(name.strip("[]"))):
        raise InvalidValueError(f"expected a name or an address without a port, found {node.describe()}: use port")
    if not _is_name(found):
        raise InvalidValueError(f"expected a name or an address, found {node.describe()}")
    return found


def is_ip(found: str) -> bool:
    """True for an IPv4 or IPv6 address, with or without a zone."""
    try:
        ipaddress.ip_address(found)
    except ValueError:
        return False
    return True


def _is_name(found: str) -> bool:
    """True for a host name; the last part of an address that has only numbers is no domain."""
    return bool(re.fullmatch(_HOST_NAME, found)) and not found.rstrip(".").rpartition(".")[2].isdecimal()


def path(node: YamlValue) -> Path:
    """Path, with `~` replaced by the home directory."""
    found = Path(text(node))
    try:
        return found.expanduser()
    except RuntimeError:
        raise InvalidValueError(unknown_home(str(found))) from None


def unknown_home(found: str) -> str:
    """Error message for a path below the home of a user that this machine does not have."""
    user = found.partition("/")[0].removeprefix("~")
    return (
        f"found {found}, but this machine has no user {user}: write the whole path"
        if user
        else (f"found {found}, but the home directory is not known: set HOME, or write the whole path")
    )


def boolean(node: YamlValue) -> bool:
    """Boolean."""
    if not isinstance(node.value, bool):
        raise InvalidValueError(f"expected true or false, found {node.describe()}")
    return node.value


def port(node: YamlValue) -> int:
    """TCP port."""
    return integer("a port", 1, 65535)(node)


def integer(what: str, least: int, most: int) -> Callable[[YamlValue], int]:
    """Reader of integers in a range."""

    def reader(node: YamlValue) -> int:
        if not isinstance(node.value, int) or isinstance(node.value, bool) or not least <= node.value <= most:
            decimal = ", a plain decimal number" if isinstance(node.value, OddNumber) else ""
            raise InvalidValueError(f"expected {what} from {least} to {most}{decimal}, found {node.describe()}")
        return node.value

    return reader


def one_of(choices: tuple[str, ...]) -> Callable[[YamlValue], str]:
    """Reader of one of several strings."""

    def reader(node: YamlValue) -> str:
        if node.value not in choices:
            raise InvalidValueError(f"expected one of {', '.join(choices)}, found {node.describe()}")
        return str(node.value)

    return reader


def list_of(node: YamlValue, reader: Reader) -> tuple[object, ...]:
    """List without duplicates."""
    if not isinstance(node.value, tuple):
        raise InvalidValueError(f"expected a list, found {node.describe()}")
    found = tuple(reader(each) for each in node.value)
    if len(set(found)) < len(found):
        raise InvalidValueError("the list has a duplicate entry")
    return found


def gpus(node: YamlValue) -> int | tuple[object, ...]:
    """Number of GPUs, or list of UUIDs."""
    if isinstance(node.value, int) and not isinstance(node.value, bool) and node.value >= 0:
        return node.value
    if not isinstance(node.value, tuple):
        raise InvalidValueError(f"expected a count or a list of UUIDs, found {node.describe()}")
    return list_of(node, _uuid)


def registry(node: YamlValue) -> str:
    """Image registry as host[:port][/path]."""
    if not isinstance(node.value, str) or not re.fullmatch(_REGISTRY, node.value):
        raise InvalidValueError(f"expected a registry as host[:port][/path], in lower case, found {node.describe()}")
    return node.value


def _uuid(node: YamlValue) -> str:
    if isinstance(node.value, str) and re.fullmatch(_UUID, node.value):
        return node.value
    raise InvalidValueError(f"expected a GPU's UUID as nvidia-smi -L prints it, found {node.describe()}")
