"""YAML parser that keeps line numbers, for error messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from fleet.errors import FleetError

LARGEST_FILE = 1 << 20  # bytes; an inventory of a thousand hosts has a few hundred kilobytes


_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")


class OddNumber(str):
    """Integer that YAML 1.1 reads in another base than it is read by people: 0022 (18), 1:22 (82); kept as text."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class YamlValue:
    """YAML value with the line of its key (in a list: its own line); scalar, tuple or mapping of YamlValue."""

    line: int
    value: str | int | float | bool | tuple[YamlValue, ...] | Mapping[str, YamlValue] | None

    def describe(self) -> str:
        """Description of the value for messages."""
        match self.value:
            case None:
                return "nothing"
            case bool():
                return "true" if self.value else "false"
            case tuple():
                return "a list"
            case Mapping():
                return "a mapping"
            case OddNumber():
                return f"the number {self.value!s}"
            case str():
                return f"the text {self.value!r}"
            case number:
                return f"{number}"


def read(path: Path) -> YamlValue:
    """Parse the document in `path`. Raises FleetError, with file and line, unless it is one YAML document."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FleetError(f"{path}: no such file") from None
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_FILE:
        raise FleetError(f"{path}: larger than {LARGEST_FILE >> 20} MiB, expected a list of hosts")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FleetError(f"{path}:{line}: not UTF-8 text (byte 0x{data[error.start]:02x})") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> YamlValue:
    """Parse `text`; `name` is the file in messages. Raises FleetError."""
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        return YamlValue(1, None) if root is None else _yaml_value(root, 1, loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise FleetError(f"{name}:{line}: a control character, expected text") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join((error.problem or "not readable").split())
        raise FleetError(f"{name}:{mark.line + 1 if mark else 1}: not YAML: {said}") from None
    except (yaml.YAMLError, ValueError, LookupError, RecursionError) as error:
        raise FleetError(f"{name}: not readable as YAML: {error}") from None


def _yaml_value(node: yaml.Node, line: int, loader: yaml.SafeLoader) -> YamlValue:
    if isinstance(node, yaml.MappingNode):
        return YamlValue(line, dict(_pairs(node, loader)))
    if isinstance(node, yaml.SequenceNode):
        return YamlValue(line, tuple(_yaml_value(each, each.start_mark.line + 1, loader) for each in node.value))
    value = loader.construct_object(node)
    if _is_odd(node, value):
        return YamlValue(line, OddNumber(node.value))
    plain = value is None or isinstance(value, (str, int, float, bool))
    return YamlValue(line, value if plain else str(node.value))  # a date stays a string


def _is_odd(node: yaml.Node, value: object) -> bool:
    """True for octal, binary, hexadecimal and sexagesimal numbers, and for underscores between digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return ":" in node.value if isinstance(value, float) else not _DECIMAL.fullmatch(node.value)


def _pairs(mapping: yaml.MappingNode, loader: yaml.SafeLoader) -> Iterator[tuple[str, YamlValue]]:
    lines: dict[str, int] = {}
    for key, node in mapping.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="expected a name before the colon", problem_mark=key.start_mark)
        name = str(key.value)
        if name in lines:
            said = f"{name} is given twice, first on line {lines[name]}"
            raise yaml.MarkedYAMLError(problem=said, problem_mark=key.start_mark)
        lines[name] = line
        yield name, _yaml_value(node, line, loader)
