"""Columns of a table: in the order of a layout, or as its first line or its JSON names them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from voxyard.corpus.examples import CorpusError
from voxyard.corpus.layouts.cells import Role, read_cells

_SENTENCE = re.compile(r"\s|[.!?。！？…]$|[\u3040-\u30ff\u4e00-\u9fff]")
_NUMBER = re.compile(r"\d+([.,]\d+)?")
_LENGTH = re.compile(r"\d+[.,]\d+")


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
    named, split = read_cells(table)
    if not named and len(split) > 1 and all(len(cells) == 1 for _, cells in split):
        raise CorpusError(
            f"{table} has no | in its lines, such as {split[0][1][0][:60]!r}: expected {expected}; save it with | "
            "between the columns and no quotes around them, or with a first line that names them, such as path,text"
        )
    few = False
    if not named:
        _refuse_other_forms(table, [cells for _, cells in split], order, expected)
        few = 4 * sum(len(cells) == 2 for _, cells in split) > 3 * len(split)
    for number, cells in split:
        where = f"line {number} of {table.name}"
        if named and len(cells) != len(named):
            yield Row(where, cells[0], {}, f"{len(cells)} columns; the first line names {len(named)}")
        elif few and len(cells) > 2 and cells[1] != cells[2]:
            fault = f"{len(cells)} columns where most lines have 2: expected {expected}, and no | within a text"
            yield Row(where, cells[0], {}, fault)
        elif not named and not 2 <= len(cells) <= len(order):
            yield Row(where, cells[0], {}, f"{len(cells)} columns; expected {expected}")
        else:
            roles = named or order
            held = {role: cell for role, cell in zip(roles, cells, strict=False) if role}
            if "speaker" in held:  # as one, however its accents are composed
                held["speaker"] = unicodedata.normalize("NFC", held["speaker"])
            yield Row(where, cells[0], held)


def _refuse_other_forms(table: Path, split: Sequence[Sequence[str]], order: Sequence[Role], expected: str) -> None:
    """Refuses what is the same fault in most lines: quotes, more columns than there are, columns in another order."""
    remedy = f"expected {expected}; put the columns in that order, or name them in a first line, such as"
    if split and all(cells[0].startswith('"') for cells in split):
        raise CorpusError(f"{table} has quotes around its lines, such as {split[0][0][:60]!r}: save it without them")
    if 2 * sum(len(cells) > len(order) for cells in split) > len(split):
        raise CorpusError(
            f"{table} has {max(map(len, split))} columns, such as {'|'.join(split[0])[:80]!r}: {remedy} "
            "path|speaker|language|text"
        )
    rows = [cells for cells in split if 3 <= len(cells) <= len(order)]
    if 2 * len(rows) > len(split):
        _refuse_other_orders(table, rows, order, remedy)


def _refuse_other_orders(table: Path, rows: Sequence[Sequence[str]], order: Sequence[Role], remedy: str) -> None:
    """Others have the speaker before or after the text, or the length of the text after it: neither is to be spoken."""
    second, third, last = ([cells[i] for cells in rows] for i in (1, 2, -1))
    if order[2] == "speaker" and all(cell.isdigit() for cell in second) and all(last):
        raise CorpusError(f"{table} has numbers for texts, such as {second[0]!r}: expected {'|'.join(order)}")
    if all(second) and _are_names(second, last):
        raise CorpusError(
            f"{table} has texts in its last column, such as {last[0][:40]!r}, and what looks like speakers "
            f"before them, such as {second[0]!r}: {remedy} path|speaker|text"
        )
    if order[2] == "speaker":
        if 2 * sum(bool(cells[2]) and cells[2][:5].lower() == cells[1][:5].lower() for cells in rows) > len(rows):
            raise CorpusError(
                f"{table} has what looks like texts where speakers are expected, such as {third[0][:40]!r}: give the "
                f"folder where this is LJSpeech's metadata.csv; {remedy} path|text|normalized"
            )
        return
    if all(map(_NUMBER.fullmatch, third)) and any(map(str.isalpha, "".join(second))):
        raise CorpusError(
            f"{table} has numbers where normalized texts are expected, such as {third[0]!r} for {second[0][:40]!r}: "
            f"{remedy} id|text|length"
        )
    if all(third) and len(third) > 3 and _are_names(third, second):
        raise CorpusError(
            f"{table} has what looks like speakers where normalized texts are expected, such as {third[0]!r} for "
            f"{second[0][:40]!r}: {remedy} id|text|speaker"
        )
    if all(len(cells) == 4 and _LENGTH.fullmatch(cells[3]) for cells in rows):
        raise CorpusError(
            f"{table} has numbers where speakers are expected, such as {last[0]!r}: {remedy} id|text|normalized|length"
        )


def _are_names(cells: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether some words, each of which is there again and again, stand beside sentences."""
    few = 2 * len(set(cells)) <= len(set(texts)) and not any(" " in cell for cell in cells)
    return few and _are_sentences(texts)


def _are_sentences(texts: Sequence[str]) -> bool:
    return 2 * sum(bool(_SENTENCE.search(text)) for text in texts) > len(texts)
