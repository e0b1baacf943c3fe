"""WAV files of 16 bit mono: samples to bytes and back, and a header for any length."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

WIDTH = 2  # bytes a sample
_SCALE = 32767
_LARGEST = 0xFFFFFFFF - 36  # bytes of sound whose file's length fits into 32 bits
_UNKNOWN = 0xFFFFFFFF


def to_bytes(audio: Audio) -> bytes:
    """Float samples (n,) as 16 bit little endian; what lies beyond [−1, 1] is clipped."""
    import numpy as np

    return np.rint(np.clip(audio, -1.0, 1.0) * _SCALE).astype("<i2").tobytes()


def from_bytes(content: bytes) -> Audio:
    """Back to floats (n,); `to_bytes` gives the same bytes again."""
    import numpy as np

    return np.frombuffer(content, "<i2").astype(np.float32) / np.float32(_SCALE)


def header(samples: int) -> bytes:
    """The header for so many samples: RIFF, or RF64 (EBU Tech 3306) from 4 GiB on, which is a day of sound."""
    size = samples * WIDTH
    rate = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, SAMPLE_RATE, SAMPLE_RATE * WIDTH, WIDTH, 8 * WIDTH)
    if size <= _LARGEST:
        return struct.pack("<4sI4s", b"RIFF", 36 + size, b"WAVE") + rate + struct.pack("<4sI", b"data", size)
    sizes = struct.pack("<4sIQQQI", b"ds64", 28, 72 + size, size, samples, 0)
    return struct.pack("<4sI4s", b"RF64", _UNKNOWN, b"WAVE") + sizes + rate + struct.pack("<4sI", b"data", _UNKNOWN)


def file_size(samples: int) -> int:
    """Bytes of the whole file."""
    return len(header(samples)) + samples * WIDTH


def data_start(magic: bytes) -> int:
    """Where the samples begin in a file of ours with these first four bytes."""
    return 80 if magic == b"RF64" else 44
