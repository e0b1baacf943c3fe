"""Shared encodings: one for all readers of a key, its errors for each of them, its end with the last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import BinaryIO

import anyio
import pytest

from voxyard.service.errors import NotFoundError
from voxyard.service.streaming.shared_encoding import SharedEncodings


def test_every_reader_gets_all_bytes_also_one_who_comes_late(tmp_path: Path) -> None:
    begun = 0
    kept: list[bytes] = []

    async def pieces(_: anyio.CapacityLimiter) -> AsyncGenerator[bytes, None]:
        nonlocal begun
        begun += 1
        for number in range(20):
            yield bytes([number]) * 50_000
            await asyncio.sleep(0.005)

    def keep(file: BinaryIO) -> None:
        kept.append(file.read())

    async def reader(encodings: SharedEncodings, delay: float) -> bytes:
        await asyncio.sleep(delay)
        return b"".join([block async for block in encodings.read("key", pieces, tmp_path, keep)])

    async def readers() -> list[bytes]:
        encodings = SharedEncodings()
        found = await asyncio.gather(*(reader(encodings, number / 500) for number in range(30)))
        assert not len(encodings)
        return found

    expected = b"".join(bytes([number]) * 50_000 for number in range(20))
    assert asyncio.run(readers()) == [expected] * 30
    assert begun == 1
    assert kept == [expected]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [NotFoundError("gone"), RuntimeError("a fault of the program")])
def test_an_error_reaches_every_reader_and_the_next_one_begins_anew(tmp_path: Path, error: Exception) -> None:
    begun = 0

    async def pieces(_: anyio.CapacityLimiter) -> AsyncGenerator[bytes, None]:
        nonlocal begun
        begun += 1
        yield b"first"
        await asyncio.sleep(0.02)
        raise error

    async def reader(encodings: SharedEncodings) -> list[bytes]:
        blocks = encodings.read("key", pieces, tmp_path)
        heard = [await anext(blocks)]
        with pytest.raises(type(error), match=str(error)):
            await anext(blocks)
        return heard

    async def readers() -> None:
        encodings = SharedEncodings()
        assert await asyncio.gather(*(reader(encodings) for _ in range(3))) == [[b"first"]] * 3
        assert begun == 1
        await reader(encodings)
        assert begun == 2

    asyncio.run(readers())


def test_the_last_reader_who_leaves_cancels_what_is_encoded(tmp_path: Path) -> None:
    ended: list[bool] = []

    async def pieces(_: anyio.CapacityLimiter) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"more"
                await asyncio.sleep(0.001)
        finally:
            ended.append(True)

    async def readers() -> None:
        encodings = SharedEncodings()
        async with encodings.joined("key", pieces, tmp_path) as one:
            async with encodings.joined("key", pieces, tmp_path) as other:
                assert one is other
            assert not ended
            await one.wait(0.05)
            assert not list(tmp_path.iterdir())  # a crash would leave nothing
        assert ended == [True]
        assert not len(encodings)

    asyncio.run(readers())
