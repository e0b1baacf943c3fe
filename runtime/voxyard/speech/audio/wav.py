"""WAV, 16-bit mono: samples to bytes and back, headers for any length, known or not; silence in samples."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from voxyard.speech.requests import Audio

    Pcm = NDArray[np.int16]

WIDTH = 2  # bytes a sample
SHORT_HEADER = 44  # bytes; of files below 4 GiB or of unknown length
UNKNOWN = 0xFFFFFFFF  # a size that is not known yet, or is in another chunk of the file
_LONG_HEADER = 80
_LARGEST = UNKNOWN - (SHORT_HEADER - 8)  # bytes of audio for which the length of the file fits into 32 bits
_SCALE = 32767
_INFO = {"title": b"INAM", "artist": b"IART", "album": b"IPRD", "language": b"ILNG"}


def pcm16(audio: Audio) -> Pcm:
    """(n,) in [−1, 1] as 16 bit: 1 is 32767, values beyond are clipped, others rounded, ties to even."""
    import numpy as np

    pcm: Pcm = np.rint(np.clip(audio, -1, 1) * _SCALE).astype("<i2")
    return pcm


def to_bytes(audio: Audio) -> bytes:
    """Float samples (n,) as `pcm16`, little endian."""
    return pcm16(audio).tobytes()


def from_bytes(content: bytes) -> Audio:
    """Back to floats (n,); `to_bytes` gives the same bytes again."""
    import numpy as np

    return _floats(np.frombuffer(content, "<i2"))


def rounded(audio: Audio) -> Audio:
    """Float samples (n,) rounded to the values that `pcm16` can hold; rounding them again changes nothing."""
    return _floats(pcm16(audio))


def _floats(pcm: Pcm) -> Audio:
    import numpy as np

    return pcm.astype(np.float32) / np.float32(_SCALE)


def header(samples: int | None, sample_rate: int = SAMPLE_RATE, after: int = 0) -> bytes:
    """WAV header for so many samples: RIFF, or RF64 (EBU Tech 3306) from 4 GiB on, which is a day of audio.

    None: the number of samples is unknown, and so are the sizes in the header. `after` counts the bytes of `info`.
    """
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate, sample_rate * WIDTH, WIDTH, 8 * WIDTH)
    size = UNKNOWN if samples is None else samples * WIDTH
    if samples is None or is_short(samples):
        whole = min(UNKNOWN, SHORT_HEADER - 8 + size + after)
        return struct.pack("<4sI4s", b"RIFF", whole, b"WAVE") + form + struct.pack("<4sI", b"data", size)
    sizes = struct.pack("<4sIQQQI", b"ds64", 28, _LONG_HEADER - 8 + size, size, samples, 0)
    return struct.pack("<4sI4s", b"RF64", UNKNOWN, b"WAVE") + sizes + form + struct.pack("<4sI", b"data", UNKNOWN)


def is_short(samples: int) -> bool:
    """True where the length of so many samples fits into 32 bits."""
    return samples * WIDTH <= _LARGEST


def short_header(samples: int, sample_rate: int = SAMPLE_RATE, after: int = 0) -> bytes:
    """Header of 44 bytes: with the true length where it fits into 32 bits, else unknown."""
    return header(samples if is_short(samples) else None, sample_rate, after)


def info(tags: Mapping[str, str]) -> bytes:
    """The chunk LIST INFO of tags by FFmpeg's names, which follows the samples; b"" without any."""
    parts = b""
    for name, value in tags.items():
        text = value.encode() + b"\0"
        parts += struct.pack("<4sI", _INFO[name], len(text)) + text + bytes(len(text) % 2)
    return struct.pack("<4sI4s", b"LIST", 4 + len(parts), b"INFO") + parts if parts else b""


def file_size(samples: int) -> int:
    """Bytes of the whole file."""
    return len(header(samples)) + samples * WIDTH


def data_start(magic: bytes) -> int:
    """Offset of the samples in a file written by this module, from its first four bytes."""
    return _LONG_HEADER if magic == b"RF64" else SHORT_HEADER


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
