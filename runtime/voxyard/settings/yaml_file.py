"""A settings file: YAML with sections of keys, read into entries that know their line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
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

LARGEST_FILE = 1 << 20  # bytes; a settings file has a few kilobytes
DEEPEST = 20  # levels of nesting; a settings file has two


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One `key: value` of a section with its line and, where it was renamed, the key that stands there."""

    section: str
    name: str
    value: object
    line: int
    old_key: str | None = None

    @property
    def key(self) -> str:
        """Section and name, as in `training.batch_size`."""
        return f"{self.section}.{self.name}"


@dataclass(frozen=True, slots=True)
class SectionHead:
    """A name at the top of the file; `misshapen` says what stands below it instead of keys."""

    name: str
    line: int
    misshapen: str | None


@dataclass(frozen=True, slots=True)
class FileNote:
    """A sentence about one line of the file."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """Parsed settings file, with the names that are duplicated or invalid in it."""

    sections: tuple[SectionHead, ...] = ()
    entries: tuple[FileEntry, ...] = ()
    problems: tuple[FileNote, ...] = ()

    def only(self, names: Collection[str]) -> SettingsFile:
        """The file as if the sections `names` were all that stands in it."""
        sections = tuple(each for each in self.sections if each.name in names)
        return SettingsFile(sections, tuple(each for each in self.entries if each.section in names), self.problems)


def read(path: Path) -> SettingsFile:
    """Read `path` without judging whether its keys and values are known.

    Raises SettingsError for a file that cannot be read, or is no YAML mapping.
    """
    root = _compose(path, _text(path))
    if root is None or root.tag == _NULL:
        return SettingsFile()
    if not isinstance(root, yaml.MappingNode):
        expected = "expected sections such as `training:` with keys below them"
        raise SettingsError(f"{path}:{_line(root)}: {expected}, found {_kind(root)}")
    problems: list[FileNote] = []
    sections: list[SectionHead] = []
    entries: list[FileEntry] = []
    for section, line, body in _unique_keys(root, "section ", problems):
        keys = isinstance(body, yaml.MappingNode)
        sections.append(SectionHead(section, line, None if keys or body.tag == _NULL else _kind(body)))
        if isinstance(body, yaml.MappingNode):
            for name, key_line, node in _unique_keys(body, f"{section}.", problems):
                entries.append(FileEntry(section, name, _plain(node), key_line))
    return SettingsFile(tuple(sections), tuple(entries), tuple(problems))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise SettingsError(f"{path} is a directory, expected a YAML file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SettingsError(f"{path}: cannot be read: {reason}") from None
    if len(data) > LARGEST_FILE:
        raise SettingsError(f"{path}: larger than {LARGEST_FILE >> 20} MiB, which is no settings file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path}:{line}: not UTF-8 text (byte 0x{data[error.start]:02x})") from None


def _compose(path: Path, text: str) -> yaml.Node | None:
    """The node tree of the file's one document."""
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character[:1])
        raise SettingsError(f"{path}:{line}: control character U+{code:04X}, expected text") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise SettingsError(f"{path}:{mark.line + 1 if mark else 1}: {_sentence(error)}") from None
    except (yaml.YAMLError, ValueError, LookupError, OverflowError, RecursionError):
        # PyYAML lets these escape for some malformed escapes and directives.
        line = loader.line + 1 if loader else 1
        raise SettingsError(f"{path}:{line}: not readable as YAML") from None


class _Refused(yaml.MarkedYAMLError):
    """YAML that settings have no use for."""


def _sentence(error: yaml.MarkedYAMLError) -> str:
    problem = " ".join((error.problem or "not readable as YAML").split())
    if isinstance(error, _Refused):
        return problem
    if "'\\t'" in problem:
        return "a tab where YAML wants spaces: indent with spaces"
    if "expected a single document" in (error.context or ""):
        return "a second YAML document begins here, expected one"
    context = " ".join((error.context or "").split())
    return f"not YAML: {problem}" + (f" ({context})" if context else "")


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """YAML's text with the plain scalars of YAML 1.2: `1e-4` is a number, `no` or a date is a text."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
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


def _unique_keys(
    mapping: yaml.MappingNode, what: str, problems: list[FileNote]
) -> Iterator[tuple[str, int, yaml.Node]]:
    """The pairs of a mapping as (key, line, value); a key's second appearance is a problem."""
    lines: dict[str, int] = {}
    for key_node, node in mapping.value:
        line = _line(key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            problems.append(FileNote(line, f"expected a name before the colon, found {_kind(key_node)}"))
            continue
        key = str(key_node.value)
        if key in lines:
            problems.append(FileNote(line, f"{what}{key} stands here a second time, first on line {lines[key]}"))
            continue
        lines[key] = line
        yield key, line, node


def _plain(node: yaml.Node) -> Any:
    """The Python value of a node; what does not fit its tag stays a text, for the type check to refuse."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each) for each in node.value]
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


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
