"""Audio file: written by a thread that Ctrl-C does not interrupt, and renamed when it is complete."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import itertools
import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Self

from voxyard.host.durable_files import flush, rename, try_lock, whole_file
from voxyard.speech.audio import audiobook, wav
from voxyard.speech.audio.encoder import (
    NO_TAGS,
    DiskFullError,
    EncodeError,
    Encoder,
    Format,
    Tags,
    UnfinishedError,
    check,
)
from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from voxyard.speech.audio.audiobook import ChapterMark
    from voxyard.speech.requests import Audio

BOOK = ".m4b"
SUFFIXES: dict[str, Format] = {
    ".wav": "wav",
    ".mp3": "mp3",
    ".opus": "opus",
    ".ogg": "opus",
    ".flac": "flac",
    ".aac": "aac",
    ".pcm": "pcm",
}

_KINDS = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}


@dataclass(frozen=True)
class Book:
    """What an audiobook has beside its sound: chapters, a cover (JPEG or PNG), captions (WebVTT, in their own file)."""

    marks: Sequence[ChapterMark] = ()
    cover: bytes | None = None
    captions: str | None = None


_FRAMES = 32  # of FLAC, encoded at a time: each step costs as much as some milliseconds of sound
Share = Callable[[float], None]
"""Gets how much of an audiobook is encoded, from 0 to 1; in another thread."""

_Job = tuple[Callable[[], None], "SimpleQueue[BaseException | None]"]


def format_of(path: Path) -> Format:
    """Format of a file's sound, from its suffix: that of an audiobook is FLAC until it is whole.

    Raises:
        EncodeError: the suffix is unknown.
    """
    try:
        return {**SUFFIXES, BOOK: "flac"}[path.suffix.lower()]
    except KeyError:
        known = ", ".join((*SUFFIXES, BOOK))
        raise EncodeError(f"{path} ends in {path.suffix or 'no suffix'!r}, expected one of {known}") from None


def check_target(path: Path) -> None:
    """Checks that an audio file of this name can be written; nothing is left of the trial, and no file is changed.

    Raises:
        EncodeError: it is something else than a file, its suffix is unknown, its encoder is not installed, its folder
            cannot be written to, another process writes it, or an audiobook's captions would replace what is not
            another audiobook's.
    """
    try:
        _check_file(path)
        if format_of(path) not in ("wav", "pcm") and importlib.util.find_spec("av") is None:
            raise EncodeError(
                f"{path} needs PyAV, which is not installed: pip install 'av>=15,<19', or name a .wav or .pcm file"
            )
        if not path.parent.is_dir():
            fault = f"{path.parent} is no folder" if path.parent.exists() else f"there is no folder {path.parent}"
            raise EncodeError(f"cannot write {path}: {fault}: create it, or name a file in another")
        for part in _parts(path):
            _check_file(part, f", {path} until it is whole,")
        if path.suffix.lower() == BOOK:
            captions = captions_beside(path)
            _check_file(captions, f", the captions of {path},")
            if captions.exists() and not path.exists():
                raise EncodeError(
                    f"{captions} is there without {path}, whose captions would replace it: move it, or name another "
                    "file with --out"
                )
        partial = _partial(path)
        there = partial.exists()
        with _own(partial):
            if not there:
                partial.unlink()
    except OSError as error:
        raise _unwritable(path, error) from error


def _check_file(path: Path, meaning: str = "") -> None:
    """Raises EncodeError where something else than a file has this name."""
    mode = path.stat().st_mode if path.exists() else stat.S_IFREG
    if not stat.S_ISREG(mode):
        found = next((kind for is_one, kind in _KINDS.items() if is_one(mode)), "a device")
        raise EncodeError(f"{path}{meaning} is {found}, expected a file: name another with --out")


def _unwritable(path: Path, error: OSError) -> EncodeError:
    return EncodeError(
        f"cannot write {path}: {error.strerror or error}: name a file in a folder that can be written to"
    )


def captions_beside(path: Path) -> Path:
    """Name of an audiobook's captions."""
    return path.with_suffix(".vtt")


def _partial(path: Path) -> Path:
    """Name of the file while it is being written."""
    return _parts(path)[0]


