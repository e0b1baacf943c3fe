"""Joins chunks to one audio stream: pauses between them, short fades at their edges, exact positions, rounding.

It rounds to 16 bits: a chunk before its fades, as a store keeps it, and after them. So the samples are the same whether
a chunk was stored in between or not, and an encoder that rounds them again changes none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from voxyard.speech.audio.encoder import check
from voxyard.speech.audio.wav import rounded
from voxyard.speech.errors import SpeechError
from voxyard.speech.requests import SAMPLE_RATE, Boundary, Result

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio


@dataclass(frozen=True)
class Pauses:
    """Silence after a chunk by its boundary, and length of a fade, in seconds."""

    clause: float = 0.08  # a long sentence was cut here
    sentence: float = 0.25
    paragraph: float = 0.6
    chapter: float = 1.5
    fade: float = 0.005

    def __post_init__(self) -> None:
        for name in ("clause", "sentence", "paragraph", "chapter", "fade"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds >= 0):
                raise SpeechError(f"pause {name} is {seconds} s, expected 0 or more")

    def at_speed(self, speed: float) -> Pauses:
        """The pauses of speech that is so many times as fast; fades stay."""
        own = {name: getattr(self, name) / speed for name in ("clause", "sentence", "paragraph", "chapter")}
        return replace(self, **own)

    def after(self, ending: Boundary | float) -> float:
        """Silence in seconds after a chunk with this boundary; a pause tag's seconds are what they are."""
        seconds: float = getattr(self, ending) if isinstance(ending, str) else ending
        return seconds


@dataclass(frozen=True, eq=False)
class Piece:
    """Next part of the joined audio: the pause before a chunk, then the chunk.

    `start` and `end` are the sample positions of the chunk itself in the joined audio.
    """

    chunk: int
    audio: Audio  # (samples,), the pause included; values of 16 bits
    start: int
    end: int
    sample_rate: int


@dataclass(frozen=True)
class Span:
    """Position of a chunk in the joined audio: samples [start, end), after a pause of samples [begin, start)."""

    begin: int
    start: int
    end: int

    @property
    def start_seconds(self) -> float:
        """Start of the chunk in seconds."""
        return self.start / SAMPLE_RATE

    @property
    def end_seconds(self) -> float:
        """End of the chunk in seconds."""
        return self.end / SAMPLE_RATE


class JoinTimeline:
    """Positions of chunks in the joined audio, from their lengths alone; they are added in text order."""

    def __init__(self, pauses: Pauses, sample_rate: int = SAMPLE_RATE) -> None:
        self._pauses, self._sample_rate = pauses, sample_rate
        self._position, self._pending = 0, 0.0

    def add(self, samples: int, ending: Boundary | float) -> Span:
        """Position of the next chunk. The pause after a chunk comes before the next; an empty one adds none."""
        if not samples:
            self._pending = max(self._pending, self._pauses.after(ending) if self._position else 0.0)
            return Span(self._position, self._position, self._position)
        start = self._position + round(self._pending * self._sample_rate)
        span = Span(self._position, start, start + samples)
        self._position, self._pending = span.end, self._pauses.after(ending)
        return span


class Joiner:
    """Joined audio, piece by piece: chunks are added in text order; concatenated, the pieces are the whole."""

    def __init__(self, pauses: Pauses | None = None, *, sample_rate: int = SAMPLE_RATE) -> None:
        self._pauses, self._sample_rate = Pauses() if pauses is None else pauses, sample_rate
        self._timeline = JoinTimeline(self._pauses, sample_rate)

    def add(self, result: Result, ending: Boundary | float) -> Piece:
        """The piece of the next chunk, with its boundary, or the seconds of a pause tag.

        Raises:
            SpeechError: the chunk has another sample rate.
            EncodeError: it has samples that are no numbers.
        """
        import numpy as np

        if result.sample_rate != self._sample_rate:
            raise SpeechError(
                f"chunk {result.chunk} has {result.sample_rate} samples a second, expected {self._sample_rate}: all "
                "chunks must come from engines of one rate"
            )
        check(result.audio)
        span = self._timeline.add(len(result.audio), ending)
        sound = faded(result.audio, self._pauses, self._sample_rate)
        pause = span.start - span.begin
        audio = np.concatenate([np.zeros(pause, np.float32), sound]) if pause else sound
        return Piece(result.chunk, audio, span.start, span.end, self._sample_rate)


def faded(audio: Audio, pauses: Pauses, sample_rate: int = SAMPLE_RATE) -> Audio:
    """A chunk's sound with a fade-in and a fade-out, so that its edges do not click, in values of 16 bits."""
    import numpy as np

    faded = np.array(rounded(audio), np.float32)  # a copy
    length = min(round(pauses.fade * sample_rate), len(faded) // 2)
    if length:
        ramp = (0.5 - 0.5 * np.cos(np.pi * np.arange(length) / length)).astype(np.float32)
        faded[:length] *= ramp
        faded[-length:] *= ramp[::-1]
    return rounded(faded)
