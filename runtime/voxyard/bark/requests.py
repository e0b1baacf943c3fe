"""Requests to the Bark engine and its results; nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

Stage = Literal["semantic", "coarse", "fine", "codec"]
Fault = Literal["empty", "not finite", "silent", "clipped", "too short", "too long", "no end", "wrong words"]
Audio = npt.NDArray[np.float32]
Codes = npt.NDArray[np.integer[Any]]


class Voice(Protocol):
    """The history that a voice speaks on: what a preset of Bark holds."""

    @property
    def semantic_prompt(self) -> Codes:
        """Semantic tokens, (n,)."""

    @property
    def coarse_prompt(self) -> Codes:
        """Codes of the first two codebooks, (2, frames)."""

    @property
    def fine_prompt(self) -> Codes:
        """Codes of all codebooks, (8, frames)."""


@dataclass(frozen=True)
class Request:
    """One chunk to speak. `attempt` counts tries for quality: the same numbers give the same sound."""

    chunk: int
    text: str
    voice: Voice | None = None
    seed: int = 0
    attempt: int = 0


@dataclass(frozen=True)
class Facts:
    """Events of a chunk on its way."""

    text_tokens: int
    semantic_tokens: int
    frames: int
    seconds: float  # of audio
    attempt: int  # the one that is heard
    attempts: int  # how many were made
    batch_size: int  # rows of the batch it ran in; another number may change the sound
    cap_reached: bool  # the semantic stage was cut off at its limit
    silence: float  # share of the audio below the threshold
    clipping: float  # share of the samples at full scale
    faults: tuple[Fault, ...]  # what the quality gate still objects to
    word_errors: float | None = None  # share of the words that a recogniser heard wrong; None: not checked
    words_unchecked: str | None = None  # why they were not checked though a recogniser is named


@dataclass(frozen=True)
class Result:
    """One spoken chunk: mono float32 in [−1, 1] at 24 kHz."""

    chunk: int
    audio: Audio
    sample_rate: int
    facts: Facts