def _parts(path: Path) -> list[Path]:
    """Names of what is written until the file is whole: its sound, and then an audiobook."""
    suffixes = [".flac", path.suffix] if path.suffix.lower() == BOOK else [path.suffix]
    return [path.with_name(f"{path.stem}.part{suffix}") for suffix in suffixes]


def _own(part: Path, *, empty: bool = False) -> FileIO:
    """An unfinished file, which other processes may not write until it is closed. Raises EncodeError."""
    file = FileIO(part, "wb", opener=lambda name, flags: os.open(name, flags & ~os.O_TRUNC, 0o666))
    found = os.fstat(file.fileno())
    if stat.S_ISREG(found.st_mode):
        if not try_lock(file.fileno()) or not part.exists() or not os.path.samestat(found, part.stat()):
            file.close()
            raise EncodeError(f"{part} is being written by another process: wait for it, or name another with --out")
        if empty:
            file.truncate()
    return file


def open_sound(
    path: Path,
    sample_rate: int = SAMPLE_RATE,
    tags: Tags = NO_TAGS,
    book: Callable[[], Book] = Book,
) -> SoundFile:
    """Open an audio file of `sample_rate` Hz, in the format of its suffix, with these tags where that has tags.

    An audiobook has what `book` gives when its sound is whole.

    Raises:
        EncodeError: the suffix is unknown, or the file cannot be created.
    """
    if path.suffix.lower() == BOOK:
        return AudiobookFile(path, tags, book)
    return SoundFile(path, format_of(path), sample_rate, tags)


