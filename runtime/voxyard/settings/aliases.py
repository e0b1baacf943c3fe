"""Names of older configurations: what each is called now, and the one line that tells its user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from voxyard.settings.yaml_file import FileEntry, SettingsFile
from voxyard.settings.yaml_reader import FileNote


@dataclass(frozen=True, slots=True)
class Alias:
    """An old key of a settings file.

    `key` is the canonical key it stands for, or None where it has no effect any more; `values` says what its
    values are called now where they changed; `because` ends the line that the user reads.
    """

    name: str
    sections: tuple[str, ...]
    key: str | None
    because: str = ""
    values: Mapping[object, object] | None = None


@dataclass(frozen=True, slots=True)
class Renamed:
    """A file's entries under their canonical names, with notes for the user and what could not be renamed."""

    entries: tuple[FileEntry, ...]
    notes: tuple[FileNote, ...]
    problems: tuple[FileNote, ...]


def rename(file: SettingsFile, aliases: Iterable[Alias]) -> Renamed:
    """Replace old keys by canonical ones.

    An old key that disagrees with its canonical key (or with another old one) is a problem that names both
    lines.
    """
    table = {f"{section}.{alias.name}": alias for alias in aliases for section in alias.sections}
    kept = {entry.key: entry for entry in file.entries if entry.key not in table}
    notes: list[FileNote] = []
    problems: list[FileNote] = []
    for entry in file.entries:
        alias = table.get(entry.key)
        if alias is None:
            continue
        old, line = entry.key, entry.line
        if alias.key is None:
            notes.append(FileNote(line, f"{old} has no effect any more{_tail(alias)}"))
            continue
        value = entry.value
        if alias.values is not None:
            if type(value) is not bool or value not in alias.values:
                problems.append(FileNote(line, f"{old}: found {_word(value)}, expected true or false"))
                continue
            value = alias.values[value]
        other = kept.get(alias.key)
        if other is not None and (type(other.value), other.value) != (type(value), value):
            said = f"{other.old_key or other.key} on line {other.line} says {_word(other.value)}"
            text = f"{old} asks for {alias.key} {_word(value)}, but {said}: keep {alias.key} alone"
            problems.append(FileNote(line, text))
            continue
        section, _, name = alias.key.partition(".")
        kept.setdefault(alias.key, FileEntry(section, name, value, line, old))
        notes.append(FileNote(line, f"{old} is now {alias.key}, taken as {_word(value)}{_tail(alias)}"))
    return Renamed(tuple(kept.values()), tuple(notes), tuple(problems))


def _tail(alias: Alias) -> str:
    return f": {alias.because}" if alias.because else ""


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if text.isprintable() and len(text) <= 60 else f"{ascii(text)[:57]}…"
