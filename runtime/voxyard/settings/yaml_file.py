"""A settings file: YAML with sections of keys, read into entries that know their line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from voxyard.settings import yaml_reader
from voxyard.settings.errors import SettingsError
from voxyard.settings.yaml_reader import FileNote


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
    document = yaml_reader.read(path)
    root = document.root
    if root.value is None:
        return SettingsFile()
    if not isinstance(root.value, dict):
        expected = "expected sections such as `training:` with keys below them"
        raise SettingsError(f"{path}:{root.line}: {expected}, found {root.kind()}")
    sections: list[SectionHead] = []
    entries: list[FileEntry] = []
    for section, body in root.value.items():
        keys = body.value if isinstance(body.value, dict) else None
        misshapen = None if keys is not None or body.value is None else body.kind()
        sections.append(SectionHead(section, body.line, misshapen))
        entries += [FileEntry(section, name, each.plain(), each.line) for name, each in (keys or {}).items()]
    return SettingsFile(tuple(sections), tuple(entries), document.problems)
