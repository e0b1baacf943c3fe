"""Recordings to 16-bit mono PCM at the rate of the model; lengths are known from the header alone."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus.examples import CorpusError
from voxyard.corpus.mp3 import mp3_samples

HEADER_BYTES = 64  # some recorders count their header among the bytes of sound
STREAMED = 2_000_000_000  # lengths from here on say that the writer could not go back and fill in the true one
UNKNOWN = 2**62  # frames; libsndfile has the largest number for a FLAC that was written into a pipe
MP3_SPARE = 2 * 1152  # samples of two frames: of a tag and of an encoder's delay
MP3_MORE = 5 * 1152  # samples that frames may hold beyond the sound: the tag's own, an encoder's delay and padding
_PAGE, _LONGEST_PAGE = b"OggS", 27 + 255 + 255 * 255  # of Ogg, and bytes at most
TOO_LOUD = 4.0  # times full scale, of floating point: what is louder is not a little too loud, its scale is another

CONVERT = "convert it to WAV, FLAC, MP3 or OGG, such as by ffmpeg -i FILE NEW.wav"
_WAV: Mapping[bytes, Literal["little", "big"]] = {b"RIFF": "little", b"RF64": "little", b"RIFX": "big"}
_MARKS = (  # (offset, bytes, what they say)
    (4, b"ftyp", f"it is MP4 (M4A): {CONVERT}"),
    (0, b"\x1aE\xdf\xa3", f"it is WebM or Matroska: {CONVERT}"),
    (0, b"0&\xb2u", f"it is Windows Media: {CONVERT}"),
    (0, b"\xff\xf1", f"it is AAC: {CONVERT}"),
    (0, b"\xff\xf9", f"it is AAC: {CONVERT}"),
    (0, b"#!AMR", f"it is AMR: {CONVERT}"),
    (0, b"BW64", f"it is BW64: {CONVERT}"),
    (0, b"wvpk", f"it is WavPack: {CONVERT}"),
    (0, b"MAC ", f"it is Monkey's Audio: {CONVERT}"),
    (0, b"/annex/objects/", "it only points to a file of git-annex: run git annex get"),
    (0, b"version https://git-lfs", "it only points to a file of Git LFS: run git lfs pull"),
    (0, b"\0\x05\x16\x07", "it holds what macOS notes about a file, and no sound: remove it"),
    (0, b"<", "it is a page of HTML or XML, as of a download that failed: fetch it again"),
    (0, b"PK\x03\x04", "it is an archive: unpack it"),
    (0, b"\x1f\x8b", "it is an archive: unpack it"),
)

SILENT = 33  # of 32768: a clip whose loudest sample is below −60 dB of full scale has nothing to learn from
LONGEST_SECONDS = 60.0
"""A longer clip is no sentence: every batch of its length bucket would be as long, and memory grows with the square."""


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a sound file."""

    frames: int  # samples of each channel
    sample_rate: int
    channels: int
    spare: int = 0  # of the frames that may be missing at the end: MP3 without a length is measured by its bytes


def read_header(path: Path) -> Header:
    """Raises CorpusError for what is no sound file, or holds no sound."""
    import soundfile

    _check_file(path)
    _refuse_cut_wav(path)
    _refuse_cut_ogg(path)
    try:
        info = soundfile.info(str(path))
    except (soundfile.SoundFileError, OSError) as error:
        raise CorpusError(f"{path.name} is no sound file that can be read: {_what_it_is(path, error)}") from error
    if info.frames <= 0 or info.samplerate <= 0:
        raise CorpusError(f"{path.name} holds no sound: {info.frames} samples")
    if info.frames >= UNKNOWN:
        raise CorpusError(f"{path.name} does not say how long it is, as what was written into a pipe: {CONVERT}")
    return Header(info.frames, info.samplerate, info.channels, MP3_SPARE if info.format == "MP3" else 0)


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
    if len(sound) + header.spare < header.frames:
        raise CorpusError(
            f"{path.name} is cut short: {len(sound)} samples of the {header.frames} that its header promises"
        )
    if header.spare and (whole := mp3_samples(path.read_bytes())) > header.frames + MP3_MORE:
        raise CorpusError(
            f"{path.name} is longer than its header says, {whole} samples and not {header.frames}: write it again, "
            "such as by ffmpeg -i FILE NEW.mp3"
        )
    if not np.isfinite(sound).all():
        raise CorpusError(f"{path.name} holds samples that are no numbers")
    if (peak := float(np.abs(sound).max(initial=0))) > TOO_LOUD:
        raise CorpusError(f"{path.name} reaches {peak:.5g} times full scale: write its samples from -1 to 1")
    mono = sound.mean(axis=1)
    if 32768 * _span(mono) < SILENT < 32768 * _span(sound) / 4:
        raise CorpusError(f"{path.name} is silent as mono, its channels cancel each other: keep one of them")
    if rate != sample_rate:
        import soxr

        mono = soxr.resample(mono, rate, sample_rate, quality="HQ")
    wanted = resampled_length(header.frames, rate, sample_rate)
    exact = np.zeros(wanted, np.float32)
    exact[: min(wanted, len(mono))] = mono[:wanted]
    pcm: NDArray[np.int16] = np.clip(np.rint(exact * 32768.0), -32768, 32767).astype(np.int16)
    return pcm


