"""Audiobook of `voxyard speak`: its chapters and captions, as the service makes those of a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from voxyard.extraction.extract import ExtractedText
    from voxyard.speech.audio.joining import Pauses
    from voxyard.speech.audio.sound_file import Book
    from voxyard.speech.script import Script


def book_of(document: ExtractedText, script: Script, samples: Sequence[int], pauses: Pauses) -> Book:
    """What belongs to the audiobook of a document whose chunks have so many samples of sound."""
    from voxyard.service.audiobook import chapters, subtitles
    from voxyard.service.audiobook.timings import word_times
    from voxyard.service.documents.records import StoredChunk, with_spans
    from voxyard.speech.audio.sound_file import Book
    from voxyard.speech.reading.markup import masked

    chunks = [
        StoredChunk(
            each.index, each.start, each.end, each.ending, each.estimated_seconds, "spoken", length, None,
            pause=each.pause, speaker=each.speaker,
        )
        for each, length in zip(script.chunks, samples, strict=True)
    ]  # fmt: skip
    timed, text = list(with_spans(chunks, pauses)), masked(document.text)
    found = chapters.of_headings(document.chapters, [each.start for each in chunks], document.title)
    cues = subtitles.cues(text, word_times(text, timed, script.requests[0].language))
    return Book(chapters.chapter_marks(found, [span for _, span in timed]), document.cover, subtitles.vtt(cues))
