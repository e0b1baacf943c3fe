"""An event loop whose clock leaps: what waits for seconds waits for none, in the order in which it would end."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class _LeapingSelector(selectors.DefaultSelector):
    """Instead of waiting for the next timer, moves the clock to it."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(None if timeout is None else 0)
        if not found and timeout:
            self.now += timeout
        return found


class _LeapingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._leaping = _LeapingSelector()
        super().__init__(self._leaping)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._leaping.now


def leaping(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """What a coroutine returns that uses the loop's timers alone: no sockets, threads or processes."""
    with asyncio.Runner(loop_factory=_LeapingLoop) as runner:
        return runner.run(coroutine)
