"""Table of usage by key and day, in SQLite or PostgreSQL; several services on one database add to the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from voxyard.service.documents.sql import Connection, Database

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
