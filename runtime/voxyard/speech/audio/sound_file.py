"""Sound file: written by a thread that no Ctrl-C interrupts, and given its name when it is whole."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Self

from voxyard.speech.audio import wav
from voxyard.speech.audio.codecs import DiskFullError, EncodeError, Format, check
from voxyard.speech.audio.encoder import Encoder
from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

SUFFIXES: dict[str, Format] = {
    ".wav": "wav",
    ".mp3": "mp3",
    ".opus": "opus",
    ".ogg": "opus",
    ".flac": "flac",
    ".aac": "aac",
    ".pcm": "pcm",
}

_Job = tuple[Callable[[], None], "SimpleQueue[BaseException | None]"]


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
        self._work: SignalSafeThread | None = SignalSafeThread("sound-file")

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


class SignalSafeThread:
    """A thread for the steps of one piece of work.

    Python handles signals between two instructions of the main thread, wherever they are: in the middle of a library,
    in a call back from C, where the exception is lost, or in the locks of concurrent.futures, which then stay shut.
    So the main thread only waits here, in SimpleQueue.get, which is one instruction and can be left.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True).start()
        self.close = weakref.finalize(self, self._jobs.put, None)  # ends the thread, after the steps that it has

    def do(self, step: Callable[[], None]) -> None:
        """Have the step done and wait; raises what it raises. After a Ctrl-C it is still done, before the next."""
        answer: SimpleQueue[BaseException | None] = SimpleQueue()
        self._jobs.put((step, answer))
        error = answer.get()
        if error is not None:
            raise error


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        step, answer = job
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - it is raised where the step was asked for
            answer.put(error)
        else:
            answer.put(None)
        del job, step, answer  # while it waits for the next, it keeps nobody alive
