"""Mean opinion score of a sound by Microsoft's DNSMOS P.808, 1 (bad) to 5 (excellent).

C. Reddy, V. Gopal & R. Cutler (2021), "DNSMOS: a non-intrusive perceptual objective speech quality metric". The model
is that of the wheel `speechmos`, whose own code needs librosa, numba and pandas: it is run by onnxruntime alone here.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxyard.speech.errors import SpeechError

RATE = 16_000  # Hz
SECONDS = 9.01  # that the model hears at once; shorter sounds are repeated
HOP, WINDOW, MELS = 160, 321, 120
UNHEARD = 160  # last samples of a segment, which its spectrogram leaves out

_LINEAR_HZ, _BREAK_HZ, _BREAK_MEL, _LOG_STEP = 200 / 3, 1000.0, 15.0, np.log(6.4) / 27


class P808:
    """The model, ready to judge."""

    def __init__(self) -> None:
        """Raises SpeechError with what to install where a package is missing."""
        found = importlib.util.find_spec("speechmos")
        missing = [name for name in ("onnxruntime", "soxr") if importlib.util.find_spec(name) is None]
        if found is None or found.origin is None or missing:
            raise SpeechError(
                "DNSMOS needs speechmos (for its models), onnxruntime and soxr: pip install 'voxyard[judges]'"
            )
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # the model is small
        self._session: Any = onnxruntime.InferenceSession(
            str(Path(found.origin).parent / "dnsmos_models" / "model_v8.onnx"),
            options,
            providers=["CPUExecutionProvider"],
        )

    def score(self, samples: NDArray[np.float32], rate: int) -> float:
        """Mean opinion score of a sound (n,), the mean of its segments; nan for an empty one."""
        if len(samples) == 0:
            return float("nan")
        import soxr

        sound = samples if rate == RATE else soxr.resample(samples, rate, RATE)
        inputs = [log_mel(segment[:-UNHEARD])[None] for segment in segments(sound)]
        return float(np.mean([self._session.run(None, {"input_1": each})[0][0, 0] for each in inputs]))


def segments(samples: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Segments that begin a second apart, of a sound that is doubled until it fills one.

    In speechmos' own arithmetic, which leaves out those that rounding makes a sample too short.
    """
    size = int(SECONDS * RATE)
    while len(samples) < size:
        samples = np.concatenate([samples, samples])
    starts = range(int(len(samples) // RATE - SECONDS) + 1)
    cut = [samples[start * RATE : int((start + SECONDS) * RATE)] for start in starts]
    return [segment for segment in cut if len(segment) == size]


def log_mel(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Spectrogram (frames, 120) that the model takes: decibels below the loudest, at most 80, as (dB + 40) / 40.

    The mel power spectrogram of librosa, whose defaults it follows: frames centred, zeros beyond the edges, Hann
    window, Slaney's mels up to half the rate.
    """
    padded = np.pad(samples.astype(np.float64), WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    power = np.abs(np.fft.rfft(frames * window)) ** 2 @ _filters().T
    decibels = 10 * np.log10(np.maximum(power, 1e-10) / max(float(power.max()), 1e-10))
    return np.asarray((np.maximum(decibels, -80) + 40) / 40, np.float32)


def _filters() -> NDArray[np.float64]:
    """Slaney's triangular filters (mels, bins)."""
    top = _BREAK_MEL + np.log(RATE / 2 / _BREAK_HZ) / _LOG_STEP
    mels = np.linspace(0, top, MELS + 2)
    points = np.where(mels < _BREAK_MEL, mels * _LINEAR_HZ, _BREAK_HZ * np.exp(_LOG_STEP * (mels - _BREAK_MEL)))
    slopes = points[:, None] - np.fft.rfftfreq(WINDOW, 1 / RATE)[None]
    widths = np.diff(points)[:, None]
    triangles = np.minimum(-slopes[:-2] / widths[:-1], slopes[2:] / widths[1:])
    return np.asarray(np.maximum(0, triangles) * (2 / (points[2:] - points[:-2]))[:, None])
