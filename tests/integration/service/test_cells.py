"""Three real services on one PostgreSQL and one directory, which are killed and frozen, and whose database restarts."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cells import PATIENCE, Cells, running_cells, undisturbed
from eventually import eventually
from postgres_server import PostgresServer, running_server

from voxyard.service.config import ServiceSection

CLAIM_SECONDS = 2.0
SHIPPED_CLAIM_SECONDS = ServiceSection().claim_seconds
LONG_SECONDS, DOCUMENTS = 600.0, 500  # at least, of the long proof


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    with running_server() as running:
        yield running


@pytest.mark.long  # the last test here has a kill and a frozen service, test_claims.py a database that restarts
def test_a_kill_a_frozen_service_and_a_restart_of_the_database_lose_nothing(
    server: PostgresServer, tmp_path: Path
) -> None:
    with running_cells(tmp_path, server, claim_seconds=CLAIM_SECONDS, active_documents=4) as cells:
        expected = undisturbed(cells, tmp_path)
        writing, failures = cells.at_work(40)
        disturbances: list[Callable[[], None]] = [
            cells.kill, cells.kill_worker, cells.freeze, cells.restart_database,
        ]  # fmt: skip
        for place, disturb in enumerate(disturbances):
            eventually(lambda place=place: cells.completed() >= 3 + 7 * place, "documents are completed", PATIENCE)  # type: ignore[misc]
            disturb()
        writing.join()
        assert failures == []
        cells.check(expected)
        cells.check_webhooks(len(disturbances))


NEXT_RELEASE = (  # in an order in which nothing else locks these tables
    "ALTER TABLE chunks ADD COLUMN later TEXT",
    "CREATE INDEX chunks_later ON chunks (later)",
    "ALTER TABLE documents ALTER COLUMN title TYPE VARCHAR",
    "ALTER TABLE documents ADD COLUMN later BIGINT NOT NULL DEFAULT 7",
)


@pytest.mark.slow
def test_a_rolling_upgrade_over_a_migration_fails_no_request(server: PostgresServer, tmp_path: Path) -> None:
    """One service after the other is the next release's, while those of before go on with the schema of that."""
    with running_cells(tmp_path, server, claim_seconds=CLAIM_SECONDS, active_documents=4) as cells:
        expected = undisturbed(cells, tmp_path)
        writing, failures = cells.at_work(None)
        reading, wrong = cells.read()
        for place, service in enumerate(cells.services):
            eventually(lambda place=place: cells.completed() >= 3 + 7 * place, "documents are completed", PATIENCE)  # type: ignore[misc]
            service.stop()
            service.migration = NEXT_RELEASE
            service.start()
            eventually(lambda service=service: service.ready, "the next release is ready", PATIENCE)  # type: ignore[misc]
        had = cells.completed()
        eventually(lambda: cells.completed() >= had + 7, "documents are completed after the upgrade", PATIENCE)
        cells.stop.set()
        writing.join()
        reading.join()
        assert failures == []
        assert wrong == []
        assert cells.count("later = 7") == len(cells.ids)
        cells.check(expected)
        logs = logs_of(cells)
        assert "Traceback" not in logs
        assert "cached plan" not in logs


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_minutes_of_disturbances_behind_a_gateway_lose_nothing(server: PostgresServer, tmp_path: Path) -> None:
    with running_cells(tmp_path, server, claim_seconds=CLAIM_SECONDS, active_documents=4, gateway=True) as cells:
        expected = undisturbed(cells, tmp_path)
        writing, failures = cells.at_work(None)
        events = [
            cells.kill, cells.kill, cells.kill_worker, cells.freeze, cells.freeze, cells.restart_database,
        ]  # fmt: skip
        end, disturbances = time.monotonic() + LONG_SECONDS, 0
        while (time.monotonic() < end or len(cells.ids) < DOCUMENTS) and not failures:
            cells.dice.choice(events)()
            disturbances += 1
            time.sleep(cells.dice.uniform(0, 4 * CLAIM_SECONDS))
        cells.stop.set()
        writing.join()
        assert failures == []
        cells.check(expected)
        cells.check_webhooks(disturbances)
        logs = logs_of(cells)
        assert "was taken over by another service" in logs, "nobody was frozen long enough to try a stale write"
        assert "Traceback" not in logs


@pytest.mark.slow
def test_with_the_shipped_life_of_a_claim_others_take_over_and_the_stale_owner_is_refused(
    server: PostgresServer, tmp_path: Path
) -> None:
    with running_cells(tmp_path, server, claim_seconds=SHIPPED_CLAIM_SECONDS, chunks=10, gateway=True) as cells:
        expected = undisturbed(cells, tmp_path)
        killed, frozen, _ = cells.services
        writing, failures = cells.at_work(9)
        of_killed, of_frozen = cells.in_mid_document(killed), cells.in_mid_document(frozen)
        began = time.monotonic()
        killed.end()
        frozen.signal(signal.SIGSTOP)
        took = [cells.taken_over(of_killed, killed, began), cells.taken_over(of_frozen, frozen, began)]
        frozen.signal(signal.SIGCONT)
        killed.start()
        writing.join()
        assert failures == []
        assert max(took) <= SHIPPED_CLAIM_SECONDS + PATIENCE
        cells.check(expected)
        refused = "was taken over by another service"
        eventually(lambda: refused in frozen.log.read_text(), "the one that was frozen knows that it lost a document")
        assert "Traceback" not in logs_of(cells)


def logs_of(cells: Cells) -> str:
    """What all services have logged."""
    return "".join(service.log.read_text() for service in cells.services)
