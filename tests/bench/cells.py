"""make bench-cells: one service and three on one PostgreSQL behind HAProxy; what kills and frozen services cost.

The engine waits instead of computing, as a GPU has its host wait: on a machine of few cores three services that
computed would share what one has. PostgreSQL is on loopback and commits durably.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import paths

ROOT = Path(__file__).resolve().parents[2]
paths.add()

from cells import NAMES, PATIENCE, Cells, running_cells, undisturbed
from documents import new_document
from eventually import eventually
from postgres_server import PostgresServer, running_server
from tones_process import TonesProcess

from voxyard.service.config import ServiceSection
from voxyard.service.documents.store import Store

OUTPUT = ROOT / "build" / "bench" / "cells.json"
CLAIM_SECONDS = ServiceSection().claim_seconds
CHUNK_SECONDS, CHUNKS = 0.4, 4
DOCUMENTS, BURST, ROUNDS = 45, 6, 3
DISTURBANCES, DISTURBED = 4, 16  # each with so many documents
ACCEPTED, ACCEPT_ROUNDS, ACCEPT_CHUNKS = 50, 15, 20


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write the JSON; 1 where a document was lost or a stale owner has written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the throughput")
    parser.add_argument("--disturbances", type=int, default=DISTURBANCES, help="kills and frozen services by turns")
    chosen = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="voxyard-cells-"))
    try:
        with running_server(fsync="on") as server:
            accept = accepting(server, folder)
            speed = throughput(server, folder, chosen.rounds)
            faults = disturbed(server, folder, chosen.disturbances)
    finally:
        shutil.rmtree(folder)
    ratios = {
        "lost": faults["lost"] + speed["lost"],
        "stale_writes": faults["stale_writes"] + speed["stale_writes"],
        "takeover_vs_claim": faults["takeover_seconds_longest"] / CLAIM_SECONDS,
        "documents_per_second_3_vs_1": speed["ratio"],
        "burst_3_vs_1": speed["burst_ratio"],
        "sqlite_vs_postgres_accept": accept["sqlite_ms"] / accept["postgres_ms"],
    }
    figures = {
        "claim_seconds": CLAIM_SECONDS,
        "chunk_seconds": CHUNK_SECONDS,
        **{f"accept_{name}": value for name, value in accept.items()},
        **{f"throughput_{name}": value for name, value in speed.items()},
        **{f"disturbed_{name}": value for name, value in faults.items()},
    }
    result = {
        "name": "cells",
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "ratios": ratios,
        "figures": figures,
    }
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, value in {**figures, **ratios}.items():
        print(f"{name:50}{value:12.3f}")
    return 1 if ratios["lost"] or ratios["stale_writes"] else 0


def accepting(server: PostgresServer, folder: Path) -> dict[str, float]:
    """Milliseconds until a document is stored, by turns in SQLite and in PostgreSQL on loopback; medians of rounds."""
    stores = {"sqlite": Store(folder / "documents.sqlite"), "postgres": Store(server.url(host="127.0.0.1"))}
    took: dict[str, list[float]] = {name: [] for name in stores}
    for turn in range(ACCEPT_ROUNDS + 1):
        for name, store in stores.items():
            news = [new_document(turn * ACCEPTED + number, ACCEPT_CHUNKS) for number in range(ACCEPTED)]
            began = time.perf_counter()
            for new in news:
                store.accept(new)
            if turn:  # both are warm
                took[name].append((time.perf_counter() - began) * 1000 / ACCEPTED)
    for store in stores.values():
        store.close()
    return {f"{name}_ms": statistics.median(each) for name, each in took.items()}


def throughput(server: PostgresServer, folder: Path, rounds: int) -> dict[str, float]:
    """Documents a second of one service and of three, by turns; the same of few documents that come at once."""
    with ExitStack() as stack:
        fleets = {
            len(names): stack.enter_context(
                running_cells(
                    folder / str(len(names)), server, names, claim_seconds=CLAIM_SECONDS, chunks=CHUNKS,
                    seconds=CHUNK_SECONDS, gateway=True,
                )
            )
            for names in (NAMES[:1], NAMES)
        }  # fmt: skip
        expected = undisturbed(fleets[1], folder)
        rates: dict[tuple[int, int], list[float]] = {}
        for _ in range(rounds):
            for count, cells in fleets.items():
                for documents in (DOCUMENTS, BURST):
                    rates.setdefault((count, documents), []).append(rate(cells, documents))
        return {
            "documents_per_second_of_1": statistics.median(rates[1, DOCUMENTS]),
            "documents_per_second_of_3": statistics.median(rates[3, DOCUMENTS]),
            "bound_of_1": 1 / (CHUNKS * CHUNK_SECONDS),
            "ratio": ratio(rates[3, DOCUMENTS], rates[1, DOCUMENTS]),
            "burst_ratio": ratio(rates[3, BURST], rates[1, BURST]),
            "lost": sum(cells.lost(expected) for cells in fleets.values()),
            "stale_writes": sum(cells.stale_writes() for cells in fleets.values()),
        }


def ratio(several: list[float], one: list[float]) -> float:
    """Median of the rounds' ratios."""
    return statistics.median(mine / other for mine, other in zip(several, one, strict=True))


def rate(cells: Cells, documents: int) -> float:
    """Documents a second from the first request to the last completion."""
    began = time.monotonic()
    cells.write(documents)
    cells.all_completed()
    return documents / (time.monotonic() - began)


def disturbed(server: PostgresServer, folder: Path, disturbances: int) -> dict[str, float]:
    """Services are killed and frozen by turns in mid-document; how long until others have their documents."""
    takeovers: list[float] = []
    with running_cells(
        folder / "disturbed",
        server,
        claim_seconds=CLAIM_SECONDS,
        chunks=2 * CHUNKS,
        seconds=CHUNK_SECONDS,
        gateway=True,
    ) as cells:
        expected = undisturbed(cells, folder)
        for turn in range(disturbances):
            writing, failures = cells.at_work(DISTURBED)
            takeovers.append(takeover(cells, cells.services[turn % len(NAMES)], frozen=turn % 2 == 1))
            writing.join()
            if failures:
                raise failures[0]
            cells.all_completed()
            eventually(lambda: all(each.ready for each in cells.services), "all services are ready", PATIENCE)
        return {
            "documents": float(len(cells.ids)),
            "lost": cells.lost(expected),
            "stale_writes": cells.stale_writes(),
            "takeover_seconds_median": statistics.median(takeovers),
            "takeover_seconds_longest": max(takeovers),
        }


def takeover(cells: Cells, service: TonesProcess, *, frozen: bool) -> float:
    """Seconds from the end of a service in mid-document until others have its documents; it is back then."""
    ids = cells.in_mid_document(service)
    began = time.monotonic()
    if frozen:
        service.signal(signal.SIGSTOP)
    else:
        service.end()
    took = cells.taken_over(ids, service, began)
    if frozen:
        service.signal(signal.SIGCONT)
    else:
        service.start()
    return took


if __name__ == "__main__":
    sys.exit(main())
