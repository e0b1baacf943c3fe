"""make bench-service: what the service adds to an instant engine; 500 documents at once; memory over the run.

The client runs on the same machine: its CPU time is told apart from the service's, and rates are of both together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = map(str, (Path(__file__).resolve().parents[1] / "support").glob("*/"))

import httpx
import psutil

from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request

OUTPUT = Path(__file__).resolve().parents[2] / "build" / "bench" / "service.json"
UNDER_TEST = Path(__file__).with_name("service_under_test.py")
SENTENCE = "The old sailor opens the heavy door."
STORY = " ".join([SENTENCE] * 8)
DOCUMENTS, AT_ONCE, LATENCIES, WAVES = 500, 100, 300, 3
_MIB = 2**20


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write the JSON; 1 where a document was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, str(UNDER_TEST), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            figures = asyncio.run(measure(address, psutil.Process(process.pid), chosen.documents))
        finally:
            process.communicate("", timeout=60)
    result = {
        "name": "service",
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "ratios": {"lost": figures["documents_lost"], "rss_growth": figures["resident_growth"]},
        "figures": figures,
    }
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, value in figures.items():
        print(f"{name:50}{value:12.3f}")
    return 1 if figures["documents_lost"] else 0


async def measure(address: str, process: psutil.Process, documents: int) -> dict[str, float]:
    """All figures; times in milliseconds, memory in MiB."""
    limits = httpx.Limits(max_connections=AT_ONCE)
    async with httpx.AsyncClient(base_url=address, timeout=300, limits=limits) as client:
        await ready(client)
        figures = await latencies(client, process)
        resident = [process.memory_info().rss / _MIB]
        lost = accepted = 0.0
        cpu = Cpu(process)
        for _ in range(WAVES):
            rate, missing = await wave(client, documents)
            accepted, lost = max(accepted, rate), lost + missing
            resident.append(process.memory_info().rss / _MIB)
        spent = cpu.spent("document", documents * WAVES)
    return {
        **figures,
        "documents": float(documents * WAVES),
        "documents_lost": lost,
        "documents_accepted_per_second_beside_the_client": accepted,
        **spent,
        "resident_mib_after_first_wave": resident[1],
        "resident_mib_after_last_wave": resident[-1],
        "resident_growth": resident[-1] / resident[1],
    }


async def ready(client: httpx.AsyncClient) -> None:
    """Wait until a worker is there."""
    while (await client.get("/readyz")).status_code != 200:
        await asyncio.sleep(0.1)


class Cpu:
    """CPU time from now on: of the service with its workers, and of this process, which is the client."""

    def __init__(self, service: psutil.Process) -> None:
        self._service = service
        self._begin = self._read()

    def spent(self, what: str, count: int) -> dict[str, float]:
        """Milliseconds for each of so many."""
        each = [(now - then) * 1000 / count for now, then in zip(self._read(), self._begin, strict=True)]
        return {f"service_cpu_ms_per_{what}": each[0], f"client_cpu_ms_per_{what}": each[1]}

    def _read(self) -> tuple[float, float]:
        """Seconds; of processes that have ended, what their parents have waited for."""
        of_service = [each.cpu_times() for each in [self._service, *self._service.children(recursive=True)]]
        return sum(sum(times[:4]) for times in of_service), time.process_time()


async def latencies(client: httpx.AsyncClient, process: psutil.Process) -> dict[str, float]:
    """A sentence over HTTP and the same straight through a pool, by turns."""
    over_http: list[float] = []
    direct: list[float] = []
    body = {"model": "tts-1", "input": SENTENCE, "voice": "alloy", "response_format": "wav"}
    with Pool(EngineSpec("engines:tones", {"rows": 8, "samples": 240}), [Device("cpu0"), Device("cpu1")]) as pool:

        def speak() -> None:
            list(pool.submit([Request(0, SENTENCE)], listening=True).results())

        for turn in range(LATENCIES + 20):
            began = time.perf_counter()
            answer = await client.post("/v1/audio/speech", json=body)
            took = time.perf_counter() - began
            answer.raise_for_status()
            alone = timed(speak)
            if turn >= 20:  # both are warm
                over_http.append(took)
                direct.append(alone)
        cpu, began = Cpu(process), time.perf_counter()
        await asyncio.gather(*(client.post("/v1/audio/speech", json=body) for _ in range(LATENCIES)))
        together = LATENCIES / (time.perf_counter() - began)
        spent = cpu.spent("speech_request", LATENCIES)
    added = [http - alone for http, alone in zip(over_http, direct, strict=True)]
    return {
        "speech_p50_ms": statistics.median(over_http) * 1000,
        "pool_alone_p50_ms": statistics.median(direct) * 1000,
        "added_p50_ms": statistics.median(added) * 1000,
        "added_p99_ms": statistics.quantiles(added, n=100)[-1] * 1000,
        "speech_requests_per_second_beside_the_client": together,
        **spent,
    }


def timed(action: Callable[[], Any]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


async def wave(client: httpx.AsyncClient, documents: int) -> tuple[float, int]:
    """Send so many documents at once; accepted ones a second, and how many never became sound."""
    began = time.perf_counter()
    answers = await asyncio.gather(
        *(client.post("/v1/documents", json={"text": STORY, "seed": number}) for number in range(documents))
    )
    rate = documents / (time.perf_counter() - began)
    accepted = [answer.json()["id"] for answer in answers if answer.status_code == 202]
    whole = await asyncio.gather(*(completed(client, document) for document in accepted))
    return rate, documents - sum(whole)


async def completed(client: httpx.AsyncClient, document: str) -> bool:
    """True where it becomes sound; it is deleted then."""
    for _ in range(1200):
        found = (await client.get(f"/v1/documents/{document}")).json()
        if found["state"] in ("completed", "failed"):
            break
        await asyncio.sleep(0.25)
    sound = await client.get(f"/v1/documents/{document}/audio?format=wav")
    await client.delete(f"/v1/documents/{document}")
    return sound.status_code == 200 and len(sound.content) > 1000


if __name__ == "__main__":
    sys.exit(main())
