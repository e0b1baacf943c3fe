"""Body limit: bytes are counted as they come, whatever the headers say, and their time by the loop's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from leaping_loop import leaping
from starlette.types import Message, Receive

from voxyard.service.errors import TooLargeError
from voxyard.service.http.body_limit import LINGER_SECONDS, MIN_BYTES_PER_SECOND, LimitedBody
from voxyard.service.http.errors import TooSlowError

CHUNKED: dict[str, Any] = {"type": "http", "headers": [(b"transfer-encoding", b"chunked")]}


def read(size: int, limit: int) -> Message:
    """The message of a chunked body of `size` bytes."""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * size, "more_body": False}

    return asyncio.run(LimitedBody(CHUNKED, receive, limit).receive())


def test_a_body_of_just_the_limit_is_taken_and_one_byte_more_is_refused() -> None:
    assert read(10, limit=10)["body"] == b"x" * 10
    with pytest.raises(TooLargeError):
        read(11, limit=10)


def coming(pieces: Iterable[tuple[float, int]], then: float = 0.0) -> Receive:
    """A body of pieces of so many bytes, each after so many seconds; its end comes after `then`."""
    left = iter(pieces)

    async def receive() -> Message:
        seconds, size = next(left, (then, 0))
        await asyncio.sleep(seconds)
        return {"type": "http.request", "body": b"x" * size, "more_body": size > 0}

    return receive


async def taken(receive: Receive, *, grace: float) -> int:
    """Bytes of a body that was read to its end."""
    body, received = LimitedBody(CHUNKED, receive, 1 << 30, grace=grace), 0
    while body.unread:
        received += len((await body.receive())["body"])
    return received


def test_a_body_that_comes_as_fast_as_it_must_may_take_its_time() -> None:
    second = MIN_BYTES_PER_SECOND
    assert leaping(taken(coming([(1.0, second)] * 60, then=19.0), grace=20.0)) == 60 * second


@pytest.mark.parametrize(
    ("pieces", "then"),
    [([], 21.0), ([(1.0, 1)] * 100, 0.0), ([(1.0, MIN_BYTES_PER_SECOND // 2)] * 60, 0.0)],
    ids=["silent", "dripping", "half as fast"],
)
def test_a_body_that_comes_slower_is_not_waited_for(pieces: list[tuple[float, int]], then: float) -> None:
    async def refused() -> float:
        with pytest.raises(TooSlowError, match="expected at least 16 KiB/s"):
            await taken(coming(pieces, then), grace=20.0)
        return asyncio.get_running_loop().time()

    assert 20.0 <= leaping(refused()) <= 41.0, "its grace, and the time that its bytes are worth"


@pytest.mark.parametrize(("pause", "lingers"), [(0.9, 18.0), (1.1, 2.0)], ids=["each in time", "a pause too long"])
def test_the_rest_of_a_refused_body_is_read_while_its_pieces_come(pause: float, lingers: float) -> None:
    """Nine pieces: longer than one is waited for, all in all."""

    async def lingered() -> float:
        body = LimitedBody(CHUNKED, coming([(pause * LINGER_SECONDS, 1000)] * 9 + [(pause * LINGER_SECONDS, 0)]), 10)
        await body.linger()
        return asyncio.get_running_loop().time()

    assert leaping(lingered()) == pytest.approx(lingers)
