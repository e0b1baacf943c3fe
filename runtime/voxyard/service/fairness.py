"""What API keys have beside each other: their limits, fair parts of places, and threads by turns."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from voxyard.service.errors import ServiceError
from voxyard.speech.errors import given_up_by


class KeyLimits(BaseModel):
    """Limits of one key beside those of the service; None where only the service's count."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    requests_per_minute: int | None = Field(default=None, ge=1)
    speech_requests: int | None = Field(default=None, ge=1)  # at a time
    documents: int | None = Field(default=None, ge=1)  # pending
    characters: int | None = Field(default=None, ge=1)  # of one text
    share: float = Field(
        default=1.0, ge=0.01, le=100.0
    )  # of the workers, beside the shares of the other keys with work

    def characters_of(self, most: int) -> int:
        """Most characters of a text, where the service allows this many."""
        return most if self.characters is None else min(most, self.characters)

    def changed(self) -> dict[str, Any]:
        """The limits that differ from the defaults, as the file has them."""
        return self.model_dump(exclude_defaults=True)

    def describe(self) -> str:
        """The limits that differ from the defaults, in one line; "" where there are none."""
        return ", ".join(f"{name} {value:g}" for name, value in self.changed().items())


NO_LIMITS = KeyLimits()
LimitsOf = Callable[[str], KeyLimits]
"""Limits by the name of a key."""


def no_limits(_: str) -> KeyLimits:
    """Limits where no API keys are required."""
    return NO_LIMITS


def read_limits(found: object) -> KeyLimits:
    """Limits of a key file's entry. Raises ServiceError with the field that is wrong."""
    try:
        return KeyLimits.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(("limits", *map(str, first["loc"])))
        known = ", ".join(KeyLimits.model_fields)
        raise ServiceError(f"{field}: {first['msg']}; the limits are {known}") from error


def fair_part(whole: int, name: str, busy: Collection[str], limits: LimitsOf) -> float:
    """Part of `whole` places that a key may take while the keys `busy` have some, by the shares of all of these.

    A key below its part is admitted even where others have taken all: it waits for nobody. So there are at most
    1 + 1/2 + … + 1/n times as many places in use, for n keys of equal share.
    """
    share = limits(name).share
    return whole * share / (share + sum(limits(other).share for other in busy if other != name))


THREADS = 2
KEPT_SECONDS = 10.0  # that a thread waits for more work: to start one costs as much as to read a short text
Made = TypeVar("Made")


class FairThreads:
    """Threads of one kind of work, one at a time for each key; used from one event loop.

    A key's work waits in its own line. Of the keys that wait, the one comes next that has had the least time by its
    share. So another key waits for a place as long as one piece of work takes, not for a line. Shutdown waits for no
    thread. What has not begun is withdrawn with its request, and what has begun ends where it looks for that.
    """

    def __init__(self, name: str, limits: LimitsOf = no_limits, threads: int = THREADS) -> None:
        self._name, self._limits, self._threads = name, limits, threads
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._running: set[str] = set()
        self._spent: dict[str, float] = {}  # seconds by share, of keys that wait or have a thread
        self._lock, self._free = threading.Lock(), 0  # threads that wait, less the work that is there for them
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    async def run(self, owner: str, work: Callable[[], Made]) -> Made:
        """What `work` returns, called in a thread in its turn."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._spent.setdefault(owner, min(self._spent.values(), default=0.0))
        self._waiting.setdefault(owner, deque()).append(turn)
        self._begin()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting[owner].remove(turn)
                self._forget(owner)
            else:  # it came at the same moment
                self._ended(owner, 0.0)
            raise
        made: asyncio.Future[Made] = loop.create_future()
        given_up = threading.Event()
        self._hand_over(partial(self._do, loop, owner, work, made, given_up))
        try:
            return await made
        finally:
            given_up.set()

    def _hand_over(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._work.put(work)
            self._free -= 1
            if self._free >= 0:
                return
            self._free = 0
        threading.Thread(target=self._serve, name=self._name, daemon=True).start()

    def _serve(self) -> None:
        """A thread: works until it has had nothing to do for a while."""
        while True:
            try:
                work = self._work.get(timeout=KEPT_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._work.empty():
                        self._free -= 1
                        return
                continue
            work()
            del work  # with what it has made

    def _do(
        self,
        loop: asyncio.AbstractEventLoop,
        owner: str,
        work: Callable[[], Made],
        made: asyncio.Future[Made],
        given_up: threading.Event,
    ) -> None:
        began, result, failed = time.monotonic(), list[Made](), None
        try:
            with given_up_by(given_up):
                result.append(work())
        except Exception as error:  # noqa: BLE001 — the request raises it
            failed = error

        def answer() -> None:
            self._ended(owner, time.monotonic() - began)
            if made.cancelled():
                return
            if failed is None:
                made.set_result(result[0])
            else:
                made.set_exception(failed)

        with self._lock:
            self._free += 1
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(answer)

    def _begin(self) -> None:
        """Gives free threads to the keys whose turn it is."""
        while len(self._running) < self._threads:
            ready = {
                owner: turn
                for owner, line in self._waiting.items()
                if owner not in self._running and (turn := next((each for each in line if not each.done()), None))
            }
            if not ready:
                return
            owner = min(ready, key=self._spent.__getitem__)
            self._running.add(owner)
            self._waiting[owner].remove(ready[owner])
            ready[owner].set_result(None)

    def _ended(self, owner: str, seconds: float) -> None:
        self._running.discard(owner)
        self._spent[owner] += seconds / self._limits(owner).share
        self._forget(owner)
        self._begin()

    def _forget(self, owner: str) -> None:
        """Forgets a key without work."""
        if owner not in self._running and not self._waiting.get(owner):
            self._waiting.pop(owner, None)
            self._spent.pop(owner, None)
