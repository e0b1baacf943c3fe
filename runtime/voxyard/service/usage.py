"""Usage of the keys: what the pool has spoken for each, summed, and stored by day, in SQLite or PostgreSQL."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from voxyard.service.documents.database import Connection, Database
from voxyard.service.errors import ServiceError

KEPT_DAYS = 400


@dataclass(frozen=True)
class Amounts:
    """What was spoken: characters sent and seconds of audio of finished chunks; seconds of GPUs, also for others."""

    characters: int = 0
    audio_seconds: float = 0.0
    gpu_seconds: float = 0.0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.characters + other.characters,
            self.audio_seconds + other.audio_seconds,
            self.gpu_seconds + other.gpu_seconds,
        )


@dataclass(frozen=True)
class Usage:
    """Usage of a key on a day (UTC)."""

    day: date
    key: str
    amounts: Amounts


class UsageTable:
    """Usage that is stored. Its methods raise as those of the store, and may be called from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, found: Mapping[tuple[date, str], Amounts]) -> None:
        """Adds amounts by day and key, and deletes what is older than KEPT_DAYS before the latest of the days."""
        with self._database.write() as connection:
            self.add_within(connection, found)
            oldest = max(day for day, _ in found) - timedelta(KEPT_DAYS)
            connection.execute("DELETE FROM usage WHERE day < $1", (oldest.isoformat(),))

    @staticmethod
    def add_within(connection: Connection, found: Mapping[tuple[date, str], Amounts]) -> None:
        """Adds amounts by day and key in a write transaction of other changes."""
        connection.executemany(
            """
            INSERT INTO usage (day, owner, characters, audio_seconds, gpu_seconds) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (day, owner) DO UPDATE SET characters = usage.characters + excluded.characters,
                audio_seconds = usage.audio_seconds + excluded.audio_seconds,
                gpu_seconds = usage.gpu_seconds + excluded.gpu_seconds
            """,
            [
                (day.isoformat(), key, amounts.characters, amounts.audio_seconds, amounts.gpu_seconds)
                for (day, key), amounts in sorted(found.items())  # one order: no deadlock
            ],
        )

    def since(self, day: date, key: str | None = None) -> tuple[Usage, ...]:
        """Usage from a day on, by day and key: of one key, or of all."""
        with self._database.read() as connection:
            found = connection.execute(
                """
                SELECT day, owner, characters, audio_seconds, gpu_seconds FROM usage
                WHERE day >= $1 AND (CAST($2 AS TEXT) IS NULL OR owner = $2) ORDER BY day, owner
                """,
                (day.isoformat(), key),
            )
            return tuple(
                Usage(
                    date.fromisoformat(row["day"]),
                    row["owner"],
                    Amounts(row["characters"], row["audio_seconds"], row["gpu_seconds"]),
                )
                for row in found
            )


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
