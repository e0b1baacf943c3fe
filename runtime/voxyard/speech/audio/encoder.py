"""Streaming audio encoder: samples to bytes of a format, through FFmpeg or as plain PCM, at a given speed."""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self, get_args

from voxyard.speech.audio import wav
from voxyard.speech.audio.tempo import FASTEST, SLOWEST, Stretch, stretched_length
from voxyard.speech.errors import SpeechError
from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from voxyard.speech.audio.wav import Pcm
    from voxyard.speech.requests import Audio


_CODES = "alb arm baq bur chi cze dut fre geo ger gre ice mac mao may per rum slo tib wel"
_BIBLIOGRAPHIC = frozenset(_CODES.split())
"""Codes of libraries: files have the other one of such a language (ISO/IEC 14496-12)."""


def three_letters(language: str | None) -> str | None:
    """Code of a language in audio files (ISO 639-2): `en-GB` → `eng`; None for what has none, or is no language."""
    from babel.core import get_global

    code = (language or "").replace("_", "-").partition("-")[0].strip().lower()
    aliases: Mapping[str, str] = get_global("language_aliases")
    short = aliases.get(code, code)
    found = [
        each for each, of in aliases.items() if (of, len(each)) == (short, 3) and each not in _BIBLIOGRAPHIC
    ]  # single languages of a group stand before its own code
    alike = [each for each in found if each.startswith(short)] or found
    return alike[-1] if alike else (code if len(code) == 3 and code.isalpha() and code != "und" else None)


@dataclass(frozen=True)
class Tags:
    """Tags of a file; what is None is left out. `artist` is a book's author, `album` the book of a chapter.

    `language` is the one that is spoken, as BCP 47 has it.
    """

    title: str | None = None
    artist: str | None = None
    album: str | None = None
    language: str | None = None

    def metadata(self) -> dict[str, str]:
        """FFmpeg's names of those that there are; the language in three letters."""
        found = {**vars(self), "language": three_letters(self.language)}
        return {name: value for name, value in found.items() if value}


NO_TAGS = Tags()


