"""Columns of a table with | between them: in the order of a layout, or as its first line names them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voxyard.corpus.examples import CorpusError
from voxyard.corpus.layouts.lines import read_table

Role = Literal["path", "text", "normalized", "speaker"]

NAMES: Mapping[str, Role] = {  # what first lines of others' tables call their columns
    **dict.fromkeys(("audio", "audio_file", "audio_filepath", "audio_path", "clip", "file", "file_name"), "path"),
    **dict.fromkeys(("basename", "filename", "id", "path", "wav", "wav_filename"), "path"),
    **dict.fromkeys(("characters", "raw_text", "sentence", "text", "transcript", "transcription"), "text"),
    **dict.fromkeys(("normalised_text", "normalized", "normalized_text", "text_normalized"), "normalized"),
    **dict.fromkeys(("spk", "speaker", "speaker_id", "speaker_name"), "speaker"),
}
_SENTENCE = re.compile(r"\s|[.!?。！？…]$|[\u3040-\u30ff\u4e00-\u9fff]")
_NUMBER = re.compile(r"\d+([.,]\d+)?")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table: its cells without the blanks around them, or what is wrong with it."""

    where: str  # it stands, such as: line 3 of metadata.csv
    first: str
    cells: Mapping[Role, str]
    fault: str | None = None

    def cell(self, role: Role) -> str:
        """Empty where the line has no such column."""
        return self.cells.get(role, "")


def read_rows(table: Path, order: Sequence[Role], expected: str) -> Iterator[Row]:
    """All lines of a table that are not empty, but not one that only names the columns.

    `order` is that of a table that names none, of which a line has at least two; a name that is not known is a column
    that is not used. Raises CorpusError where columns are in another order, or nothing stands between them.
    """
    split = [
        (number, [cell.strip() for cell in line.split("|")])
        for number, line in enumerate(read_table(table), 1)
        if line.strip()
    ]
    if len(split) > 1 and all(len(cells) == 1 for _, cells in split):
        raise CorpusError(
            f"{table} has no | in its lines, such as {split[0][1][0][:60]!r}: expected {expected}; save it with | "
            "between the columns, and no quotes around them"
        )
    named = _named(split[0][1]) if split else None
    if named is None:
        rows = [cells for _, cells in split if 3 <= len(cells) <= len(order)]
        if 2 * len(rows) > len(split):
            _refuse_other_orders(table, rows, order, expected)
    for number, cells in split[1:] if named else split:
        where = f"line {number} of {table.name}"
        if named and len(cells) != len(named):
            yield Row(where, cells[0], {}, f"{len(cells)} columns; the first line names {len(named)}")
        elif not named and not 2 <= len(cells) <= len(order):
            yield Row(where, cells[0], {}, f"{len(cells)} columns; expected {expected}")
        else:
            roles = named or order
            yield Row(where, cells[0], {role: cell for role, cell in zip(roles, cells, strict=False) if role})


def _named(cells: Sequence[str]) -> list[Role | None] | None:
    """Roles of the columns that a first line names; None where it is a clip."""
    roles = [NAMES.get(cell.lower().replace(" ", "_")) for cell in cells]
    known = [role for role in roles if role]
    if "path" in known and ("text" in known or "normalized" in known) and len(known) == len(set(known)):
        return roles
    return None


def _refuse_other_orders(table: Path, rows: Sequence[Sequence[str]], order: Sequence[Role], expected: str) -> None:
    """Others have the speaker before the text, or the length of the text after it: neither is to be spoken."""
    second, last = [cells[1] for cells in rows], [cells[-1] for cells in rows]
    remedy = f"expected {expected}; put the columns in that order, or name them in a first line, such as"
    if order[2] == "speaker" and all(cell.isdigit() for cell in second) and all(last):
        raise CorpusError(f"{table} has numbers for texts, such as {second[0]!r}: expected {'|'.join(order)}")
    sentences = sum(bool(_SENTENCE.search(cell)) for cell in last)
    few = 2 * len(set(second)) <= len(set(last)) and not any(" " in cell for cell in second)
    if few and 2 * sentences > len(rows):
        raise CorpusError(
            f"{table} has texts in its last column, such as {last[0][:40]!r}, and what looks like speakers "
            f"before them, such as {second[0]!r}: {remedy} path|speaker|text"
        )
    third = [cells[2] for cells in rows]
    if order[2] == "normalized" and all(map(_NUMBER.fullmatch, third)) and any(map(str.isalpha, "".join(second))):
        raise CorpusError(
            f"{table} has numbers where normalized texts are expected, such as {third[0]!r} for {second[0][:40]!r}: "
            f"{remedy} id|text|length"
        )
