"""Meter: sums what the pool has spoken for each key, and stores the sums now and then from a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime

from voxyard.service.errors import ServiceError
from voxyard.service.usage.table import Amounts, UsageTable

STORE_SECONDS = 10.0
"""Time between two writes: what speech requests have used since the last one is lost where the service is killed."""

_log = logging.getLogger("voxyard.service")


class UsageMeter:
    """Usage that is not stored yet. `charge` may be called from any thread, and returns at once."""

    def __init__(
        self, table: UsageTable, *, clock: Callable[[], float] = time.time, seconds: float = STORE_SECONDS
    ) -> None:
        self._table, self._clock, self._seconds = table, clock, seconds
        self._lock, self._storing = threading.Lock(), threading.Lock()
        self._sums: dict[tuple[date, str], Amounts] = {}
        self._stop = threading.Event()
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="voxyard-usage", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stores the rest."""
        self._stop.set()
        self._thread.join()
        self.store()

    def charge(self, key: str, characters: int, audio_seconds: float, gpu_seconds: float) -> None:
        """Adds to the sums of today, as the pool's `meter` asks."""
        amounts, place = Amounts(characters, audio_seconds, gpu_seconds), (self.today(), key)
        with self._lock:
            self._sums[place] = self._sums.get(place, Amounts()) + amounts

    def today(self) -> date:
        """The day (UTC) by the clock."""
        return datetime.fromtimestamp(self._clock(), UTC).date()

    def store(self) -> None:
        """Stores the sums. Where that fails, they are kept for the next time: at most a few numbers for each key."""
        with self._storing:
            try:
                with self.taken() as found:
                    if found:
                        self._table.add(found)
            except ServiceError as error:
                if str(error) != self._problem:
                    _log.warning("the usage of the keys cannot be stored now: %s", error)
                self._problem = str(error)
            else:
                self._problem = ""

    @contextmanager
    def taken(self) -> Iterator[Mapping[tuple[date, str], Amounts]]:
        """The sums, for a block that stores them; they are kept where it raises."""
        with self._lock:
            found, self._sums = self._sums, {}
        try:
            yield found
        except BaseException:
            with self._lock:
                for place, amounts in found.items():
                    self._sums[place] = self._sums.get(place, Amounts()) + amounts
            raise

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self.store()
