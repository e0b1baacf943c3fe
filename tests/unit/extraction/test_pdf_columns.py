"""Two columns of a PDF: read one after the other, however they are drawn; tables and wide gaps stay as they are."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence

import pdfs
import pytest

from voxyard.extraction.pdf import read_pdf
from voxyard.extraction.pdf_columns import LineExtent, in_reading_order
from voxyard.extraction.pdf_notes import TextLine

STORY = (
    "The harbour lay still and nobody was awake but the watchman, who waited for the ships that would come in the"
    " morning, one after the other, with all their sails and lanterns, while behind the hills the first light began to"
    " show and somewhere a dog barked twice before it was silent again. He had seen a thousand such mornings, and each"
    " of them had brought him something that he did not expect: a letter, a friend, a storm, or only the rain that came"
    " over the roofs and left again without a word. When the first mast rose over the pier he took his lamp and went"
    " down the stairs to the water, slowly, for he was not young any more, and called the names of those who had left."
)
LINES = textwrap.wrap(STORY, 40)
HALF = len(LINES) // 2
LEFT, RIGHT = LINES[:HALF], LINES[HALF : 2 * HALF]
BOTH = " ".join(LINES[: 2 * HALF])
HEADING = "A heading over both of the columns of this page"
NOTE = "A note below both of the columns, in smaller letters, which is the last that is read on this page of them all."


def at(line: str, left: float, down: float, size: float = 11) -> bytes:
    return b"BT /F1 %g Tf 1 0 0 1 %g %g Tm %s Tj ET" % (size, left, down, pdfs.string(line))


def by_rows(columns: Sequence[Sequence[str]], starts: Sequence[float], top: float = 720, shift: float = 0) -> bytes:
    """Columns whose first lines are drawn first, then their second ones; `shift` is between those of one row."""
    drawn = [
        at(line, start, top - 14 * number - shift * column)
        for number, row in enumerate(zip(*columns, strict=True))
        for column, (line, start) in enumerate(zip(row, starts, strict=True))
    ]
    return b"\n".join(drawn)


def by_columns(columns: Sequence[Sequence[str]], starts: Sequence[float], top: float = 720) -> bytes:
    return b"\n".join(
        at(line, start, top - 14 * number)
        for column, start in zip(columns, starts, strict=True)
        for number, line in enumerate(column)
    )


def paragraphs(*contents: bytes) -> list[str]:
    return read_pdf(io.BytesIO(pdfs.document(contents)), max_characters=100_000).text.split("\n\n")


@pytest.mark.parametrize("drawn", [by_rows, by_columns])
def test_columns_are_read_one_after_the_other(drawn: object) -> None:
    assert callable(drawn)
    assert paragraphs(drawn([LEFT, RIGHT], [72, 310])) == [BOTH]
    assert paragraphs(drawn([LEFT, RIGHT], [40, 290])) == [BOTH]


def test_rows_whose_lines_are_not_at_one_height_are_columns_too() -> None:
    assert paragraphs(by_rows([LEFT, RIGHT], [72, 310], shift=5)) == [BOTH]


def test_a_heading_above_and_a_note_below_stay_there() -> None:
    page = [
        at(HEADING, 72, 760, size=18),
        by_rows([LEFT, RIGHT], [72, 310]),
        at(NOTE, 72, 720 - 14 * HALF - 20, size=8),
    ]
    assert paragraphs(b"\n".join(page)) == [HEADING, BOTH, NOTE]


def test_running_heads_and_page_numbers_of_columns_are_left_out() -> None:
    turned = [[*LINES[number:], *LINES[:number]] for number in range(0, 10, 2)]  # no line is at one place of two pages
    pages = [
        b"\n".join([
            at(f"The Long Night {number}", 72, 780),
            by_rows([lines[:HALF], lines[HALF : 2 * HALF]], [72, 310]),
            at(f"{number}", 297, 60),
        ])
        for number, lines in enumerate(turned, 1)
    ]  # fmt: skip
    assert " ".join(paragraphs(*pages)).split() == " ".join(" ".join(lines[: 2 * HALF]) for lines in turned).split()


def test_columns_in_two_parts_of_a_page_are_read_part_by_part() -> None:
    page = [
        by_rows([LEFT, RIGHT], [72, 310]),
        at(HEADING, 72, 720 - 14 * HALF - 20, size=18),
        by_rows([LEFT, RIGHT], [72, 310], top=720 - 14 * HALF - 60),
    ]
    assert paragraphs(b"\n".join(page)) == [BOTH, HEADING, BOTH]


TABLES = {
    "names and numbers": (
        [[f"The price of the {name} today" for name in ("apples", "pears", "plums", "nuts", "figs", "dates", "limes")],
         [f"{number}.50" for number in range(7)]], [72, 310],
    ),
    "cells of several words": (
        [["Port of call", "Length of the pier", "Name of the watchman", "Ships in a year", "Depth", "Height", "Age"],
         ["Bergen in Norway", "two hundred meters", "Ann Ode", "about a thousand", "nine meters", "two meters", "old"]],
        [72, 230],
    ),
    "three columns": ([[line[:24] for line in LEFT], [line[:24] for line in RIGHT], [line[:20] for line in LEFT]],
                      [72, 240, 400]),
    "terms and what they mean": ([[f"term {number}" for number in range(HALF)], LEFT], [72, 200]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_row_by_row(name: str) -> None:
    columns, starts = [list(column) * 2 for column in TABLES[name][0]], TABLES[name][1]
    expected = " ".join(" ".join(row) for row in zip(*columns, strict=True))
    assert " ".join(paragraphs(by_rows(columns, starts))).split() == expected.split()


def test_a_text_with_wide_gaps_is_read_line_by_line() -> None:
    words = STORY.split()[:96]
    page = b"\n".join(at(word, 72 + 70 * (number % 6), 720 - 14 * (number // 6)) for number, word in enumerate(words))
    assert " ".join(paragraphs(page)).split() == words


def test_a_page_without_a_sign_of_columns_is_hardly_measured() -> None:
    asked: list[int] = []

    def extent(number: int) -> LineExtent:
        asked.append(number)
        return LineExtent(500.0, ())

    lines = [TextLine(f"{line} {line}", 72, 14.0 * number, 11) for number, line in enumerate(LINES * 50)]
    assert in_reading_order(lines, extent) == lines
    assert len(asked) <= 40
