"""Words of a script for people: chunk by chunk, with the chapters' titles and the length of the speech."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from voxyard.cli.base import clock
from voxyard.speech.reading.reader import READING_VERSION
from voxyard.trainer.reporting.figures import counted

if TYPE_CHECKING:
    from voxyard.extraction.document import TextChapter
    from voxyard.speech.script import Script


def listing(script: Script, chapters: Sequence[TextChapter]) -> str:
    """A line for each chunk with what the engine gets of it, under its chapter's title; the estimated length last.

    Below it stands what of the text was read how, as it is written and in words.
    """
    titles = _titles(script, chapters)
    lines: list[str] = []
    for chunk, request, readings in zip(script.chunks, script.requests, script.readings, strict=True):
        for chapter in titles.get(chunk.index, ()):
            lines += ["", f"{'#' * chapter.level} {chapter.title}", ""]
        who = chunk.speaker or (request.voice if request.voice != script.voice else None)
        words = ("" if who is None else f"{who}: ") + " ".join(request.text.split())
        pause = "" if chunk.pause is None else f" [pause {chunk.pause:g}s]"
        lines.append(f"{chunk.index + 1:>5}  {chunk.estimated_seconds:4.1f} s  {words}{pause}")
        lines += [f"{'':15}{_on_one_line(written)} → {_on_one_line(said) or '(silent)'}" for written, said in readings]
    voices = ", ".join(dict.fromkeys(request.voice for request in script.requests if request.voice))
    lines += [
        "",
        f"{counted(len(script.chunks), 'chunk')}, about {clock(script.estimated_seconds)} of speech without its pauses"
        + (f", in the voice{'s' if ', ' in voices else ''} {voices}" if voices else ""),
    ]
    return "\n".join(lines).lstrip("\n")


def to_json(script: Script, chapters: Sequence[TextChapter]) -> dict[str, Any]:
    """The same as plain values: `text` is the document's, `words` the engine's, `readings` what was read how."""
    return {
        "voice": script.voice,
        "reading": READING_VERSION,
        "estimated_seconds": round(script.estimated_seconds, 3),
        "chapters": [
            {"title": chapter.title, "level": chapter.level, "first_chunk": index}
            for index, found in _titles(script, chapters).items()
            for chapter in found
        ],
        "chunks": [
            {
                "index": chunk.index,
                "text": chunk.text,
                "words": request.text,
                "speaker": chunk.speaker,
                "voice": request.voice,
                "readings": [{"text": written, "words": said} for written, said in readings],
                "estimated_seconds": round(chunk.estimated_seconds, 3),
            }
            for chunk, request, readings in zip(script.chunks, script.requests, script.readings, strict=True)
        ],
    }


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _titles(script: Script, chapters: Sequence[TextChapter]) -> dict[int, list[TextChapter]]:
    """Chapters by the chunk that they begin with; those after the last chunk have nothing to be spoken."""
    starts = [chunk.start for chunk in script.chunks]
    found: dict[int, list[TextChapter]] = {}
    for chapter in chapters:
        if (index := bisect_left(starts, chapter.start)) < len(starts):
            found.setdefault(index, []).append(chapter)
    return found
