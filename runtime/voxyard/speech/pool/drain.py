"""Draining a pool: the chunks that its workers still have, and that they have returned them."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Awaited:
    """A worker that is waited for."""

    device: str
    chunks: int  # that it has not handed in yet
    since: float  # when it got the first of them, by time.monotonic


class Drain:
    """Progress of draining the pool. Made by `Pool.drain`; may be read from any thread."""

    def __init__(self) -> None:
        self._awaited: tuple[Awaited, ...] = ()
        self._over = threading.Event()

    @property
    def awaited(self) -> tuple[Awaited, ...]:
        """The workers that are waited for, as of the pool's last look; empty also before its first."""
        return self._awaited

    @property
    def over(self) -> bool:
        """True where every chunk that was with a worker has come to an end, and has been delivered."""
        return self._over.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over; whether it is."""
        return self._over.wait(seconds)

    def tell(self, awaited: tuple[Awaited, ...]) -> None:
        """For the pool: what it waits for now."""
        self._awaited = awaited
        if not awaited:
            self._over.set()
