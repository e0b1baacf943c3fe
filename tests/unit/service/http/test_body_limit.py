"""Body limit: bytes are counted as they come, whatever the headers say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message

from voxyard.service.errors import TooLargeError
from voxyard.service.http.body_limit import LimitedBody


def read(size: int, limit: int) -> Message:
    """The message of a chunked body of `size` bytes."""
    scope: dict[str, Any] = {"type": "http", "headers": [(b"transfer-encoding", b"chunked")]}

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * size, "more_body": False}

    return asyncio.run(LimitedBody(scope, receive, limit).receive())


def test_a_body_of_just_the_limit_is_taken_and_one_byte_more_is_refused() -> None:
    assert read(10, limit=10)["body"] == b"x" * 10
    with pytest.raises(TooLargeError):
        read(11, limit=10)
