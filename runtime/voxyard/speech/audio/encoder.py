"""Streaming audio encoder: samples to bytes of a format, at a given speed, while the text is still being spoken."""

from __future__ import annotations

import contextlib
import errno
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from voxyard.speech.audio import wav
from voxyard.speech.audio.codecs import (
    FORMATS,
    MEDIA_TYPES,
    STEP,
    Coder,
    DiskFullError,
    EncodeError,
    Format,
    check,
    open_coder,
)
from voxyard.speech.audio.signal_safe_thread import Uninterrupted
from voxyard.speech.audio.tempo import FASTEST, SLOWEST, Stretch, stretched_length
from voxyard.speech.audio.wav import pcm16
from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from voxyard.speech.audio.codecs import Audio

__all__ = [
    "FASTEST",
    "FORMATS",
    "MEDIA_TYPES",
    "SLOWEST",
    "SUFFIXES",
    "EncodeError",
    "Encoder",
    "Format",
    "SoundFile",
    "format_of",
    "open_sound",
    "pcm16",
]

SUFFIXES: dict[str, Format] = {
    ".wav": "wav",
    ".mp3": "mp3",
    ".opus": "opus",
    ".ogg": "opus",
    ".flac": "flac",
    ".aac": "aac",
    ".pcm": "pcm",
}


class Encoder:
    """One mono sound into the bytes of a file, as it comes; a context manager. The same calls give the same bytes.

    Its methods block and are called from one thread at a time.
    """

    def __init__(
        self,
        format: Format,
        sample_rate: int = SAMPLE_RATE,
        *,
        speed: float = 1.0,
        samples: int | None = None,
        amend: bool = False,
    ) -> None:
        """Begin a sound.

        Args:
            format: one of FORMATS; `pcm` is 16 bit, little-endian, `opus` is in Ogg, `aac` in ADTS.
            sample_rate: Hz, of what comes and of what goes.
            speed: 0.25 (slow) to 4 (fast), at the same pitch; the length is divided by it, to the sample.
            samples: how many will come in all, where that is known: a WAV's header then has the true length.
            amend: the bytes go into a file whose beginning will be written anew with `head`, so that it has the length.

        Raises:
            EncodeError: no such format or speed, or the format cannot have this sample rate.
        """
        if not (math.isfinite(speed) and SLOWEST <= speed <= FASTEST):
            raise EncodeError(f"the speed is {speed}, expected {SLOWEST} (slow) to {FASTEST} (fast)")
        if samples is not None and speed != 1:
            samples = stretched_length(samples, speed)
        self._coder: Coder | None = open_coder(format, sample_rate, samples=samples, amend=amend)
        self._stretch = Stretch(speed, sample_rate) if speed != 1 else None
        self.head = b""  # with `amend`, once it has finished: the first bytes of the file as they should be

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def encode(self, audio: Audio) -> bytes:
        """The bytes that are ready when `audio`, (n,) in [−1, 1], has come; there may be none.

        Raises:
            EncodeError: the audio is not what it should be, and the sound stays as it was; or the sound has ended.
        """
        check(audio)
        with self._work() as coder:
            for start in range(0, len(audio), STEP):
                part = audio[start : start + STEP]
                coder.write(pcm16(part if self._stretch is None else self._stretch.stretch(part)))
            return coder.take()

    def finish(self) -> bytes:
        """The last bytes; the encoder is closed then.

        Raises:
            EncodeError: the sound has ended already, or is not as long as the header of the WAV promises.
        """
        with self._work() as coder:
            if self._stretch is not None:
                coder.write(pcm16(self._stretch.finish()))
            coder.finish()
            last, self.head = coder.take(), coder.head
        self.close()
        return last

    def close(self) -> None:
        """Free everything, finished or not; a second time does nothing."""
        coder, self._coder, self._stretch = self._coder, None, None
        if coder is not None:
            coder.discard()

    @contextlib.contextmanager
    def _work(self) -> Iterator[Coder]:
        import av

        if self._coder is None:
            raise EncodeError("the sound has ended or was closed: begin another Encoder")
        try:
            yield self._coder
        except EncodeError:
            self.close()
            raise
        except av.FFmpegError as error:
            self.close()
            raise EncodeError(f"FFmpeg could not encode the sound: {error}") from error


def format_of(path: Path) -> Format:
    """The format that a file's suffix names.

    Raises:
        EncodeError: it names none.
    """
    try:
        return SUFFIXES[path.suffix.lower()]
    except KeyError:
        known = ", ".join(SUFFIXES)
        raise EncodeError(f"{path} ends in {path.suffix or 'no suffix'!r}, expected one of {known}") from None