@contextlib.contextmanager
def on_one_cpu() -> Iterator[None]:
    """Lets the calling thread run on one of its CPUs only, for the block.

    FFmpeg counts the CPUs that the calling thread may use when a graph is configured, and starts one more thread than
    that, unless it is one. PyAV configures the graph at an encoder's first frame and offers no setting for it.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


Format = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
FORMATS: tuple[Format, ...] = get_args(Format)
MEDIA_TYPES: Mapping[Format, str] = MappingProxyType(
    {
        "mp3": "audio/mpeg",
        "opus": "audio/ogg",
        "aac": "audio/aac",
        "flac": "audio/flac",
        "wav": "audio/wav",
        "pcm": "audio/pcm",
    }
)
_HEAD = 4096  # bytes at the beginning of a file that a container may rewrite when it is closed
STEP = 1 << 16  # samples that are encoded at a time, so that long audio is not copied as a whole


class EncodeError(SpeechError):
    """Audio cannot be encoded or written."""


class UnfinishedError(EncodeError):
    """A file that was begun cannot be written to its end."""

    exit_code = 1


class DiskFullError(UnfinishedError):
    """The disk is full."""


@dataclass(frozen=True)
class _Codec:
    """FFmpeg settings of a format: the encoder, the container around it, and their options."""

    encoder: str
    container: str
    sample_format: str
    bit_rate: int | None  # bit/s; None where nothing is lost
    options: Mapping[str, str]
    tag_options: Mapping[str, str] = field(default_factory=dict)  # where the file has tags


_CODECS: Mapping[Format, _Codec] = {
    # Without tags of its own, an MP3's ID3 tag would contain only the name of the encoder. Version 3: all players.
    "mp3": _Codec("libmp3lame", "mp3", "s16p", 96_000, {"id3v2_version": "0"}, {"id3v2_version": "3"}),
    # An Ogg page is sent when it is full, by default after a second: too late for streaming.
    "opus": _Codec("libopus", "ogg", "s16", 48_000, {"page_duration": "100000"}),
    "aac": _Codec("aac", "adts", "fltp", 96_000, {}),
    # By default 8 KiB are reserved for tags, which a stream does not need.
    "flac": _Codec("flac", "flac", "s16", None, {"metadata_header_padding": "0"}),
}


def check(audio: Audio) -> None:
    """Check an array of samples.

    Raises:
        EncodeError: it is not one channel of float samples, or some are not finite.
    """
    import numpy as np

    if audio.ndim != 1 or audio.dtype.kind != "f":
        raise EncodeError(f"the audio is {audio.dtype} {audio.shape}, expected one channel of float samples, (n,)")
    if bad := int(np.count_nonzero(~np.isfinite(audio))):
        raise EncodeError(
            f"{bad} of {len(audio)} samples are NaN or infinite, expected all in [-1, 1]: check the engine"
        )


class Coder(Protocol):
    """Encoder of 16-bit samples into the bytes of a file."""

    head: bytes  # after `finish`: to be written over the beginning of the file; b"" where nothing changes

    def write(self, pcm: Pcm) -> None:
        """Take (n,) samples."""

    def finish(self) -> None:
        """End the audio."""

    def take(self) -> bytes:
        """Encoded bytes that were not taken yet."""

    def discard(self) -> None:
        """Free everything; the end of the file is not written."""


def open_coder(
    format: Format,
    sample_rate: int,
    *,
    samples: int | None = None,
    amend: bool = False,
    tags: Tags = NO_TAGS,
) -> Coder:
    """Encoder for `format`; with `amend` its `head` is set at the end. Containers that have none leave out `tags`.

    Raises:
        EncodeError: the format is unknown, or cannot have this sample rate.
    """
    if format not in FORMATS:
        raise EncodeError(f"the format is {format!r}, expected one of {', '.join(FORMATS)}")
    if sample_rate not in range(1, wav.UNKNOWN // 2):
        raise EncodeError(f"the sample rate is {sample_rate}, expected a number of samples a second")
    if format in ("wav", "pcm"):
        return _Plain(sample_rate, header=format == "wav", samples=samples, amend=amend, tags=tags)
    return _Coded(sample_rate, format, amend=amend, tags=tags)


class _Plain:
    """Plain PCM samples, with or without a WAV header."""

    def __init__(self, sample_rate: int, *, header: bool, samples: int | None, amend: bool, tags: Tags) -> None:
        self._sample_rate, self._written = sample_rate, 0
        self._promised = samples if header else None
        self._amend, self._tags = header and amend, tags
        self._out = bytearray(wav.header(samples, sample_rate) if header else b"")
        self.head = b""

    def write(self, pcm: Pcm) -> None:
        self._out += pcm.tobytes()
        self._written += len(pcm)

    def finish(self) -> None:
        if self._promised not in (None, self._written):
            raise EncodeError(f"the WAV header announces {self._promised} samples, {self._written} were written")
        if self._amend:
            info = wav.info(self._tags.metadata()) if wav.is_short(self._written) else b""
            self._out += info
            self.head = wav.short_header(self._written, self._sample_rate, len(info))

    def take(self) -> bytes:
        ready, self._out = self._out, bytearray()
        return bytes(ready)

    def discard(self) -> None:
        self._out = bytearray()


class _Coded:
    """Samples through an encoder and a container of FFmpeg.

    FFmpeg writes into memory and never into a file: it calls back into Python for that, and a Ctrl-C during the
    callback would be lost. io.BytesIO does not check for signals.
    """

    def __init__(self, sample_rate: int, format: Format, *, amend: bool, tags: Tags) -> None:
        import av
        from av.audio.stream import AudioStream

        codec = _CODECS[format]
        rates = av.Codec(codec.encoder, "w").audio_rates
        if rates is not None and sample_rate not in rates:
            known = ", ".join(map(str, sorted(rates)))
            raise EncodeError(f"{format} cannot have {sample_rate} samples a second, expected one of {known}")
        self._out, self._first, self._amend, self.head = io.BytesIO(), b"", amend, b""
        sink = (
            self._out if amend else SimpleNamespace(write=self._out.write)
        )  # without `seek` the beginning is not rewritten
        metadata = tags.metadata()
        options = {"fflags": "+bitexact+flush_packets", **codec.options}  # bitexact: no random serial, no versions
        options |= codec.tag_options if metadata else {}
        self._container = av.open(sink, "w", format=codec.container, container_options=options)
        self._container.metadata.update(metadata)
        stream = self._container.add_stream(codec.encoder, rate=sample_rate, options={"flags": "+bitexact"})
        if not isinstance(stream, AudioStream):
            raise EncodeError(f"{codec.encoder} of this FFmpeg is not an audio encoder")
        stream.layout, stream.format = "mono", codec.sample_format
        if codec.bit_rate is not None:
            stream.bit_rate = codec.bit_rate
        self._stream, self._sample_rate, self._written = stream, sample_rate, 0
        self._needs_a_frame = codec.bit_rate is not None  # players refuse a lossy file without any
        self._container.start_encoding()

    def write(self, pcm: Pcm) -> None:
        if not self._written and len(pcm):
            with on_one_cpu():
                self._write_frame(pcm[:1])
            pcm = pcm[1:]
        for start in range(0, len(pcm), STEP):
            self._write_frame(pcm[start : start + STEP])

    def _write_frame(self, pcm: Pcm) -> None:
        from av.audio.frame import AudioFrame

        frame = AudioFrame.from_ndarray(pcm[None, :], format="s16", layout="mono")
        frame.sample_rate, frame.pts = self._sample_rate, self._written
        self._written += frame.samples
        self._container.mux(self._stream.encode(frame))

    def finish(self) -> None:
        import numpy as np

        if not self._written and self._needs_a_frame:
            self.write(np.zeros(1, np.int16))
        self._container.mux(self._stream.encode(None))
        rest = self.take()
        self._out.write(self._first)  # the container seeks to its beginning and rewrites it
        self._container.close()
        content = self._out.getvalue()
        if self._amend:
            self.head = content[: len(self._first)]
        self._out = io.BytesIO()
        self._out.write(rest + content[len(self._first) :])

    def take(self) -> bytes:
        ready = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        if self._amend:
            self._first += ready[: _HEAD - len(self._first)]
        return ready

    def discard(self) -> None:
        self._container.close()


class Encoder:
    """Encodes a mono audio stream into the bytes of a file; a context manager. Equal calls give equal bytes.

    Its methods block; call them from one thread at a time.
    """

    def __init__(
        self,
        format: Format,
        sample_rate: int = SAMPLE_RATE,
        *,
        speed: float = 1.0,
        samples: int | None = None,
        amend: bool = False,
        tags: Tags = NO_TAGS,
    ) -> None:
        """Begin a stream.

        Args:
            format: one of FORMATS; `pcm` is 16 bit, little-endian, `opus` is in Ogg, `aac` in ADTS.
            sample_rate: Hz, of input and output.
            speed: 0.25 (slow) to 4 (fast), at the same pitch; the length is divided by it, to the sample.
            samples: total number of input samples where it is known: a WAV header then has the true length.
            amend: the caller will overwrite the beginning of the file with `head`, which has the true length.
            tags: of the file; PCM and AAC in ADTS have none, and WAV only with `amend`: they follow its sound.

        Raises:
            EncodeError: no such format or speed, or the format cannot have this sample rate.
        """
        if not (math.isfinite(speed) and SLOWEST <= speed <= FASTEST):
            raise EncodeError(f"the speed is {speed}, expected {SLOWEST} (slow) to {FASTEST} (fast)")
        if samples is not None and speed != 1:
            samples = stretched_length(samples, speed)
        self._coder: Coder | None = open_coder(format, sample_rate, samples=samples, amend=amend, tags=tags)
        self._stretch = Stretch(speed, sample_rate) if speed != 1 else None
        self.head = b""  # with `amend`, after `finish`: the final first bytes of the file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def encode(self, audio: Audio) -> bytes:
        """Encode `audio`, (n,) in [−1, 1]; returns the bytes that are ready, which may be none.

        Raises:
            EncodeError: the audio is invalid, and the stream is unchanged; or the stream has ended.
        """
        check(audio)
        with self._work() as coder:
            for start in range(0, len(audio), STEP):
                part = audio[start : start + STEP]
                coder.write(wav.pcm16(part if self._stretch is None else self._stretch.stretch(part)))
            return coder.take()

    def finish(self) -> bytes:
        """End the stream; returns the last bytes and closes the encoder.

        Raises:
            EncodeError: the stream has ended already, or is not as long as its WAV header announces.
        """
        with self._work() as coder:
            if self._stretch is not None:
                coder.write(wav.pcm16(self._stretch.finish()))
            coder.finish()
            last, self.head = coder.take(), coder.head
        self.close()
        return last

    def close(self) -> None:
        """Free everything, finished or not; idempotent."""
        coder, self._coder, self._stretch = self._coder, None, None
        if coder is not None:
            coder.discard()

    @contextlib.contextmanager
    def _work(self) -> Iterator[Coder]:
        import av

        if self._coder is None:
            raise EncodeError("the stream has ended or was closed: create another Encoder")
        try:
            yield self._coder
        except EncodeError:
            self.close()
            raise
        except av.FFmpegError as error:
            self.close()
            raise EncodeError(f"FFmpeg could not encode the audio: {error}") from error
