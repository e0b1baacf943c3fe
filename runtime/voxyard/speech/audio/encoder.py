"""Streaming audio encoder: samples to bytes of a format, at a given speed, while later text is still being spoken."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from voxyard.speech.audio.codecs import (
    FORMATS,
    MEDIA_TYPES,
    NO_TAGS,
    STEP,
    Coder,
    EncodeError,
    Format,
    Tags,
    check,
    open_coder,
)
from voxyard.speech.audio.tempo import FASTEST, SLOWEST, Stretch, stretched_length
from voxyard.speech.audio.wav import pcm16
from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

__all__ = [
    "FASTEST",
    "FORMATS",
    "MEDIA_TYPES",
    "SLOWEST",
    "EncodeError",
    "Encoder",
    "Format",
    "pcm16",
]


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
            tags: of the file; WAV, PCM and AAC in ADTS have none.

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
                coder.write(pcm16(part if self._stretch is None else self._stretch.stretch(part)))
            return coder.take()

    def finish(self) -> bytes:
        """End the stream; returns the last bytes and closes the encoder.

        Raises:
            EncodeError: the stream has ended already, or is not as long as its WAV header announces.
        """
        with self._work() as coder:
            if self._stretch is not None:
                coder.write(pcm16(self._stretch.finish()))
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
