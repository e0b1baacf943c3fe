"""Readers for values of the operator's files: expected types, and errors with file, line and key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fleet.errors import FleetError
from fleet.inventory.yaml_lines import Located

Reader = Callable[[Located], object]
Readers = Mapping[str, "Reader | Readers"]  # a mapping of readers reads a mapping of values

_UUID = r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_REGISTRY = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*"


class MisfitError(Exception):
    """A value of the wrong type or range for its key."""


class Problems:
    """Collected errors, so that the operator gets all of them at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[tuple[int, str]] = []

    def say(self, line: int, where: str, what: str) -> None:
        """One more mistake; `where` is the key, empty for the whole file."""
        self.found.append((line, f"{self.path}:{line}: {where}: {what}" if where else f"{self.path}:{line}: {what}"))

    def raise_any(self) -> None:
        """Raises FleetError with all mistakes, a line each, where there are any."""
        if self.found:
            raise FleetError("\n".join(text for _, text in sorted(self.found)))

    def mapping(self, node: Located | None, where: str, known: Iterable[str] | None = None) -> Mapping[str, Located]:
        """The keys of `node`; unknown ones are errors."""
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, Mapping):
            self.say(node.line, where, f"expected keys with values, found {node.said()}")
            return {}
        names = None if known is None else tuple(known)
        for name, value in node.value.items():
            if names is not None and name not in names:
                self.say(value.line, f"{where}.{name}".lstrip("."), unknown(name, names))
        return {name: value for name, value in node.value.items() if names is None or name in names}

    def values(self, node: Located | None, where: str, readers: Readers) -> dict[str, object]:
        """Values of the keys of `node`, by their readers; a mapping of readers gives a dict."""
        found: dict[str, object] = {}
        for name, value in self.mapping(node, where, readers).items():
            reader = readers[name]
            if isinstance(reader, Mapping):
                found[name] = self.values(value, f"{where}.{name}", reader)
                continue
            try:
                found[name] = reader(value)
            except MisfitError as misfit:
                self.say(value.line, f"{where}.{name}", str(misfit))
        return found


def merged(under: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Both, key by key; where both say something of a key, `over` does."""
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


def text(node: Located) -> str:
    """A line of text that is not empty."""
    if not isinstance(node.value, str) or not node.value.strip() or not node.value.isprintable():
        raise MisfitError(f"expected a text, found {node.said()}")
    return node.value


def word(node: Located) -> str:
    """A text that can stand in a command: an address or a user."""
    found = text(node)
    if not re.fullmatch(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]*", found):
        raise MisfitError(f"expected a name or an address, found {node.said()}")
    return found


def path(node: Located) -> Path:
    """A path, as it stands there."""
    return Path(text(node))


def switch(node: Located) -> bool:
    """True or false."""
    if not isinstance(node.value, bool):
        raise MisfitError(f"expected true or false, found {node.said()}")
    return node.value


def port(node: Located) -> int:
    """A TCP port."""
    return whole("a port", 1, 65535)(node)


def whole(what: str, least: int, most: int) -> Callable[[Located], int]:
    """A reader of whole numbers in a range."""

    def reader(node: Located) -> int:
        if not isinstance(node.value, int) or isinstance(node.value, bool) or not least <= node.value <= most:
            raise MisfitError(f"expected {what} from {least} to {most}, found {node.said()}")
        return node.value

    return reader


def one_of(choices: tuple[str, ...]) -> Callable[[Located], str]:
    """A reader of words to choose from."""

    def reader(node: Located) -> str:
        if node.value not in choices:
            raise MisfitError(f"expected one of {', '.join(choices)}, found {node.said()}")
        return str(node.value)

    return reader


def listed(node: Located, reader: Reader) -> tuple[object, ...]:
    """A list in which nothing stands twice."""
    if not isinstance(node.value, tuple):
        raise MisfitError(f"expected a list, found {node.said()}")
    found = tuple(reader(each) for each in node.value)
    if len(set(found)) < len(found):
        raise MisfitError("something stands in the list twice")
    return found


def gpus(node: Located) -> int | tuple[object, ...]:
    """Number of GPUs, or their list."""
    if isinstance(node.value, int) and not isinstance(node.value, bool) and node.value >= 0:
        return node.value
    if not isinstance(node.value, tuple):
        raise MisfitError(f"expected a count or a list of UUIDs, found {node.said()}")
    return listed(node, _uuid)


def registry(node: Located) -> str:
    """Registry of the images: its host, with a port and a path where it has them."""
    if not isinstance(node.value, str) or not re.fullmatch(_REGISTRY, node.value):
        raise MisfitError(f"expected a registry as host[:port][/path], in lower case, found {node.said()}")
    return node.value


def _uuid(node: Located) -> str:
    if isinstance(node.value, str) and re.fullmatch(_UUID, node.value):
        return node.value
    raise MisfitError(f"expected a GPU's UUID as nvidia-smi -L prints it, found {node.said()}")
