"""Layouts with one table of all recordings: Common Voice, and lists of path|text[|speaker]."""

from __future__ import annotations

import re
from pathlib import Path

from voxyard.corpus.examples import CorpusError
from voxyard.corpus.layouts.cells import names_columns
from voxyard.corpus.layouts.columns import Row, read_rows
from voxyard.corpus.layouts.lines import BadClip, Lines, MetadataLine, as_on_disk, folder_of, read_table

_TABLE = "validated.tsv"
_COLUMNS = ("client_id", "path", "sentence")
_LISTS = ("filelist.txt", "metadata.jsonl")
_ELSEWHERE = {re.compile(r"\w+://"): "an address on the network", re.compile(r"[A-Za-z]:[/\\]"): "of a disk of Windows"}
_SPEAKER_DIGITS = 16  # of Common Voice's 128: enough to tell speakers apart, and to be typed


def is_common_voice(path: Path) -> bool:
    """True for a folder of one language of Common Voice."""
    return (path / _TABLE).is_file()


def read_common_voice(directory: Path) -> Lines:
    """All clips of validated.tsv; a speaker is named by the beginning of the client_id."""
    rows = read_table(directory / _TABLE)
    head = rows[0].rstrip("\r").split("\t")
    if missing := [name for name in _COLUMNS if name not in head]:
        raise CorpusError(
            f"{directory / _TABLE} has no column {', '.join(missing)}: expected {', '.join(_COLUMNS)} in its first line"
        )
    client, name, sentence = (head.index(column) for column in _COLUMNS)
    lines, bad, seen = [], [], set[str]()
    for number, row in enumerate(rows[1:], 2):
        cells, where = row.split("\t"), f"line {number} of {_TABLE}"
        if not row.strip():
            continue
        if len(cells) != len(head) or not (cells[name].strip() and cells[sentence].strip()):
            bad.append(BadClip(f"line {number}", f"{where}: {len(cells)} of {len(head)} columns, or an empty one"))
            continue
        if Path(cells[name]).name != cells[name] or "\0" in cells[name]:
            bad.append(BadClip(cells[name], f"{where}: the path is no plain file name"))
            continue
        if cells[name] in seen:
            bad.append(BadClip(cells[name], f"{where}: the path is there twice"))
            continue
        seen.add(cells[name])
        path = directory / "clips" / cells[name]
        lines.append(MetadataLine(path.stem, cells[sentence], cells[client][:_SPEAKER_DIGITS], where, path))
    return lines, bad


def common_voice_language(directory: Path) -> str | None:
    """Language of the clips, such as de or zh-CN; None where the table does not say it, or names several."""
    rows = read_table(directory / _TABLE)
    head = rows[0].rstrip("\r").split("\t")
    if "locale" not in head:
        return None
    cells = (row.rstrip("\r").split("\t") for row in rows[1:] if row.strip())
    found = {row[head.index("locale")].strip() for row in cells if len(row) == len(head)}
    return found.pop() or None if len(found) == 1 else None


def is_list(path: Path) -> bool:
    """True for a text file whose first line has columns, or a folder with such a one of a usual name."""
    if path.is_dir():
        return any((path / name).is_file() for name in _LISTS)
    with path.open("rb") as file:
        line = file.readline(100_000)
    if b"|" in line:
        return True
    first = line.decode("utf-8-sig", "replace").strip()
    return names_columns(first) or ("\t" in first and _is_there(path, first.partition("\t")[0]))


def _is_there(table: Path, name: str) -> bool:
    """Whether a table's name of a recording is that of a file."""
    path = folder_of(table, "", [name]) / name
    return as_on_disk([MetadataLine(name, "", "", "", path)])[0].path.is_file()


def read_list(path: Path) -> Lines:
    """All clips of a list; paths are relative to its folder. Raises CorpusError for columns in another order."""
    table = next(path / name for name in _LISTS if (path / name).is_file()) if path.is_dir() else path
    lines, bad, seen = [], [], set[str]()
    rows = list(read_rows(table, ("path", "text", "speaker"), "path|text[|speaker]"))
    folder = folder_of(table, "", [row.cell("path") for row in rows[:9]])
    for row in rows:
        named = row.cell("path")
        reason = row.fault or _bad_row(row, seen)
        if reason:
            bad.append(BadClip(row.first or row.where.partition(" of ")[0], f"{row.where}: {reason}"))
            continue
        seen.add(named)
        text = row.cell("normalized") or row.cell("text")
        lines.append(MetadataLine(named, text, row.cell("speaker"), row.where, folder / named))
    return lines, bad


def _bad_row(row: Row, seen: set[str]) -> str | None:
    named = row.cell("path")
    if not named or "\0" in named:
        return "no path"
    for form, what in _ELSEWHERE.items():
        if form.match(named):
            return f"the path is {what}: copy the recordings here, and write paths that are relative to the list"
    if named in seen:
        return "the path is there twice"
    return None if row.cell("normalized") or row.cell("text") else "no transcript"