def _span(sound: NDArray[Any]) -> float:
    """Half the distance between the lowest and the highest sample of the channel with the most of it."""
    return float(np.max(np.ptp(sound, axis=0))) / 2 if len(sound) else 0.0


def _check_file(path: Path) -> None:
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise CorpusError(f"{path.name} is missing ({_missing(path)})") from error
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
            if head[:4] not in _WAV or head[8:] != b"WAVE":
                return
            promised = _seek_samples(file, _WAV[head[:4]])
            found = path.stat().st_size - file.tell()
            more = promised and found > 1.1 * promised + HEADER_BYTES and _is_sound_after(file, promised)
    except OSError as error:
        raise CorpusError(f"{path.name} cannot be read: {error.strerror}") from error
    if promised == 0 and found > HEADER_BYTES:
        raise CorpusError(
            f"{path.name} holds {found} bytes after a header that promises none, as one that a recorder could not "
            f"finish: write it again, such as by sox --ignore-length {path.name} NEW.wav"
        )
    if more:
        raise CorpusError(
            f"{path.name} holds {found} bytes of sound after a header that promises {promised}: write it again, such "
            f"as by sox --ignore-length {path.name} NEW.wav"
        )
    if promised is not None and found + HEADER_BYTES < promised and not (promised >= STREAMED and head[:4] == b"RIFF"):
        raise CorpusError(f"{path.name} is cut short: {found} bytes of the {promised} that its header promises")


def _missing(path: Path) -> str:
    if path.is_symlink():
        return f"it is a link to {path.readlink()}, which is not there"
    if path.parent.is_dir():
        return f"there is no such file in {path.parent}"
    return f"there is no folder {path.parent}"


def _seek_samples(file: BinaryIO, order: Literal["little", "big"]) -> int | None:
    """Goes to the samples of a WAV; how many bytes its header promises, None where it does not say."""
    long = None  # RF64 has it where 32 bits are not enough
    while len(chunk := file.read(8)) == 8:
        size = int.from_bytes(chunk[4:], order)
        if chunk[:4] == b"data":
            return size if long is None or size != 0xFFFFFFFF else long
        begin = file.tell()
        if chunk[:4] == b"ds64":
            long = int.from_bytes(file.read(16)[8:], order)
        file.seek(begin + size + size % 2)
    return None


def _is_sound_after(file: BinaryIO, promised: int) -> bool:
    """Whether what follows the samples is neither a chunk, nor a tag, nor zeros, so that it must be more of them."""
    file.seek(promised + promised % 2, os.SEEK_CUR)
    head = file.read(64)
    return bool(head.strip(b"\0")) and not re.match(rb"[\w ]{4}|ID3|TAG|APETAGEX|LYRICS", head)


def _refuse_cut_ogg(path: Path) -> None:
    """Finds an Ogg whose last page ends beyond the file: libsndfile reads it as a shorter one without an error."""
    try:
        with path.open("rb") as file:
            if file.read(4) != _PAGE:
                return
            size = file.seek(0, os.SEEK_END)
            begin = file.seek(max(0, size - _LONGEST_PAGE))
            tail = file.read()
    except OSError as error:
        raise CorpusError(f"{path.name} cannot be read: {error.strerror}") from error
    page = tail.rfind(_PAGE + b"\0")
    parts = tail[page + 27 : page + 27 + tail[page + 26]] if 0 <= page < len(tail) - 26 else b""
    missing = page + 27 + len(parts) + sum(parts) - len(tail)
    if page >= 0 and missing > 0:
        raise CorpusError(f"{path.name} is cut short: the page at byte {begin + page} lacks {missing} bytes at its end")


def _what_it_is(path: Path, error: Exception) -> str:
    """What a file is that libsndfile does not read, and what to do."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError:
        head = b""
    for offset, mark, what in _MARKS:
        if head[offset:].startswith(mark):
            return what
    if not head.strip(b"\0"):
        return "it begins with zeros only: copy it again"
    return f"{_reason(error)}; {CONVERT}"


def _reason(error: Exception) -> str:
    return str(error).rpartition(": ")[2].strip().rstrip(".") or type(error).__name__


def unlearnable(pcm: NDArray[np.int16], rate: int) -> str | None:
    """Reason why nothing can be learned from a sound that can be read."""
    seconds, loudest = len(pcm) / rate, int(np.abs(pcm.astype(np.int32)).max(initial=0))
    if loudest >= SILENT > np.ptp(pcm.astype(np.int32)) / 2:
        return f"its {seconds:.1f} s are silence, all samples are about {pcm[0]} of 32768: record it again"
    if loudest < SILENT:
        return f"its {seconds:.1f} s are silence, the loudest sample is {loudest} of 32768: record it again"
    return too_long(seconds)


def too_long(seconds: float) -> str | None:
    """Reason why a recording of that length is not learned from; its header says it before it is decoded."""
    if seconds > LONGEST_SECONDS:
        return f"{seconds:.0f} s are more than the {LONGEST_SECONDS:.0f} s of a long sentence: cut it into sentences"
    return None
