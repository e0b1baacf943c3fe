"""Shared encodings: audio that several readers ask for is encoded once, into a file that all of them follow."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Hashable
from pathlib import Path
from typing import BinaryIO

import anyio
from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from voxyard.service.errors import NoRoomError

_log = logging.getLogger(__name__)

FILE_THREADS = 4
"""Threads of all readers of a service. Further readers wait in order of arrival, so that each gets a block by turns."""
BLOCK = 1 << 16  # bytes that a reader takes at a time
ENCODING_THREADS = 2

Pieces = Callable[[CapacityLimiter], AsyncGenerator[bytes, None]]
"""Yields encoded bytes; given the threads that it may encode in."""
Keep = Callable[[BinaryIO], object]


class SharedEncoding:
    """One encoding in progress. Its bytes are in a temporary file without a name, so that a crash leaves nothing."""

    def __init__(self, pieces: Pieces, folder: Path, keep: Keep | None, encodings: SharedEncodings) -> None:
        self._pieces, self._keep, self._encodings = pieces, keep, encodings
        with _disk_errors():
            self._descriptor, path = tempfile.mkstemp(dir=folder)
            Path(path).unlink()
        self._size = 0
        self._changed = asyncio.Event()
        self.readers = 0
        self._task = asyncio.create_task(self._encode())

    @property
    def failed(self) -> bool:
        """True where it ended with an error: another one may not."""
        return self._task.done() and (self._task.cancelled() or self._task.exception() is not None)

    async def wait(self, seconds: float) -> None:
        """Waits until it has ended and the whole is kept, so many seconds at most."""
        await asyncio.wait([self._task], timeout=seconds)

    async def read(self) -> AsyncGenerator[bytes, None]:
        """All bytes from the first on, as they are encoded; the end comes once the whole is kept, where it is to be.

        A reader that waits takes no thread.

        Raises:
            Exception: what encoding raised.
        """
        at = 0
        while True:
            changed = self._changed
            if at < self._size:
                count = min(BLOCK, self._size - at)
                block = await run_sync(os.pread, self._descriptor, count, at, limiter=self._encodings.file_threads)
                at += len(block)
                yield block
            elif self._task.done():
                self._task.result()
                return
            else:
                await changed.wait()

    async def close(self) -> None:
        """Ends the encoding, finished or not."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if self.failed and not self._task.cancelled():
            _log.info("an encoding ended: %s", self._task.exception())
        os.close(self._descriptor)

    async def _encode(self) -> None:
        try:
            async with contextlib.aclosing(self._pieces(self._encodings.encoding)) as pieces:
                async for piece in pieces:
                    if piece:
                        await run_sync(self._write, piece, limiter=self._encodings.encoding)
                        self._size += len(piece)
                        self._wake()
            if self._keep is not None:
                await run_sync(self._keep_all, self._keep, limiter=self._encodings.encoding)
        finally:
            self._wake()

    def _write(self, piece: bytes) -> None:
        with _disk_errors():
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def _keep_all(self, keep: Keep) -> None:
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            keep(file)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


@contextlib.contextmanager
def _disk_errors() -> Generator[None, None, None]:
    """Turns the OSError of a full disk into NoRoomError."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise NoRoomError("the disk is full: audio cannot be encoded until documents are deleted") from error


class SharedEncodings:
    """Encodings in progress by what they encode; used from one event loop. The last reader's end ends an encoding.

    The threads of all, and those of the readers of finished ones, are few, and none that requests of another kind use.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, SharedEncoding] = {}
        self.encoding, self.file_threads = CapacityLimiter(ENCODING_THREADS), CapacityLimiter(FILE_THREADS)

    def __len__(self) -> int:
        return len(self._running)

    @contextlib.asynccontextmanager
    async def joined(
        self, key: Hashable, pieces: Pieces, folder: Path, keep: Keep | None = None
    ) -> AsyncGenerator[SharedEncoding, None]:
        """The encoding of this key, for the block; begun where there is none.

        Args:
            key: what is encoded, in which form.
            pieces: yields the encoded bytes.
            folder: directory of the temporary file.
            keep: stores the whole file elsewhere; called in a thread, once.
        """
        encoding = self._running.get(key)
        if encoding is None or encoding.failed:
            encoding = self._running[key] = SharedEncoding(pieces, folder, keep, self)
        encoding.readers += 1
        try:
            yield encoding
        finally:
            encoding.readers -= 1
            if not encoding.readers:
                if self._running.get(key) is encoding:
                    del self._running[key]
                with anyio.CancelScope(shield=True):
                    await encoding.close()

    async def read(
        self, key: Hashable, pieces: Pieces, folder: Path, keep: Keep | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Bytes of the encoding of this key, from the first on. Arguments and errors as `joined` and its `read`."""
        async with (
            self.joined(key, pieces, folder, keep) as encoding,
            contextlib.aclosing(encoding.read()) as blocks,
        ):
            async for block in blocks:
                yield block
