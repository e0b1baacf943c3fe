"""Subtitles of a document: SubRip (SRT) and WebVTT, cues of at most two lines."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from voxyard.service.audiobook.timings import TimedChunk, WordTime
from voxyard.speech.reading.markup import MASK
from voxyard.speech.text.boundaries import ends_paragraph

SubtitleFormat = Literal["srt", "vtt"]
MEDIA_TYPES: dict[SubtitleFormat, str] = {"srt": "application/x-subrip", "vtt": "text/vtt"}

LINE = 42  # columns; an East Asian wide character has two
LINES = 2
_FEWEST = 2  # words of a cue of which some go to the next
LONGEST = 7.0  # seconds of a cue; a longer word has one of its own


@dataclass(frozen=True)
class Cue:
    """Lines of text that are shown from `start` to `end`, in seconds; `speaker` says them, where the text names one."""

    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str | None = None


def cues(text: str, chunks: Iterable[TimedChunk]) -> Iterator[Cue]:
    """Cues of a text, as `masked` gives it; none spans two chunks, or two paragraphs."""
    for timed in chunks:
        for words in _shown(text, timed.words):
            yield Cue(words[0].start_seconds, words[-1].end_seconds, tuple(_lines(text, words)), timed.chunk.speaker)


def _shown(text: str, words: Iterable[WordTime]) -> Iterator[list[WordTime]]:
    """Words of a chunk by the cues that show them; of two cues the second has more than one word where it can."""
    found = list[list[WordTime]]()
    for word in words:
        now = found[-1] if found else []
        begins = not now or ends_paragraph(text, word.start)
        if begins or len(_lines(text, [*now, word])) > LINES or word.end_seconds - now[0].start_seconds > LONGEST:
            found.append([])
        found[-1].append(word)
    for before, after in pairwise(found):
        if len(after) == 1 and len(before) > _FEWEST and not ends_paragraph(text, after[0].start):
            half = (len(before) + 1) // 2
            if after[0].end_seconds - before[half].start_seconds <= LONGEST:
                before[:], after[:] = before[:half], [*before[half:], *after]
    yield from found


def _lines(text: str, words: Iterable[WordTime]) -> list[str]:
    """Lines of a cue, each as full as it can be."""
    lines, ended = list[str](), 0
    for word in words:
        lines = _longer(lines, text[word.start : word.end].replace(MASK, ""), " " if word.start > ended else "")
        ended = word.end
    return lines


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
