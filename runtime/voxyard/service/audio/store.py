"""Audio of documents: a file per chunk, a WAV per finished document, its copies in other formats, the quota of all."""

from __future__ import annotations

import logging
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from voxyard.service.audio.files import AudioFiles
from voxyard.service.documents.records import Redo, StoredChunk, is_id, with_spans
from voxyard.service.errors import NoRoomError, NotFoundError, ServiceError, StoreError, UnavailableError
from voxyard.speech.audio.encoder import FORMATS
from voxyard.speech.audio.joining import Pauses, Piece, Span, faded
from voxyard.speech.audio.wav import WIDTH, data_start, file_size, from_bytes, header, to_bytes
from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

SECOND = SAMPLE_RATE * WIDTH  # bytes of a second of audio
MIB = 1024 * 1024
FREE_SHARE = 10
"""What can be made again is kept where 1/10 of the quota stays free: documents come first."""
_log = logging.getLogger(__name__)
_CHUNK_SUFFIX = ".s16"
_AGAIN = re.compile(r"\d+\.(\d+)\.redo")
_WHOLE = re.compile(r"(?:audio|book)(?:\.(\d+))?\.\w+")


class AudioStore:
    """Audio files: `<id>/<index>.s16` for the chunks of a document, `<id>/audio.wav` for the whole.

    Chunks that are spoken again are `<index>.<claim>.redo`, the whole with them `audio.<claim>.wav`: the claim on a
    document has one service alone, so that none replaces what another one has written.

    `quota` is the most bytes that the files may take, `reserve` the bytes that stay free on the disk. Every method may
    be called from any thread, and raises NotFoundError for an invalid document id, NoRoomError where there is no room,
    StoreError for another error of the files.

    Several services may share the files: then `shared_usage` gives the bytes that the audio of all takes.
    """

    def __init__(
        self, files: AudioFiles, *, quota: int, reserve: int = 0, shared_usage: Callable[[], int] | None = None
    ) -> None:
        self._files, self._quota, self._reserve, self._shared_usage = files, quota, reserve, shared_usage
        files.create()
        files.sweep()
        self._marker = files.marker()
        self._copying = threading.Lock()  # one copy is stored at a time

    def reachable(self) -> bool:
        """True where the place of the files answers, and is the same as at the start. Raises StoreError, OSError."""
        return self._files.marker() == self._marker

    def put(self, id: str, index: int, audio: Audio, claim: int | None = None) -> int:
        """Stores the audio of a chunk, (samples,) at 24 kHz; returns the number of samples.

        With `claim` it is spoken again, and beside the audio that is served.
        """
        content = to_bytes(audio)
        with self._files.write(_checked(id), _chunk_name(index, claim)) as file:
            file.write(content)
        return len(content) // WIDTH

    def get(self, id: str, index: int, claim: int | None = None) -> Audio:
        """Audio of a chunk, (samples,) at 24 kHz, while its document is not complete; with `claim` spoken again.

        Raises:
            NotFoundError: there is none (any more).
        """
        try:
            return from_bytes(self._files.read(_checked(id), _chunk_name(index, claim)))
        except FileNotFoundError:
            raise NotFoundError(f"no audio of chunk {index} of document {id}") from None

    def has(self, id: str, index: int, samples: int, claim: int | None = None) -> bool:
        """True where the audio of a chunk is stored completely."""
        return self._files.size(_checked(id), _chunk_name(index, claim)) == samples * WIDTH

    def assemble(self, id: str, chunks: Sequence[StoredChunk], pauses: Pauses) -> None:
        """Joins the chunks, which all have audio, into `audio.wav`; `remove_chunks` deletes their files.

        Raises:
            NotFoundError: a chunk has no audio.
        """
        samples = _length(chunks, pauses)
        with self._files.write(_checked(id), audio_name(0)) as file:
            file.write(header(samples))
            for chunk, span in with_spans(chunks, pauses):
                file.write(to_bytes(self._piece(id, chunk, span, pauses).audio))

    def is_assembled(self, id: str, chunks: Sequence[StoredChunk], pauses: Pauses, revision: int = 0) -> bool:
        """True where the joined audio of these chunks is stored completely."""
        return self._files.size(_checked(id), audio_name(revision)) == file_size(_length(chunks, pauses))

    def rebuild(
        self,
        id: str,
        chunks: Sequence[StoredChunk],
        redos: Mapping[int, Redo],
        pauses: Pauses,
        revision: int,
        claim: int,
        cancelled: threading.Event,
    ) -> None:
        """Writes the joined audio of a revision once more, under the number of a claim, with chunks spoken again.

        `redos` has those by their index. All other chunks keep their samples, which are copied as they are.

        Raises:
            NotFoundError: this revision of the joined audio is not there, or a chunk's new audio.
            UnavailableError: it was cancelled.
        """
        renewed = [replace(each, samples=redos[each.index].samples) if each.index in redos else each for each in chunks]
        spans = zip(with_spans(chunks, pauses), with_spans(renewed, pauses), strict=True)
        old_name = audio_name(revision)
        with self._files.write(_checked(id), audio_name(claim)) as file:

            def copy(start: int, end: int) -> None:
                """Copies samples of the joined audio."""
                written = file.tell()
                for block in self.stream(id, old_name, first + start * WIDTH, first + end * WIDTH):
                    if cancelled.is_set():
                        raise UnavailableError(f"the audio of document {id} is not made anew: it was cancelled")
                    file.write(block)
                if file.tell() - written != (end - start) * WIDTH:
                    raise StoreError(f"the audio of document {id} ends before sample {end}: the file was changed")

            file.write(header(_length(renewed, pauses)))
            first = data_start(b"".join(self.stream(id, old_name, 0, 4)))
            begin = end = 0  # of what is kept since the last chunk that is not
            for (_, old), (chunk, span) in spans:
                if (redo := redos.get(chunk.index)) is None:
                    if old.start - old.begin == span.start - span.begin:
                        end = old.end
                        continue
                    copy(begin, end)
                    file.write(bytes((span.start - span.begin) * WIDTH))
                    begin, end = old.start, old.end
                    continue
                copy(begin, end)
                file.write(to_bytes(self._piece(id, chunk, span, pauses, redo.claim).audio))
                begin = end = old.end
            copy(begin, end)

    def remove_revision(self, id: str, revision: int) -> None:
        """Deletes a revision of the joined audio, and what was made of it."""
        for name in (book_name(revision), *(audio_name(revision, each) for each in FORMATS)):
            self._files.remove(_checked(id), name)

    def remove_revisions(self, id: str, before: int) -> None:
        """Deletes the joined audio before a revision."""
        found = map(_WHOLE.fullmatch, self.names(id))
        for revision in {int(each[1] or 0) for each in found if each is not None}:
            if revision < before:
                self.remove_revision(id, revision)

    def remove_late_chunks(self, id: str, revision: int) -> None:
        """Deletes the chunks' files of a document whose joined audio has this number; not what is spoken again since.

        A claim of a higher number may be at work on them.
        """
        names = self.names(id)
        claims = {int(found[1]) for found in map(_AGAIN.fullmatch, names) if found is not None}
        suffixes = [_again_suffix(claim) for claim in claims if claim <= revision]
        if any(name.endswith(_CHUNK_SUFFIX) for name in names):
            suffixes.append(_CHUNK_SUFFIX)
        for suffix in suffixes:
            self._files.remove(id, suffix)

    def remove_chunks(self, id: str) -> None:
        """Deletes the chunks' files of an assembled document."""
        self._files.remove(_checked(id), _CHUNK_SUFFIX)

    def wav_size(self, id: str, revision: int = 0) -> int:
        """Bytes of the joined audio; its revision is the number in its name.

        Raises:
            NotFoundError: it is not assembled (yet).
        """
        size = self._files.size(_checked(id), audio_name(revision))
        if size is None:
            raise NotFoundError(f"document {id} has no complete audio")
        return size

    def pieces(
        self, id: str, chunks: Iterable[StoredChunk], pauses: Pauses, first: int = 0, revision: int = 0
    ) -> Iterator[Piece]:
        """Joined audio piece by piece, identical to `audio.wav`, also while that is being assembled.

        `chunks` come in text order, with their samples; the iterator may block. The audio begins with the sound of the
        chunk `first`, without the pause before it.

        Raises:
            NotFoundError: the document was deleted, or a chunk has no audio.
        """
        for chunk, span in with_spans(chunks, pauses):
            if chunk.index < first:
                continue
            wanted = replace(span, begin=span.start) if chunk.index == first else span
            yield self.piece(id, chunk, wanted, pauses, revision)

    def piece(self, id: str, chunk: StoredChunk, span: Span, pauses: Pauses, revision: int = 0) -> Piece:
        """Piece of the joined audio: a chunk at its position, with the pause before it. Raises as `pieces`."""
        try:
            return self._piece(id, chunk, span, pauses)
        except NotFoundError:  # the chunks' files are deleted after assembly
            return self._piece_of_wav(id, chunk, span, revision)

    def keep_copy(self, id: str, revision: int, format: str, file: BinaryIO) -> bool:
        """Stores all of `file` as a revision's audio in a format; False where it has no room, or cannot be stored.

        Another service may do the same: the bytes are the same, and the last one's stay.
        """
        name = audio_name(revision, format)
        with self._copying:
            size = file.seek(0, 2)
            file.seek(0)
            try:
                if self.spare_bytes() < size:
                    _log.info("document %s: no room to keep %s of %.1f MiB", id, name, size / MIB)
                    return False
                self.wav_size(id, revision)
                with self.write(id, name) as copy:
                    shutil.copyfileobj(file, copy)
            except NotFoundError:  # deleted, or spoken again
                return False
            except ServiceError as error:
                _log.warning("document %s: %s is not kept: %s", id, name, error)
                return False
            if self.size(id, audio_name(revision)) is None:  # deleted while the copy was written
                self.remove_revision(id, revision)
                return False
            return True

    def write(self, id: str, name: str) -> AbstractContextManager[BinaryIO]:
        """A further file of a document, which gets its name once the block has ended without an error."""
        return self._files.write(_checked(id), name)

    def size(self, id: str, name: str) -> int | None:
        """Bytes of a further file; None where there is none."""
        return self._files.size(_checked(id), name)

    def path(self, id: str, name: str) -> Path | None:
        """Path of a further file; None where it is not a file of this machine."""
        return self._files.path(_checked(id), name)

    def stream(self, id: str, name: str, start: int, end: int) -> Iterator[bytes]:
        """Bytes of a further file, in blocks. Raises NotFoundError."""
        try:
            yield from self._files.stream(_checked(id), name, start, end)
        except FileNotFoundError:
            raise NotFoundError(f"document {id} has no file {name}") from None

    def remove(self, id: str) -> None:
        """Deletes all files of a document."""
        self._files.remove(_checked(id))

    def names(self, id: str) -> tuple[str, ...]:
        """Names of the files of a document."""
        return self._files.names(_checked(id))

    def ids(self) -> tuple[str, ...]:
        """Ids of the documents with audio files."""
        return self._files.ids()

    def used_bytes(self) -> int:
        """Bytes of stored audio."""
        used = self._files.used_bytes() if self._shared_usage is None else self._shared_usage()
        return used or 0

    def free_bytes(self) -> float:
        """Free bytes for this process; infinite where there is no limit."""
        return self._files.free_bytes()

    def room_bytes(self) -> float:
        """Bytes that further audio may take, by the quota and the disk."""
        return max(0.0, min(self._quota - self.used_bytes(), self.free_bytes() - self._reserve))

    def spare_bytes(self) -> float:
        """Bytes of that room for what can be made again; negative where there is none."""
        return self.room_bytes() - self._quota / FREE_SHARE

    def check_room(self, estimated_seconds: float, waiting_seconds: float = 0.0) -> None:
        """Checks that `estimated_seconds` more audio fit, beside `waiting_seconds` accepted and not yet synthesized.

        Raises:
            NoRoomError: it exceeds the quota, or less than the reserve would stay free.
        """
        need = round((estimated_seconds + waiting_seconds) * SECOND)
        used, free = self.used_bytes(), self.free_bytes()
        if used + need > self._quota:
            raise NoRoomError(
                f"audio quota exceeded: about {_mib(need)} needed with pending documents, "
                f"{_mib(max(0, self._quota - used))} left of {_mib(self._quota)}: delete documents or raise "
                "--disk-quota"
            )
        if free - need - round(estimated_seconds * SECOND) < self._reserve:  # assembling needs the space twice
            raise NoRoomError(
                f"not enough disk space: about {_mib(need)} needed with pending documents, {_mib(free)} free, of which "
                f"{_mib(self._reserve)} are reserved: delete documents, or free space on the disk"
            )

    def _piece(self, id: str, chunk: StoredChunk, span: Span, pauses: Pauses, claim: int | None = None) -> Piece:
        import numpy as np

        audio = self.get(id, chunk.index, claim)
        if len(audio) != chunk.samples:
            raise StoreError(
                f"chunk {chunk.index} of document {id} has {len(audio)} samples on the disk, expected {chunk.samples}: "
                "the file was changed"
            )
        silence = np.zeros(span.start - span.begin, np.float32)
        sound = np.concatenate([silence, faded(audio, pauses)])
        return Piece(chunk.index, sound, span.start, span.end, SAMPLE_RATE)

    def _piece_of_wav(self, id: str, chunk: StoredChunk, span: Span, revision: int) -> Piece:
        size = (span.end - span.begin) * WIDTH
        try:
            begin = data_start(self._files.read(id, audio_name(revision), 0, 4))
            content = self._files.read(id, audio_name(revision), begin + span.begin * WIDTH, size)
        except FileNotFoundError:
            raise NotFoundError(f"document {id} has no complete audio") from None
        if len(content) != size:
            raise StoreError(f"the audio of document {id} ends before chunk {chunk.index}: the file was changed")
        return Piece(chunk.index, from_bytes(content), span.start, span.end, SAMPLE_RATE)


def _checked(id: str) -> str:
    """The id. Raises NotFoundError for an invalid one, which never becomes a path."""
    if not is_id(id):
        raise NotFoundError(f"no document {id!r}: expected 32 hexadecimal digits")
    return id


def audio_name(revision: int, format: str = "wav") -> str:
    """Name of the joined audio of a revision, or of its copy in another format."""
    return f"audio.{int(revision)}.{format}" if revision else f"audio.{format}"


def book_name(revision: int) -> str:
    """Name of the audiobook (M4B) of a revision."""
    return f"book.{int(revision)}.m4b"


def _chunk_name(index: int, claim: int | None) -> str:
    return f"{int(index)}{_CHUNK_SUFFIX if claim is None else _again_suffix(claim)}"


def _again_suffix(claim: int) -> str:
    return f".{int(claim)}.redo"


def _length(chunks: Sequence[StoredChunk], pauses: Pauses) -> int:
    """Samples of the joined audio."""
    return max((span.end for _, span in with_spans(chunks, pauses)), default=0)


def _mib(size: float) -> str:
    return f"{size / MIB:.1f} MiB"
