"""Chapters of a document: headings to chapters of chunks, their tables, their times; the audiobook that has them."""

from __future__ import annotations

import logging
import math
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from voxyard.extraction.document import TextChapter
from voxyard.service.audio.store import AudioStore, book_name
from voxyard.service.documents.database import Connection
from voxyard.service.documents.records import Chapter, Document, StoredChunk, with_spans
from voxyard.service.errors import NoRoomError, UnavailableError
from voxyard.speech.audio import audiobook
from voxyard.speech.audio.audiobook import ChapterMark
from voxyard.speech.audio.encoder import Tags
from voxyard.speech.audio.joining import Pauses, Span
from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

log = logging.getLogger(__name__)

LONGEST_TITLE = 200  # characters
_AUDIOBOOK_ROOM = 1.1  # of what its bit rate makes


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


def write_audiobook(
    audio_store: AudioStore,
    document: Document,
    chunks: Sequence[StoredChunk],
    pauses: Pauses,
    chapters: Sequence[Chapter],
    cover: bytes | None,
    cancelled: threading.Event,
) -> None:
    """Writes the audiobook, unless it is there. Blocks for as long as encoding takes, or until it is `cancelled`.

    Raises:
        NoRoomError: it does not fit on the disk or into the quota.
        NotFoundError: the document was deleted.
        EncodeError: FFmpeg fails.
        UnavailableError: it was cancelled.
    """
    if audio_store.size(document.id, book_name(document.audio)) is not None:
        return
    if cover is not None and not audiobook.is_cover(cover):
        log.warning("document %s: its cover is no readable JPEG or PNG image, and is left out", document.id)
        cover = None
    spans = [span for _, span in with_spans(chunks, pauses)]
    samples = spans[-1].end if spans else 0
    need = samples / SAMPLE_RATE * audiobook.BIT_RATE / 8 * _AUDIOBOOK_ROOM + len(cover or b"")
    if audio_store.room_bytes() < need:
        raise NoRoomError(
            f"no room for the audiobook of about {need / 2**20:.1f} MiB: delete documents, or raise --disk-quota"
        )

    def audio() -> Iterator[Audio]:
        for piece in audio_store.pieces(document.id, chunks, pauses, revision=document.audio):
            if cancelled.is_set():
                raise UnavailableError("the service is shutting down: retry in 10 s", retry_after=10.0)
            yield piece.audio

    with tempfile.TemporaryFile() as scratch:  # the place of the audio may be a bucket, where no file can seek
        audiobook.write(
            scratch,
            audio(),
            samples=samples,
            tags=Tags(document.title, document.author, language=document.language),
            marks=chapter_marks(chapters, spans),
            cover=cover,
        )
        scratch.seek(0)
        with audio_store.write(document.id, book_name(document.audio)) as file:
            shutil.copyfileobj(scratch, file)


def chapter_marks(chapters: Sequence[Chapter], spans: Sequence[Span]) -> list[ChapterMark]:
    """Marks of chapters in an audiobook, by the spans of all chunks."""
    return [ChapterMark(chapter.title, spans[chapter.first].start) for chapter in chapters]
