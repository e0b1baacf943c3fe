"""Joins chunks to one audio stream: pauses between them, short fades at their edges, exact positions, rounding.

The only place that rounds to 16 bits: a chunk before its fades, as a store keeps it, and after them. So the samples
are the same whether a chunk was stored in between or not, and every reader of the joined audio gets equal values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from voxyard.speech.audio.codecs import check
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

    @property
    def start_seconds(self) -> float:
        """Start of the chunk in seconds."""
        return self.start / self.sample_rate

    @property
    def end_seconds(self) -> float:
        """End of the chunk in seconds."""
        return self.end / self.sample_rate


def join(
    spoken: Iterable[tuple[Result, Boundary | float]], pauses: Pauses | None = None, *, sample_rate: int = SAMPLE_RATE
) -> Iterator[Piece]:
    """Pieces of the joined audio, each as soon as its chunk is there; concatenated they are the whole.

    `spoken` gives the chunks in text order, each with its boundary, or the seconds of a pause tag. The pause after a
    chunk begins the next piece, so the audio ends with its last chunk. An empty chunk adds no pause of its own.

    Raises:
        SpeechError: a chunk has another sample rate.
        EncodeError: a chunk has samples that are no numbers.
    """
    import numpy as np

    pauses = Pauses() if pauses is None else pauses
    position, pending = 0, 0.0
    for result, ending in spoken:
        if result.sample_rate != sample_rate:
            raise SpeechError(
                f"chunk {result.chunk} has {result.sample_rate} samples a second, expected {sample_rate}: all chunks "
                "must come from engines of one rate"
            )
        if not len(result.audio):
            pending = max(pending, pauses.after(ending) if position else 0.0)
            yield Piece(result.chunk, np.zeros(0, np.float32), position, position, sample_rate)
            continue
        pause = round(pending * sample_rate)
        check(result.audio)
        sound = rounded(_faded(rounded(result.audio), round(pauses.fade * sample_rate)))
        audio = np.concatenate([np.zeros(pause, np.float32), sound]) if pause else sound
        start = position + pause
        position = start + len(sound)
        yield Piece(result.chunk, audio, start, position, sample_rate)
        pending = pauses.after(ending)


def _faded(audio: Audio, length: int) -> Audio:
    """The audio with a fade-in and a fade-out, so that its edges do not click."""
    import numpy as np

    faded = np.array(audio, np.float32)  # a copy
    length = min(length, len(faded) // 2)
    if length:
        ramp = (0.5 - 0.5 * np.cos(np.pi * np.arange(length) / length)).astype(np.float32)
        faded[:length] *= ramp
        faded[-length:] *= ramp[::-1]
    return faded
