"""Chapters of a document: headings to chapters of chunks, their tables, and their times in the joined audio."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from voxyard.extraction.document import TextChapter
from voxyard.service.documents.database import Connection
from voxyard.service.documents.records import Chapter
from voxyard.speech.audio.audiobook import ChapterMark
from voxyard.speech.audio.joining import Span

LONGEST_TITLE = 200  # characters


@dataclass(frozen=True)
class TimedChapter:
    """Chapter with its last chunk, and the times of its sound in seconds; None while they are not known."""

    title: str
    level: int
    first: int
    last: int
    start_seconds: float | None
    end_seconds: float | None


def of_headings(headings: Iterable[TextChapter], starts: Sequence[int], title: str) -> tuple[Chapter, ...]:
    """Chapters of chunks that begin at these characters; none without headings.

    What stands before the first heading is a chapter of the document's title. A heading without a chunk of its own
    (nothing in it can be spoken, and another follows at once) is none.
    """
    chapters = list[Chapter]()
    ordered = sorted(headings, key=lambda heading: heading.start)
    place = 0
    for heading, end in zip(ordered, [*(each.start for each in ordered[1:]), math.inf], strict=False):
        while place < len(starts) and starts[place] < heading.start:
            place += 1
        if place < len(starts) and starts[place] < end:
            chapters.append(Chapter(heading.title[:LONGEST_TITLE], heading.level, place))
    if chapters and chapters[0].first > 0:
        chapters.insert(0, Chapter(title[:LONGEST_TITLE], 1, 0))
    return tuple(chapters)


def timed(chapters: Sequence[Chapter], chunks: int, spans: Sequence[Span]) -> Iterator[TimedChapter]:
    """Chapters with their times: `spans` are those of the first chunks, as far as they are known."""
    for at, chapter in enumerate(chapters):
        last = (chapters[at + 1].first if at + 1 < len(chapters) else chunks) - 1
        start = spans[chapter.first].start_seconds if chapter.first < len(spans) else None
        end = spans[last].end_seconds if last < len(spans) else None
        yield TimedChapter(chapter.title, chapter.level, chapter.first, last, start, end)


def insert(connection: Connection, number: int, chapters: Sequence[Chapter], cover: bytes | None) -> None:
    """Stores the chapters and the cover of a document's row."""
    connection.executemany(
        "INSERT INTO chapters (document, place, title, level, first) VALUES ($1, $2, $3, $4, $5)",
        ((number, place, each.title, each.level, each.first) for place, each in enumerate(chapters)),
    )
    if cover is not None:
        connection.execute("INSERT INTO covers (document, image) VALUES ($1, $2)", (number, cover))


def read(connection: Connection, number: int) -> tuple[Chapter, ...]:
    """Chapters of a document's row, in text order."""
    found = connection.execute("SELECT title, level, first FROM chapters WHERE document = $1 ORDER BY place", (number,))
    return tuple(Chapter(row["title"], row["level"], row["first"]) for row in found)


def read_cover(connection: Connection, number: int) -> bytes | None:
    """Cover of a document's row; None where it has none."""
    row = connection.execute("SELECT image FROM covers WHERE document = $1", (number,)).fetchone()
    return None if row is None else bytes(row["image"])


def chapter_marks(chapters: Sequence[Chapter], spans: Sequence[Span]) -> list[ChapterMark]:
    """Marks of chapters in an audiobook, by the spans of all chunks."""
    return [ChapterMark(chapter.title, spans[chapter.first].start) for chapter in chapters]
