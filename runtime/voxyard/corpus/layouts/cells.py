"""Cells of a table of others: between |, tabs, commas or semicolons, or JSON on each line."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from voxyard.corpus.examples import CorpusError
from voxyard.corpus.layouts.lines import read_table

Role = Literal["path", "text", "normalized", "speaker"]
Roles = list[Role | None]

NAMES: Mapping[str, Role] = {  # what first lines of others' tables, and their JSON, call their columns
    **dict.fromkeys(
        ("audio", "audio_file", "audio_file_name", "audio_filename", "audio_filepath", "audio_path"), "path"
    ),
    **dict.fromkeys(("basename", "clip", "file", "file_name", "file_path", "filename", "filepath", "id"), "path"),
    **dict.fromkeys(("path", "wav", "wav_file", "wav_filename", "wav_path"), "path"),
    **dict.fromkeys(("characters", "label", "original_text", "raw_text", "sentence", "text"), "text"),
    **dict.fromkeys(("transcript", "transcription"), "text"),
    **dict.fromkeys(("normalised_text", "normalized", "normalized_text", "text_normalized"), "normalized"),
    **dict.fromkeys(("client_id", "spk", "speaker", "speaker_id", "speaker_name"), "speaker"),
}
_PARTS = ("offset", "begin_time", "start", "start_time")  # seconds at which a clip begins in its file
_QUOTED = ",;"  # between these a cell may stand in quotes
_SEPARATORS = "|\t" + _QUOTED


def read_cells(table: Path) -> tuple[Roles | None, list[tuple[int, list[str]]]]:
    """What the columns of a table are where it names them, and the cells of its other lines with their numbers.

    Blanks around cells and lines without anything are left out. Raises CorpusError.
    """
    text = read_table(table)
    lines = [(number, line) for number, line in enumerate(text, 1) if line.strip()]
    first = lines[0][1] if lines else ""
    if first.lstrip().startswith("{"):
        return _objects(table, lines)
    for separator in _SEPARATORS:
        if roles := _roles(_first_cells(first, separator)):
            if separator in _QUOTED:
                return roles, _quoted(table, text, separator)[1:]
            return roles, [(number, _split(line, separator)) for number, line in lines[1:]]
    tabs = all("\t" in line.strip() and "|" not in line for _, line in lines)
    return None, [(number, _split(line, "\t" if tabs else "|")) for number, line in lines]


def names_columns(line: str) -> bool:
    """Whether a line is the first of a table that names a column of recordings and one of texts."""
    if line.lstrip().startswith("{"):
        return _roles(list(_object(line))) is not None
    return any(_roles(_first_cells(line, separator)) for separator in _SEPARATORS)


def _roles(cells: Sequence[str]) -> Roles | None:
    """Roles of the columns that a first line names; None where it is a clip."""
    names = [cell.strip().lower().replace(" ", "_") for cell in cells]
    roles = [NAMES.get(name) for name in names]
    if roles.count("path") > 1:  # the file, and the name of the clip
        roles = [None if name == "id" else role for name, role in zip(names, roles, strict=True)]
    known = [role for role in roles if role]
    if "path" in known and ("text" in known or "normalized" in known) and len(known) == len(set(known)):
        return roles
    return None


def _split(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in line.split(separator)]


def _first_cells(line: str, separator: str) -> list[str]:
    if separator not in _QUOTED:
        return _split(line, separator)
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])


def _quoted(table: Path, lines: Sequence[str], separator: str) -> list[tuple[int, list[str]]]:
    """Cells of all lines; in quotes they may hold the separator, and ends of lines."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=separator, skipinitialspace=True, strict=True)
    try:
        return [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(map(str.strip, cells))]
    except csv.Error as error:
        raise CorpusError(
            f"{table} cannot be read to its end (line {reader.line_num}: {error}): close quotes where they were "
            'opened, and write a " within them twice'
        ) from error


def _objects(table: Path, lines: Sequence[tuple[int, str]]) -> tuple[Roles, list[tuple[int, list[str]]]]:
    """Cells of JSON, one object on each line; a line that is none has empty cells."""
    objects = [(number, _object(line)) for number, line in lines]
    names = list(dict.fromkeys(name for _, one in objects for name in one))
    if (roles := _roles(names)) is None:
        raise CorpusError(
            f"{table} has JSON with {', '.join(names[:9]) or 'errors'}: expected audio_filepath and text in each line"
        )
    if part := next((name for name in _PARTS for _, one in objects if one.get(name)), None):
        raise CorpusError(
            f"{table} has parts of longer recordings ({part}): cut each into a file of its own, and list these"
        )
    return roles, [(number, [_written(one.get(name)) for name in names]) for number, one in objects]


def _object(line: str) -> Mapping[str, object]:
    """Empty where the line is no object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _written(value: object) -> str:
    if isinstance(value, dict):  # as Hugging Face writes a recording
        value = value.get("path")
    return "" if value is None else str(value).strip()
