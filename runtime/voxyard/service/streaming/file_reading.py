"""Reading of stored files for responses: a block at a time, in a few threads that no other request waits for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

READING_THREADS = 4
"""Threads of all readers of a service. Further readers wait in order of arrival, so that each gets a block by turns."""


async def blocks_of(blocks: Iterator[bytes], threads: CapacityLimiter) -> AsyncGenerator[bytes, None]:
    """The blocks of an iterator that blocks. A reader holds a thread while it reads a block, not while it sends it.

    Args:
        blocks: the bytes of a file, closed at the end where it is a generator.
        threads: the threads that readers share. Those of other requests, which all wait in one line, would let a
            short request wait for a block of each reader.
    """
    try:
        while (block := await run_sync(next, blocks, None, limiter=threads)) is not None:
            yield block
    finally:
        if isinstance(blocks, Generator):
            blocks.close()
