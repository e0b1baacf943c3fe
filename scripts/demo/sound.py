"""Sounds of the demo: WAV files to mel spectrograms, their pictures, and the distance of two readings."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voxyard.trainer.config import ModelConfig
from voxyard.trainer.model.griffin_lim import analysis, spectrogram_image, wav_of
from voxyard.trainer.model.mel import FLOOR, mel_basis

LONGEST_SECONDS = 12.0  # of a sound on the page

Mel = NDArray[np.float64]


@dataclass(frozen=True)
class Sound:
    """A mono recording: samples (n,) between −1 and 1."""

    samples: NDArray[np.float64]
    sample_rate: int

    @property
    def seconds(self) -> float:
        """Length."""
        return len(self.samples) / self.sample_rate

    def mel(self) -> Mel:
        """Log-mel spectrogram (frames, mels), as the trainer's features compute it."""
        config = ModelConfig(sample_rate=self.sample_rate, mel_high_hz=min(8000.0, self.sample_rate / 2))
        hop = config.hop_length
        count = max(1, len(self.samples) // hop)
        whole = np.pad(self.samples[: count * hop], (0, max(0, hop - len(self.samples))))
        magnitudes = np.abs(analysis(whole, config)[:count])  # (frames, bins)
        return np.log(np.maximum(magnitudes @ mel_basis(config).T, FLOOR))

    def wav(self) -> bytes:
        """A 16-bit WAV file."""
        return wav_of(self.samples, self.sample_rate)

    def data_url(self) -> str:
        """The WAV file as a URL that holds it."""
        return f"data:audio/wav;base64,{base64.b64encode(self.wav()).decode()}"


def read(path: Path) -> Sound:
    """A sound file, its channels mixed, at most LONGEST_SECONDS of it."""
    import soundfile

    with soundfile.SoundFile(path) as file:
        rate = int(file.samplerate)
        samples = file.read(int(LONGEST_SECONDS * rate), dtype="float64", always_2d=True)  # (n, channels)
    return Sound(np.asarray(samples.mean(1)), rate)


def picture(mel: Mel) -> str:
    """A log-mel (frames, mels) as the URL of a PNG: low bands below, silence dark."""
    return f"data:image/png;base64,{base64.b64encode(png(spectrogram_image(mel))).decode()}"


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Pixels (height, width, 3) as a PNG file (ISO/IEC 15948): 8 bits a channel, no filter."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * 3)], 1)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def distance(one: Mel, other: Mel) -> float:
    """Mean absolute difference of two log-mels (frames, mels), in nepers, along the time alignment that is closest.

    Dynamic time warping: H. Sakoe and S. Chiba, IEEE Trans. ASSP-26 (1978), without a slope constraint.
    """
    cost = np.abs(one[:, None] - other[None]).mean(-1)  # (frames, other frames)
    total = np.full((len(one) + 1, len(other) + 1), np.inf)
    steps = np.zeros(total.shape, int)
    total[0, 0] = 0.0
    for i in range(len(one)):
        for j in range(len(other)):
            before = min(((i, j), (i, j + 1), (i + 1, j)), key=lambda place: total[place])
            total[i + 1, j + 1] = total[before] + cost[i, j]
            steps[i + 1, j + 1] = steps[before] + 1
    return float(total[-1, -1] / steps[-1, -1])
