"""YAML as values that know their line: the one reader of settings, inventories, plans, keys and names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from voxyard.settings.errors import SettingsError

LARGEST_FILE = 1 << 20  # bytes; a settings file has a few kilobytes, an inventory of a thousand hosts a few hundred
DEEPEST = 20  # levels of nesting; a settings file has two, an inventory six


class YamlSyntaxError(Exception):
    """Text that is not one YAML document of plain values; `line` counts from 1."""

    def __init__(self, line: int, problem: str) -> None:
        self.line = line
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class FileNote:
    """A sentence about one line of the file."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class YamlValue:
    """A value with the line of its key; in a list, with its own."""

    line: int
    value: str | int | float | bool | list[YamlValue] | dict[str, YamlValue] | None
    text: str = ""  # of a scalar, as it is written

    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: each.plain() for key, each in self.value.items()}
        return [each.plain() for each in self.value] if isinstance(self.value, list) else self.value

    def kind(self) -> str:
        """Kind of the value, for messages."""
        if isinstance(self.value, dict):
            return "a mapping"
        return "a list" if isinstance(self.value, list) else "a single value"


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A file's document, with the keys that are duplicated or no names in it."""

    root: YamlValue
    problems: tuple[FileNote, ...] = ()


def read(path: Path, *, anchors: bool = False, data: bytes | None = None) -> YamlDocument:
    """Read the document in `path`, or in `data` that stands for its content; `anchors`: with anchors and aliases.

    Raises SettingsError for a file that cannot be read, or is no YAML.
    """
    return parse(_text(path, _data(path) if data is None else data), str(path), anchors=anchors)


def parse(text: str, source: str, *, anchors: bool = False) -> YamlDocument:
    """Read the document in `text`, which is that of `source`. Raises SettingsError where it is no YAML."""
    try:
        root = compose(text, anchors=anchors)
    except YamlSyntaxError as error:
        raise SettingsError(f"{source}:{error.line}: {error}") from None
    problems: list[FileNote] = []
    try:
        value = YamlValue(1, None) if root is None else _value(root, _line(root), "", problems)
    except RecursionError:
        raise SettingsError(f"{source}: an alias stands within its own anchor") from None
    return YamlDocument(value, tuple(problems))


def read_plain(path: Path) -> Any:
    """Read the plain values in `path`, with anchors and aliases.

    Raises SettingsError as `read` does, and for a key that is duplicated or no name.
    """
    document = read(path, anchors=True)
    for problem in document.problems:
        raise SettingsError(f"{path}:{problem.line}: {problem.text}")
    return document.root.plain()


def _data(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise SettingsError(f"{path} is a directory, expected a YAML file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SettingsError(f"{path}: cannot be read: {reason}") from None


def _text(path: Path, data: bytes) -> str:
    if len(data) > LARGEST_FILE:
        raise SettingsError(f"{path}: larger than {LARGEST_FILE >> 20} MiB, which is no settings file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(
            f"{path}:{line}: not UTF-8 text (byte 0x{data[error.start]:02x}): save it as UTF-8"
        ) from None


def compose(text: str, *, anchors: bool = False) -> yaml.Node | None:
    """The node tree of the one document in `text`; None for an empty one. Raises YamlSyntaxError."""
    loader: _Loader | None = None
    try:
        loader = _Loader(text, anchors)
        return loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character[:1])
        raise YamlSyntaxError(line, f"control character U+{code:04X}, expected text") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlSyntaxError(mark.line + 1 if mark else 1, _sentence(error)) from None
    except (yaml.YAMLError, ValueError, LookupError, OverflowError, RecursionError):
        # PyYAML lets these escape for some malformed escapes and directives.
        raise YamlSyntaxError(loader.line + 1 if loader else 1, "not readable as YAML") from None


class _Refused(yaml.MarkedYAMLError):
    """YAML that settings have no use for."""


def _sentence(error: yaml.MarkedYAMLError) -> str:
    problem = " ".join((error.problem or "not readable as YAML").split())
    if isinstance(error, _Refused):
        return problem
    if "'\\t'" in problem:
        return "a tab where YAML wants spaces: indent with spaces"
    if "<document start>" in problem:
        return "text after the end of the document: expected keys with values, as in `name: value`"
    if "expected a single document" in (error.context or ""):
        return "a second YAML document begins here, expected one"
    context = " ".join((error.context or "").split())
    return f"not YAML: {problem}" + (f" ({context})" if context else "")


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """YAML's text with the plain scalars of YAML 1.2: `1e-4` is a number, `no` or a date is a text."""

    def __init__(self, text: str, anchors: bool) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._depth, self._anchors = 0, anchors

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if not self._anchors and (isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None)):
            raise _Refused(None, None, "anchors and aliases (& and *) are not taken here", event.start_mark)
        if self._depth == DEEPEST:
            raise _Refused(None, None, f"nested more than {DEEPEST} levels deep", event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and node.tag not in _TAGS:
            raise _Refused(None, None, f"the tag {node.tag} is not taken here", node.start_mark)
        return node


_STR, _NULL, _BOOL, _INT, _FLOAT, _MAP, _SEQ = _TAGS = tuple(
    f"tag:yaml.org,2002:{name}" for name in ("str", "null", "bool", "int", "float", "map", "seq")
)
_SCALARS = (
    (_NULL, r"(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    (_BOOL, r"(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    (_INT, r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", list("-+0123456789")),
    (
        _FLOAT,
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        list("-+.0123456789"),
    ),
)
for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), _first)


def _value(node: yaml.Node, line: int, place: str, problems: list[FileNote]) -> YamlValue:
    if isinstance(node, yaml.MappingNode):
        return YamlValue(line, _mapping(node, place, problems))
    if isinstance(node, yaml.SequenceNode):
        return YamlValue(line, [_value(each, _line(each), place, problems) for each in node.value])
    return YamlValue(line, _scalar(node), str(node.value))


def _mapping(mapping: yaml.MappingNode, place: str, problems: list[FileNote]) -> dict[str, YamlValue]:
    """The values of a mapping by key; a key's second appearance is a problem."""
    found: dict[str, YamlValue] = {}
    for key_node, node in mapping.value:
        line = _line(key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            kind = "a mapping" if isinstance(key_node, yaml.MappingNode) else "a list"
            problems.append(FileNote(line, f"expected a name before the colon, found {kind}"))
            continue
        key = str(key_node.value)
        where = f"{place}.{key}" if place else key
        if key in found:
            said = f"{where} stands here a second time, first on line {found[key].line}"
            problems.append(FileNote(line, said if said.isprintable() else ascii(said)))
            continue
        found[key] = _value(node, line, where, problems)
    return found


def _scalar(node: yaml.Node) -> str | int | float | bool | None:
    """The Python value of a scalar; what does not fit its tag stays a text, for the type check to refuse."""
    text = str(node.value)
    try:
        match node.tag:
            case tag if tag == _NULL:
                return None
            case tag if tag == _BOOL:
                return {"true": True, "false": False}.get(text.lower(), text)
            case tag if tag == _INT:
                return int(text, 0 if text[:2] in ("0x", "0o") else 10)
            case tag if tag == _FLOAT:
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text
    return text


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
