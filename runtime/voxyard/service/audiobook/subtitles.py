"""Subtitles of a document: SubRip (SRT) and WebVTT, cues of at most two lines."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from voxyard.service.audiobook.timings import TimedChunk
from voxyard.speech.reading.markup import MASK

SubtitleFormat = Literal["srt", "vtt"]
MEDIA_TYPES: dict[SubtitleFormat, str] = {"srt": "application/x-subrip", "vtt": "text/vtt"}

LINE = 42  # columns; an East Asian wide character has two
LINES = 2
LONGEST = 7.0  # seconds of a cue; a longer word has one of its own


@dataclass(frozen=True)
class Cue:
    """Lines of text that are shown from `start` to `end`, in seconds; `speaker` says them, where the text names one."""

    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str | None = None


def cues(text: str, chunks: Iterable[TimedChunk]) -> Iterator[Cue]:
    """Cues of a text, as `masked` gives it; none spans two chunks."""
    for timed in chunks:
        lines, start, end, ended = list[str](), 0.0, 0.0, 0
        for word in timed.words:
            shown = text[word.start : word.end].replace(MASK, "")
            longer = _longer(lines, shown, " " if word.start > ended else "")
            if lines and (len(longer) > LINES or word.end_seconds - start > LONGEST):
                yield Cue(start, end, tuple(lines), timed.chunk.speaker)
                lines = []
            if not lines:
                longer, start = [shown], word.start_seconds
            lines, end, ended = longer, word.end_seconds, word.end
        if lines:
            yield Cue(start, end, tuple(lines), timed.chunk.speaker)


def srt(found: Iterable[Cue]) -> str:
    """SubRip file."""
    return "\n".join(
        f"{number}\n{_time(cue.start, ',')} --> {_time(cue.end, ',')}\n{chr(10).join(cue.lines)}\n"
        for number, cue in enumerate(found, 1)
    )


def vtt(found: Iterable[Cue]) -> str:
    """WebVTT file."""
    parts = (
        f"{_time(cue.start, '.')} --> {_time(cue.end, '.')}\n{_voice(cue)}{chr(10).join(map(_escaped, cue.lines))}\n"
        for cue in found
    )
    return "\n".join(["WEBVTT\n", *parts])


def _voice(cue: Cue) -> str:
    return "" if cue.speaker is None else f"<v {_escaped(' '.join(cue.speaker.split()))}>"


def _longer(lines: Sequence[str], word: str, blank: str) -> list[str]:
    """Lines with one more word, each as full as it can be; `blank` is before the word where its line goes on."""
    if not lines or _columns(longer := lines[-1] + blank + word) > LINE:
        return [*lines, word]
    return [*lines[:-1], longer]


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _time(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"


def _escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
