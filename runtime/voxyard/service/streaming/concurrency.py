"""Places of speech requests: how many are spoken at a time, in all and by key, and what slow readers may leave."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator

from voxyard.service.auth.key_limits import LimitsOf, fair_part, no_limits
from voxyard.service.errors import BusyError, UnavailableError
from voxyard.service.streaming.audio_response import Cut

MAX_UNREAD_BYTES = 64 * 2**20
"""Most synthesized audio of one key that waits for slow readers; above it the oldest of these is cut."""
_MEAN_WEIGHT = 0.2  # of the latest request in the moving average

_log = logging.getLogger(__name__)


class Place:
    """Place of one speech request: freed when its speech is synthesized, also where the client has not read it."""

    def __init__(self, limiter: ConcurrencyLimiter, client: str, cut: Cut) -> None:
        self.client, self.cut = client, cut
        self.unread: Callable[[], int] | None = None  # bytes that are synthesized and not read, once all are
        self._limiter, self._free = limiter, False
        self._began = time.monotonic()

    def spoken(self, unread: Callable[[], int]) -> None:
        """Frees the place: all is synthesized, and the reader has `unread()` bytes of it before it."""
        self.unread = unread
        self._release()
        self._limiter.limit_unread(self.client)

    def end(self) -> None:
        """Frees the place, where it is not; the request has ended."""
        self._release()
        self._limiter.forget(self)

    def _release(self) -> None:
        if not self._free:
            self._free = True
            self._limiter.release(self.client, time.monotonic() - self._began)


class ConcurrencyLimiter:
    """Limits concurrent speech requests, in all and by key; estimates Retry-After. Used from one event loop.

    Where all places are taken, a key with fewer than its fair part of them still gets one. Slow readers keep no place;
    the audio that waits for them is limited by key.
    """

    def __init__(self, limit: int, limits: LimitsOf = no_limits, *, max_unread_bytes: int = MAX_UNREAD_BYTES) -> None:
        self._limit, self._limits, self._max_unread_bytes = limit, limits, max_unread_bytes
        self._active: Counter[str] = Counter()
        self._places: dict[Place, None] = {}  # in order of arrival
        self._seconds = 1.0
        self._closed = False

    @property
    def active(self) -> int:
        """Requests whose speech is being synthesized."""
        return self._active.total()

    @property
    def open(self) -> int:
        """Requests whose response is not read to its end."""
        return len(self._places)

    def close(self) -> None:
        """Admits no more requests; those in progress continue."""
        self._closed = True

    @contextlib.contextmanager
    def acquire(self, client: str = "", cut: Cut | None = None) -> Iterator[Place]:
        """Place of one request of this key, for the block at the longest; `cut` is told where it reads too slowly.

        Raises:
            BusyError: all places are in use, or all that the key may have.
            UnavailableError: the service is shutting down.
        """
        self.check(client)
        self._active[client] += 1
        place = Place(self, client, Cut() if cut is None else cut)
        self._places[place] = None
        try:
            yield place
        finally:
            place.end()

    def release(self, client: str, seconds: float) -> None:
        """Counts a place as free that was taken for so long."""
        self._active[client] -= 1
        self._active += Counter()  # drops the keys without requests
        self._seconds += _MEAN_WEIGHT * (seconds - self._seconds)

    def forget(self, place: Place) -> None:
        """Forgets a request that has ended."""
        self._places.pop(place, None)

    def limit_unread(self, client: str) -> None:
        """Cuts the oldest slow readers of a key, while more of its audio waits for readers than may."""
        waiting = [(place, place.unread()) for place in self._places if place.client == client and place.unread]
        unread = sum(size for _, size in waiting)
        for place, size in waiting:
            if unread <= self._max_unread_bytes:
                return
            unread -= size
            self.forget(place)
            reason = (
                f"{size / 2**20:.1f} MiB of synthesized audio were not read, and slow readers of the key "
                f"{client or '(none)'} leave more than {self._max_unread_bytes / 2**20:g} MiB: the oldest is cut"
            )
            _log.warning("%s", reason)
            place.cut.now(reason)

    def check(self, client: str) -> None:
        """Refuses what `acquire` would refuse now: before anything is prepared for it. Raises as `acquire`."""
        if self._closed:
            raise UnavailableError("the service is shutting down: retry in 10 s", retry_after=10.0)
        own, most = self._active[client], self._limits(client).speech_requests
        wait = max(1, math.ceil(self._seconds / self._limit))
        if most is not None and own >= most:
            raise BusyError(
                f"{own} of {most} speech requests of the key {client} in progress; retry in {wait} s, or submit a "
                "document",
                retry_after=float(wait),
            )
        if self.active >= self._limit and own + 1 > fair_part(self._limit, client, self._active, self._limits):
            raise BusyError(
                f"{self.active} of {self._limit} speech requests in progress; retry in {wait} s, or submit a document",
                retry_after=float(wait),
            )
