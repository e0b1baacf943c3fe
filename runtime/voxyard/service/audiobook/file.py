"""Audiobook file (M4B) of a completed document: written once, at its first request."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from voxyard.service.audio.store import AudioStore, book_name
from voxyard.service.documents.records import Chapter, Document, StoredChunk
from voxyard.service.documents.timelines import with_spans
from voxyard.service.errors import NoRoomError, UnavailableError
from voxyard.speech.audio import audiobook
from voxyard.speech.audio.audiobook import ChapterMark
from voxyard.speech.audio.encoder import Tags
from voxyard.speech.audio.joining import Pauses, Span
from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

_log = logging.getLogger(__name__)

_ROOM = 1.1  # of what its bit rate makes


def write(
    audio_store: AudioStore,
    document: Document,
    chunks: Sequence[StoredChunk],
    pauses: Pauses,
    chapters: Sequence[Chapter],
    cover: bytes | None,
    cancelled: threading.Event,
) -> None:
    """Writes the file, unless it is there. Blocks for as long as encoding takes, or until it is `cancelled`.

    Raises:
        NoRoomError: it does not fit on the disk or into the quota.
        NotFoundError: the document was deleted.
        EncodeError: FFmpeg fails.
        UnavailableError: it was cancelled.
    """
    if audio_store.size(document.id, book_name(document.audio)) is not None:
        return
    if cover is not None and not audiobook.is_cover(cover):
        _log.warning("document %s: its cover is no readable JPEG or PNG image, and is left out", document.id)
        cover = None
    spans = [span for _, span in with_spans(chunks, pauses)]
    samples = spans[-1].end if spans else 0
    need = samples / SAMPLE_RATE * audiobook.BIT_RATE / 8 * _ROOM + len(cover or b"")
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
            marks=marks(chapters, spans),
            cover=cover,
        )
        scratch.seek(0)
        with audio_store.write(document.id, book_name(document.audio)) as file:
            shutil.copyfileobj(scratch, file)


def marks(chapters: Sequence[Chapter], spans: Sequence[Span]) -> list[ChapterMark]:
    """Marks of chapters, by the spans of all chunks."""
    return [ChapterMark(chapter.title, spans[chapter.first].start) for chapter in chapters]
