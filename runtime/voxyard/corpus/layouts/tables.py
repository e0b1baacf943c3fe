"""Layouts with one table of all recordings: Common Voice, and lists of path|text[|speaker]."""

from __future__ import annotations

from pathlib import Path

from voxyard.corpus.examples import CorpusError
from voxyard.corpus.layouts.lines import BadClip, Lines, MetadataLine, read_table

_TABLE = "validated.tsv"
_COLUMNS = ("client_id", "path", "sentence")
_LIST = "filelist.txt"
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
    lines, bad = [], []
    for number, row in enumerate(rows[1:], 2):
        cells, where = row.split("\t"), f"line {number} of {_TABLE}"
        if not row.strip():
            continue
        if len(cells) != len(head) or not (cells[name].strip() and cells[sentence].strip()):
            bad.append(BadClip(f"line {number}", f"{where}: {len(cells)} of {len(head)} columns, or an empty one"))
            continue
        if Path(cells[name]).name != cells[name]:
            bad.append(BadClip(cells[name], f"{where}: the path is no plain file name"))
            continue
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
    """True for a text file whose first line has columns, or a folder with filelist.txt."""
    if path.is_dir():
        return (path / _LIST).is_file()
    with path.open("rb") as file:
        return b"|" in file.readline(100_000)


def read_list(path: Path) -> Lines:
    """All clips of a list; paths are relative to its folder. Raises CorpusError for columns in another order."""
    table = path / _LIST if path.is_dir() else path
    lines, bad, seen = [], [], set[str]()
    for number, row in enumerate(read_table(table), 1):
        cells, where = [cell.strip() for cell in row.split("|")], f"line {number} of {table.name}"
        if not row.strip():
            continue
        reason = _bad_row(cells, seen)
        if reason:
            bad.append(BadClip(cells[0] or f"line {number}", f"{where}: {reason}"))
            continue
        seen.add(cells[0])
        speaker = cells[2] if len(cells) > 2 else ""
        lines.append(MetadataLine(cells[0], cells[1], speaker, where, table.parent / cells[0]))
    if lines and all(line.text.isdigit() and line.speaker for line in lines):
        raise CorpusError(f"{table} has numbers for texts, such as {lines[0].text!r}: expected path|text|speaker")
    return lines, bad


def _bad_row(cells: list[str], seen: set[str]) -> str | None:
    if not 2 <= len(cells) <= 3:
        return f"{len(cells)} columns; expected path|text[|speaker]"
    if not cells[0] or "\0" in cells[0]:
        return "no path"
    if cells[0] in seen:
        return "the path is there twice"
    return None if cells[1] else "no transcript"
