"""What print needs and speech does not: tables of contents, marks of notes, places of pictures."""

from __future__ import annotations

import io

import pdfs
import pytest

from voxyard.extraction.document import rendered
from voxyard.extraction.extract import extract
from voxyard.extraction.markup import html_page
from voxyard.extraction.pdf import read_pdf
from voxyard.extraction.silent import without_contents, without_marks

ENTRIES = ["One ........ 1", "Two . . . . . . 17", "Three …… 230"]


@pytest.mark.parametrize("title", ["Contents", "TABLE OF CONTENTS", "Inhaltsverzeichnis", "Sommaire", "目录", "1999"])
def test_a_table_of_contents_goes_with_its_title(title: str) -> None:
    text = "\n".join(["The Book", "", title, "", *ENTRIES, "", "It was dark."])
    left = without_contents(text).split()
    assert left == ["The", "Book", *(["1999"] if title == "1999" else []), "It", "was", "dark."]


@pytest.mark.parametrize(
    "lines",
    [
        ["Coffee ..... 3", "Cake ..... 2", "Tea ..... 1"],  # prices, which do not rise
        ["One ........ 1", "Two ........ 17"],
        ["He waited... 1", "and waited... 2", "and left... 3"],
        ["Coffee ..... 3.50", "Cake ..... 4.50", "Tea ..... 5.50"],
    ],
)
def test_what_only_looks_like_contents_stays(lines: list[str]) -> None:
    assert without_contents("\n".join(lines)) == "\n".join(lines)


@pytest.mark.parametrize(
    "entries",
    [
        ["Preface  vii", "1 The Storm  1", "2 The Calm\t17", "Index 230"],
        ["Part One", "The Storm 1", "A very long title that", "goes on 17", "The Calm 17"],
    ],
)
def test_contents_without_dots_go_with_their_title(entries: list[str]) -> None:
    text = "\n\n".join(["The Book", "Contents", *entries, "It was dark in 1999, and in 5 houses.", "He was 5"])
    left = "The Book\n\nIt was dark in 1999, and in 5 houses.\n\nHe was 5"
    assert extract(text.encode(), "a.txt", None, max_characters=1000).text == left
    page = "".join(f"<p>{line}</p>" for line in text.split("\n\n"))
    assert extract(page.encode(), "a.html", None, max_characters=1000).text == left


@pytest.mark.parametrize(
    "lines",
    [
        ["Room 5", "Room 17", "Room 230"],
        ["Contents", "Cups 12", "Plates 6", "Forks 24"],
        ["Contents", "It began in 1999.", "He had 5."],
    ],
)
def test_lines_that_end_in_figures_stay(lines: list[str]) -> None:
    assert without_contents("\n".join(lines)) == "\n".join(lines)


def test_entries_may_go_on_and_stand_below_headings() -> None:
    lines = ["Contents", "Part One", ENTRIES[0], "A very long title that goes on", ENTRIES[1], "", *ENTRIES[2:], "End."]
    assert without_contents("\n".join(lines)) == "End."


def test_contents_of_a_pdf_and_of_a_text_are_not_spoken() -> None:
    page = ["Contents", *ENTRIES, "", "It was dark, and the rain fell on the road."]
    data = pdfs.written([[line.replace("…", "....") for line in page]])
    assert read_pdf(io.BytesIO(data), max_characters=1000).text == "It was dark, and the rain fell on the road."
    found = extract("\n".join(page).encode(), "a.txt", None, max_characters=1000)
    assert found.text == "It was dark, and the rain fell on the road."


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("said Hale[1] and left.[2] Then", "said Hale and left. Then"),
        ("“Go!”[12][13]", "“Go!”"),
        ("see [3] there", "see [3] there"),
        ("x[1] and list[0], list[1]", "x[1] and list[0], list[1]"),
        ("a[1] = 5; row[2].name, row[3](4)", "a[1] = 5; row[2].name, row[3](4)"),
    ],
)
def test_a_note_is_marked_after_a_word_and_code_stays(text: str, left: str) -> None:
    assert without_marks(text) == left


def test_places_of_pictures_are_silent() -> None:
    body = "<p>Before.</p><p>[Illustration]</p><p>[Illustration: A ship\nat sea] After.</p>"
    assert rendered(html_page(body).blocks) == "Before.\n\nAfter."
    text = b"Before.\n\n[Illustration: A ship\nat sea]\n\nAfter, said Hale[1].\n"
    assert extract(text, "a.txt", None, max_characters=1000).text == "Before.\n\nAfter, said Hale."
