"""Validation of an inventory by pydantic: all errors of a file at once, by line and key."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from fleet.errors import FleetError
from fleet.inventory.types import OddNumber, meant
from voxyard.settings.values import found_words
from voxyard.settings.yaml_reader import YamlValue

T = TypeVar("T")

Values = Mapping[str, YamlValue]
Keys = Mapping[str, "Keys | bool"]  # True: may be null; nested keys for nested mappings

ANY = "*"
"""Key of a mapping whose keys are names."""
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")


class ErrorCollector:
    """Collects all errors of a file, for one message."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[tuple[int, str]] = []
        self._faulty: set[str] = set()  # keys whose value for all is wrong

    def add(self, line: int, where: str, what: str) -> None:
        """Add an error; `where` is the key, empty for the whole file."""
        self.found.append((line, f"{self.path}:{line}: {where}: {what}" if where else f"{self.path}:{line}: {what}"))

    def raise_any(self) -> None:
        """Raises FleetError with all errors, one line each, where there are any."""
        if self.found:
            raise FleetError("\n".join(text for _, text in sorted(set(self.found))))

    def mapping(self, node: YamlValue | None, where: str, known: Collection[str] | None = None) -> Values:
        """Entries of the mapping `node`; unknown keys are errors."""
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, dict):
            advice = ": write it without dashes, as NAME: VALUE" if isinstance(node.value, list) else ""
            self.add(node.line, where, f"expected keys with values, found {found_words(plain(node))}{advice}")
            return {}
        for name, value in node.value.items():
            if known is not None and name not in known:
                self.add(value.line, f"{where}.{name}".lstrip("."), f"unknown key{meant(name, known)}")
        return {name: value for name, value in node.value.items() if known is None or name in known}

    def nested(self, node: YamlValue | None, where: str, keys: Keys) -> dict[str, YamlValue]:
        """Entries of the mapping `node` and of those in it; unknown keys and keys without a value are errors."""
        entries: dict[str, YamlValue] = {}
        for name, value in self.mapping(node, where, None if ANY in keys else keys).items():
            below = keys.get(name, keys.get(ANY, False))
            if isinstance(below, Mapping):
                entries[name] = YamlValue(value.line, self.nested(value, f"{where}.{name}", below))
            elif value.value is None and not below:
                self.add(value.line, f"{where}.{name}", "expected a value, found nothing")
            else:
                entries[name] = value
        return entries

    def validated(
        self,
        kind: TypeAdapter[T],
        keys: Keys,
        node: YamlValue | None,
        where: str,
        *,
        defaults: Values = MappingProxyType({}),
        **given: object,
    ) -> T | None:
        """The dataclass `kind` of the mapping `node`, of defaults, and of fields that are no keys; None if wrong."""
        before = len(self.found)
        values = merged(defaults, self.nested(node, where, keys))
        result = self._validate(kind, values, where, given)
        made, wrong = result
        if len(self.found) == before:
            for name in (each for each in wrong if each not in values and each not in self._faulty):
                self.add(node.line if node else 1, f"{where}.{name}", "missing, and no default is given")
        return made

    def valid(self, kind: TypeAdapter[Any], values: Values, where: str) -> Values:
        """Those values of the dataclass `kind` that are right, whatever is missing: what all take that name none."""
        _, wrong = self._validate(kind, values, where, {})
        self._faulty |= values.keys() & set(wrong)
        return {name: value for name, value in values.items() if name not in wrong}

    def _validate(
        self, kind: TypeAdapter[T], values: Values, where: str, given: Mapping[str, object]
    ) -> tuple[T | None, tuple[str, ...]]:
        """The dataclass, or None and the fields that are wrong or missing."""
        root = YamlValue(0, dict(values))
        try:
            return kind.validate_python({**plain(root), **given}, context=self.path.parent), ()
        except ValidationError as error:
            problems = error.errors(include_url=False)
        for each in problems:
            names = [part for part in each["loc"] if isinstance(part, str) and part != "[key]"]
            if each["type"] != "missing":
                self.add(_line(root, each["loc"]), ".".join([where, *names]), _sentence(each))
            elif len(names) > 1:
                self.add(_line(root, each["loc"][:-1]), ".".join([where, *names]), "missing")
        return None, tuple(str(each["loc"][0]) for each in problems)


def plain(node: YamlValue) -> Any:
    """The value without lines, and without numbers that are read otherwise than they look."""
    if isinstance(node.value, dict):
        return {key: plain(each) for key, each in node.value.items()}
    if isinstance(node.value, list):
        return [plain(each) for each in node.value]
    number = isinstance(node.value, int) and not isinstance(node.value, bool)
    return OddNumber(node.text) if number and not _DECIMAL.fullmatch(node.text) else node.value


def keys_of(kind: type[Any], leave_out: Collection[str] = (), place: str = "") -> Keys:
    """Keys of a dataclass and of those in it, but those to leave out (`name`, `bark.address`)."""
    hints = get_type_hints(kind, include_extras=True)
    names = [each.name for each in fields(kind) if f"{place}{each.name}" not in leave_out]
    return {name: _keys_below(hints[name], leave_out, f"{place}{name}.") for name in names}


def _keys_below(hint: Any, leave_out: Collection[str], place: str) -> Keys | bool:
    if is_dataclass(hint):
        return keys_of(hint, leave_out, place)  # type: ignore[arg-type]
    if get_origin(hint) is Mapping and is_dataclass(below := get_args(hint)[1]):
        return {ANY: keys_of(below)}  # type: ignore[arg-type]
    given = (getattr(each, "keys", None) for each in getattr(hint, "__metadata__", ()))
    return next((each for each in given if each is not None), False)


def merged(under: Values, over: Values) -> dict[str, YamlValue]:
    """Merge of two nested mappings; `over` takes precedence."""
    result = dict(under)
    for key, value in over.items():
        result[key] = value
        below = under.get(key)
        if below is not None and isinstance(below.value, dict) and isinstance(value.value, dict):
            result[key] = YamlValue(value.line, merged(below.value, value.value))
    return result


def _line(node: YamlValue, place: Iterable[str | int]) -> int:
    for part in place:
        if isinstance(node.value, dict) and part in node.value:
            node = node.value[str(part)]
        elif isinstance(node.value, list) and isinstance(part, int):
            node = node.value[part]
    return node.line


def _sentence(error: Any) -> str:
    match error["type"]:
        case "refusal":
            return str(error["msg"])
        case "literal_error":
            wanted = "one of " + str(error["ctx"]["expected"]).replace("'", "").replace(" or ", ", ")
        case "bool_type":
            wanted = "true or false"
        case _:
            wanted = str(error["msg"])
    return f"expected {wanted}, found {found_words(error['input'])}"
