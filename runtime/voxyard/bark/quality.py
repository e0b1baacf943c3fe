"""Quality check of each spoken chunk: length, silence, clipping, NaN, missing end token, wrong words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from voxyard.speech.audio.wav import silent_frames

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

Fault = Literal["empty", "not finite", "silent", "clipped", "too short", "too long", "no end", "wrong words"]

FULL_SCALE = 0.999


@dataclass(frozen=True)
class Bounds:
    """Bounds of the quality check. The figures are assumptions, wide enough for every language of Bark."""

    shortest: float = 0.02  # seconds for a character
    longest: float = 0.4
    slack: float = 3.0  # seconds; for sighs, laughter and pauses
    silence: float = 0.9  # share of the frames
    clipping: float = 0.01  # share of the samples
    word_errors: float = 0.5  # share of the words, of which pocketsphinx gets a third wrong in clear speech


@dataclass(frozen=True)
class Quality:
    """Measurements of a chunk's audio, and its faults."""

    silence: float
    clipping: float
    faults: tuple[Fault, ...]


def measure(
    audio: Audio,
    sample_rate: int,
    text: str,
    *,
    cap_reached: bool,
    finite: bool,
    bounds: Bounds,
    word_errors: float | None = None,
) -> Quality:
    """Measure one chunk. A missing end token and NaN samples are faults regardless of the bounds.

    `word_errors` is the word error rate; None where words were not checked, which is no fault.
    """
    if not len(audio):
        return Quality(1.0, 0.0, ("empty",) if finite else ("empty", "not finite"))
    faults: list[Fault] = []
    if not finite or not np.isfinite(audio).all():
        return Quality(1.0, 0.0, ("not finite",))
    silence, clipping = silent_share(audio, sample_rate), float((np.abs(audio) >= FULL_SCALE).mean())
    seconds, characters = len(audio) / sample_rate, sum(not each.isspace() for each in text)
    checks: tuple[tuple[Fault, bool], ...] = (
        ("silent", silence > bounds.silence),
        ("clipped", clipping > bounds.clipping),
        ("too short", seconds < bounds.shortest * characters),
        ("too long", seconds > bounds.longest * characters + bounds.slack),
        ("no end", cap_reached),
        ("wrong words", word_errors is not None and word_errors > bounds.word_errors),
    )
    faults += [fault for fault, found in checks if found]
    return Quality(silence, clipping, tuple(faults))


def silent_share(audio: Audio, sample_rate: int) -> float:
    """Share of the whole frames of 20 ms that are below −50 dB of full scale."""
    return float(silent_frames(audio, sample_rate).mean())
