"""Recordings to 16-bit mono PCM at the rate of the model; lengths are known from the header alone."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.examples import CorpusError

HEADER_BYTES = 64  # some recorders count their header among the bytes of sound
STREAMED = 0x7FFFF000  # lengths from here on say that the writer could not go back and fill in the true one

SILENT = 33  # of 32768: a clip whose loudest sample is below −60 dB of full scale has nothing to learn from
LONGEST_SECONDS = 60.0
"""A longer clip is no sentence: every batch of its length bucket would be as long, and memory grows with the square."""


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a sound file."""

    frames: int  # samples of each channel
    sample_rate: int
    channels: int


def read_header(path: Path) -> Header:
    """Raises CorpusError for what is no sound file, or holds no sound."""
    import soundfile

    _check_file(path)
    _refuse_cut_wav(path)
    try:
        info = soundfile.info(str(path))
    except (soundfile.SoundFileError, OSError) as error:
        raise CorpusError(f"{path.name} is no sound file that can be read: {_reason(error)}") from error
    if info.frames <= 0 or info.samplerate <= 0:
        raise CorpusError(f"{path.name} holds no sound: {info.frames} samples")
    return Header(info.frames, info.samplerate, info.channels)


def resampled_length(frames: int, rate: int, wanted: int) -> int:
    """Samples of a recording of `frames` at `rate` once it is at `wanted`, rounded up."""
    return -(-frames * wanted // rate)


def read_pcm(path: Path, sample_rate: int) -> NDArray[np.int16]:
    """The recording as mono int16 (samples,) at `sample_rate`; its length is that of `resampled_length` of the header.

    Channels are averaged; other rates are resampled in high quality (soxr). Raises CorpusError, also where the file
    holds less than its header promises.
    """
    import soundfile

    header = read_header(path)
    try:
        sound, rate = soundfile.read(str(path), dtype="float32", always_2d=True)  # (frames, channels)
    except (soundfile.SoundFileError, OSError) as error:
        raise CorpusError(f"{path.name} cannot be decoded: {_reason(error)}") from error
    if len(sound) < header.frames:
        raise CorpusError(
            f"{path.name} is cut short: {len(sound)} samples of the {header.frames} that its header promises"
        )
    if not np.isfinite(sound).all():
        raise CorpusError(f"{path.name} holds samples that are no numbers")
    mono = sound.mean(axis=1)
    if rate != sample_rate:
        import soxr

        mono = soxr.resample(mono, rate, sample_rate, quality="HQ")
    wanted = resampled_length(header.frames, rate, sample_rate)
    exact = np.zeros(wanted, np.float32)
    exact[: min(wanted, len(mono))] = mono[:wanted]
    pcm: NDArray[np.int16] = np.clip(np.rint(exact * 32768.0), -32768, 32767).astype(np.int16)
    return pcm


def _check_file(path: Path) -> None:
    try:
        found = path.stat()
    except OSError as error:
        raise CorpusError(f"{path.name} is missing ({error.strerror})") from error
    if not stat.S_ISREG(found.st_mode):
        raise CorpusError(f"{path.name} is no file")
    if found.st_size == 0:
        raise CorpusError(f"{path.name} is empty")


def _refuse_cut_wav(path: Path) -> None:
    """Finds a WAV whose samples end before its header says: libsndfile reads it as a shorter one without an error."""
    try:
        with path.open("rb") as file:
            head = file.read(12)
            if head[:4] != b"RIFF" or head[8:] != b"WAVE":
                return
            promised = _seek_samples(file)
            found = path.stat().st_size - file.tell()
    except OSError as error:
        raise CorpusError(f"{path.name} cannot be read: {error.strerror}") from error
    if found + HEADER_BYTES < promised < STREAMED:
        raise CorpusError(f"{path.name} is cut short: {found} bytes of the {promised} that its header promises")


def _seek_samples(file: BinaryIO) -> int:
    """Goes to the samples of a WAV; how many bytes its header promises, 0 where it holds none."""
    while len(chunk := file.read(8)) == 8:
        size = int.from_bytes(chunk[4:], "little")
        if chunk[:4] == b"data":
            return size
        file.seek(size + size % 2, 1)
    return 0


def _reason(error: Exception) -> str:
    return str(error).rpartition(": ")[2].strip().rstrip(".") or type(error).__name__


def unlearnable(pcm: NDArray[np.int16], rate: int) -> str | None:
    """Reason why nothing can be learned from a sound that can be read."""
    seconds, loudest = len(pcm) / rate, int(np.abs(pcm.astype(np.int32)).max(initial=0))
    if loudest < SILENT:
        return f"its {seconds:.1f} s are silence, the loudest sample is {loudest} of 32768: record it again"
    if seconds > LONGEST_SECONDS:
        return f"{seconds:.0f} s are more than the {LONGEST_SECONDS:.0f} s of a long sentence: cut it into sentences"
    return None