def open_sound(path: Path, sample_rate: int = SAMPLE_RATE) -> SoundFile:
    """A file for a sound of `sample_rate` Hz, in the format of its suffix.

    Raises:
        EncodeError: the suffix is unknown, or there can be no such file.
    """
    return SoundFile(path, format_of(path), sample_rate)


class SoundFile:
    """A sound that becomes the file `path` at once when it is whole, and until then is `partial`, next to it.

    A context manager: it commits, or abandons where there was an exception. The work is done in a thread of its own,
    which no Ctrl-C interrupts: a step that was begun is carried out, and `abandon` waits for it.
    """

    def __init__(self, path: Path, format: Format, sample_rate: int = SAMPLE_RATE) -> None:
        """Begin the file.

        Raises:
            EncodeError: it cannot be written, or the format cannot have this sample rate.
        """
        if path.is_dir():
            raise EncodeError(f"{path} is a folder, expected the name of a file")
        self.path, self.format, self.sample_rate = path, format, sample_rate
        self.partial = self._kept = path.with_name(f"{path.stem}.part{path.suffix}")
        self.samples = 0  # that were taken
        self._encoder: Encoder | None = Encoder(format, sample_rate, amend=True)
        try:
            self._file = self.partial.open("wb", buffering=0)
        except OSError as error:
            self._encoder.close()
            raise EncodeError(f"cannot write {self.partial}: {error.strerror}") from error
        self._work: Uninterrupted | None = Uninterrupted("sound-file")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.commit()
            return
        try:
            self.abandon()
        except EncodeError as another:
            error.add_note(str(another))

    @property
    def seconds(self) -> float:
        """Duration of the audio that was taken, in seconds."""
        return self.samples / self.sample_rate

    def write(self, audio: Audio) -> None:
        """Add `audio`, (n,) in [−1, 1].

        Raises:
            EncodeError: it is not what it should be, and the sound stays as it was; or the sound has ended, or the
                disk is full: what was written is in `partial`, and plays.
        """
        check(audio)
        self._do(lambda: self._add(audio))

    def commit(self) -> Path:
        """End the sound, see it onto the disk, and give it its name: `path`, which is replaced if it was there.

        Raises:
            EncodeError: the disk is full, or the sound has ended already.
        """
        self._do(lambda: self._end(self.path))
        self._rest()
        return self.path

    def abandon(self) -> Path:
        """End the sound where it is, so that it plays, and leave it as `partial`; nothing to do if it has ended.

        Raises:
            EncodeError: the disk is full.
        """
        if self._work is not None:
            self._do(lambda: self._end(None))
            self._rest()
        return self._kept

    def _do(self, step: Callable[[], None]) -> None:
        if self._work is None:
            raise EncodeError(f"{self.path} has ended: open another")
        self._work.do(lambda: self._explained(step))

    def _rest(self) -> None:
        if self._work is not None:
            self._work.close()
            self._work = None

    def _explained(self, step: Callable[[], None]) -> None:
        """Do it, and after an error close the file and say what has become of it."""
        try:
            step()
        except EncodeError:
            self._drop()
            raise
        except OSError as error:
            self._drop()
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise EncodeError(f"cannot write {self.partial}: {error.strerror or error}") from error
            raise DiskFullError(
                f"no room left on the disk for {self.path}: the sound so far, up to {self.seconds:.1f} s, is in "
                f"{self.partial}; make room, or name a file on another disk, and begin again"
            ) from error

    def _add(self, audio: Audio) -> None:
        if self._encoder is None:
            raise EncodeError(f"{self.path} has ended: open another")
        data = self._encoder.encode(audio)
        self.samples += len(audio)
        self._put(data)

    def _end(self, name: Path | None) -> None:
        """Finish the file, and give it the name if there is one."""
        if self._encoder is None:
            if name is not None:
                raise EncodeError(f"{self.path} has ended: open another")
            return
        self._put(self._encoder.finish())
        self._file.seek(0)
        self._put(self._encoder.head)
        os.fsync(self._file.fileno())
        self._file.close()
        if name is not None:
            self.partial.replace(name)
            self._kept = name
            folder = os.open(name.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self._encoder = None

    def _put(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:  # a disk that is nearly full takes a part
            rest = rest[self._file.write(rest) :]

    def _drop(self) -> None:
        """Close the file after an error, with what is in it."""
        if self._encoder is not None:
            self._encoder.close()
            self._encoder = None
        if self._file.closed:
            return
        with contextlib.suppress(OSError), self._file:  # the error is on its way, and a WAV without a length plays
            if self.format == "wav":
                samples = (os.fstat(self._file.fileno()).st_size - wav.SHORT_HEADER) // wav.WIDTH
                self._file.seek(0)
                self._put(wav.short_header(max(0, samples), self.sample_rate))
