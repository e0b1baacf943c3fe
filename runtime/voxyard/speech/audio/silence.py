"""Silence in audio: frames of 20 ms below a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

FRAME_SECONDS = 0.02
THRESHOLD = 10 ** (-50 / 20)  # −50 dB of full scale: root mean square of a frame, below which it counts as silent


def silent_frames(audio: Audio, sample_rate: int) -> Any:
    """True for each silent frame, (frames,); samples after the last whole frame are left out."""
    import numpy as np

    size = _frame_size(audio, sample_rate)
    frames = audio[: len(audio) // size * size].reshape(-1, size)
    return np.sqrt((frames**2).mean(1)) < THRESHOLD


def leading_silence(audio: Audio, sample_rate: int) -> float | None:
    """Seconds of silence before the first audible frame; None where no frame is audible."""
    if not len(audio):
        return None
    audible = ~silent_frames(audio, sample_rate)
    return int(audible.argmax()) * _frame_size(audio, sample_rate) / sample_rate if audible.any() else None


def _frame_size(audio: Audio, sample_rate: int) -> int:
    return min(len(audio), int(FRAME_SECONDS * sample_rate))