class SoundFile:
    """Audio file that is written as `partial` and renamed to `path` when it is complete.

    A context manager: it commits, or abandons after an exception. The work is done in a thread that Ctrl-C does not
    interrupt: a step that has begun is completed, and `abandon` waits for it.
    """

    def __init__(self, path: Path, format: Format, sample_rate: int = SAMPLE_RATE, tags: Tags = NO_TAGS) -> None:
        """Create the file.

        Raises:
            EncodeError: it cannot be written, or the format cannot have this sample rate.
        """
        _check_file(path)
        self.path, self.format, self.sample_rate = path, format, sample_rate
        self.partial = self._kept = _partial(path)
        self.samples = 0  # accepted so far
        self._encoder: Encoder | None = Encoder(format, sample_rate, amend=True, tags=tags)
        try:
            self._file = _own(self.partial, empty=True)
        except (EncodeError, OSError) as error:
            self._encoder.close()
            raise (error if isinstance(error, EncodeError) else _unwritable(path, error)) from error
        self._encoded: Share = lambda _: None
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
    def open(self) -> bool:
        """True until it is whole, abandoned, or closed by an error, whose message says where its audio is."""
        return self._encoder is not None

    @property
    def seconds(self) -> float:
        """Duration of the accepted audio, in seconds."""
        return self.samples / self.sample_rate

    def write(self, audio: Audio) -> None:
        """Add `audio`, (n,) in [−1, 1].

        Raises:
            EncodeError: the audio is invalid, and the file is unchanged; or the file is closed; or the disk is full,
                and the playable part is in `partial`.
        """
        check(audio)
        self._do(lambda: self._add(audio))

    def commit(self, encoded: Share = lambda _: None) -> Path:
        """Complete the file, sync it to the disk and rename it to `path`, which is replaced.

        Raises:
            EncodeError: the disk is full, or the file is closed.
        """
        self._encoded = encoded
        self._do(lambda: self._end(self.path))
        self._end_thread()
        return self.path

    def abandon(self) -> Path:
        """Close the file as `partial`, playable; does nothing if it is closed.

        Raises:
            EncodeError: the disk is full.
        """
        if self._work is not None:
            self._do(lambda: self._end(None))
            self._end_thread()
        return self._kept

    def _do(self, step: Callable[[], None]) -> None:
        if self._work is None:
            raise EncodeError(f"{self.path} is closed: open another file")
        self._work.do(lambda: self._with_messages(step))

    def _end_thread(self) -> None:
        if self._work is not None:
            self._work.close()
            self._work = None

    def _with_messages(self, step: Callable[[], None]) -> None:
        """Run a step; after an error close the file and raise a message on its state."""
        try:
            step()
        except EncodeError as error:
            self._drop()
            raise UnfinishedError(f"{error}: {self._made()}") from error
        except OSError as error:
            self._drop()
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise UnfinishedError(f"cannot write {self.path}: {error.strerror or error}: {self._made()}") from error
            raise DiskFullError(
                f"no disk space left for {self.path}: {self._made()}; free some, or name a file on another disk, and "
                "run the command again"
            ) from error

    def _made(self) -> str:
        """Where the audio lies that was made before an error."""
        if not self.partial.exists():
            return f"{self.partial}, the audio so far, is gone"
        return f"the audio so far, {self.seconds:.1f} s, is in {self.partial}"

    def _add(self, audio: Audio) -> None:
        if self._encoder is None:
            raise EncodeError(f"{self.path} is closed: open another file")
        data = self._encoder.encode(audio)
        self.samples += len(audio)
        self._put(data)

    def _end(self, name: Path | None) -> None:
        """Complete the file, and rename it where a name is given."""
        if self._encoder is None:
            if name is not None:
                raise EncodeError(f"{self.path} is closed: open another file")
            return
        self._put(self._encoder.finish())
        self._file.seek(0)
        self._put(self._encoder.head)
        flush(self._file)
        with FileIO(os.dup(self._file.fileno()), "wb"):  # keeps the lock until it has its name
            self._file.close()
            if name is not None:
                self._name(name)
                self._kept = name
        self._encoder = None

    def _name(self, name: Path) -> None:
        rename(self.partial, name)

    def _put(self, data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:  # a disk that is nearly full accepts a part
            remaining = remaining[self._file.write(remaining) :]

    def _drop(self) -> None:
        """Close the file after an error, playable as far as it was written."""
        if self._encoder is not None:
            self._encoder.close()
            self._encoder = None
        if self._file.closed:
            return
        with contextlib.suppress(OSError), self._file:  # the first error is reported; a WAV without a length plays, too
            if self.format == "wav":
                samples = (os.fstat(self._file.fileno()).st_size - wav.SHORT_HEADER) // wav.WIDTH
                self._file.seek(0)
                self._put(wav.short_header(max(0, samples), self.sample_rate))


class AudiobookFile(SoundFile):
    """Audiobook: its sound is kept as FLAC, and encoded at its end, when its chapters are known."""

    def __init__(self, path: Path, tags: Tags, book: Callable[[], Book]) -> None:
        """Create the file of the sound. Raises EncodeError."""
        super().__init__(path, "flac", tags=tags)
        self._tags, self._book, self._cancelled = tags, book, False

    def abandon(self) -> Path:
        """Close the sound as `partial`; a book that is being encoded is given up."""
        self._cancelled = True
        return super().abandon()

    def _name(self, name: Path) -> None:
        book = self._book()
        with contextlib.ExitStack() as files:  # the captions get their name after the book
            if book.captions is not None:
                captions = files.enter_context(whole_file(captions_beside(name)))
                captions.write(book.captions.encode())
                flush(captions)
            file = files.enter_context(whole_file(name, part=name.with_name(f"{name.stem}.part{name.suffix}")))
            audiobook.write(
                file, self._sound(), samples=self.samples, tags=self._tags, marks=book.marks, cover=book.cover
            )
        self.partial.unlink()

    def _sound(self) -> Iterator[Audio]:
        import av
        import numpy as np

        done = 0
        with av.open(str(self.partial)) as container:
            frames = container.decode(audio=0)
            while some := [frame.to_ndarray()[0] for frame in itertools.islice(frames, _FRAMES)]:
                audio = wav.from_bytes(np.concatenate(some, axis=None).tobytes())
                yield audio
                if self._cancelled:
                    raise EncodeError(f"{self.path} was given up")
                done += len(audio)
                self._encoded(done / self.samples)


class SignalSafeThread:
    """Thread for steps that a signal must not interrupt.

    Python handles signals between two instructions of the main thread, also inside a library, in a callback from C,
    where the exception is lost, or in the locks of concurrent.futures, which then stay locked. So the main thread
    only waits in SimpleQueue.get, which is one instruction and can be interrupted.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True).start()
        self.close = weakref.finalize(self, self._jobs.put, None)  # ends the thread, after pending steps

    def do(self, step: Callable[[], None]) -> None:
        """Run a step in the thread and wait; raises its exception. After a Ctrl-C it is still completed."""
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
        except BaseException as error:  # noqa: BLE001 - raised again by `do`
            answer.put(error)
        else:
            answer.put(None)
        del job, step, answer  # no reference is kept while it waits
