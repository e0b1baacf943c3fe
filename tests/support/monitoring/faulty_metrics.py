"""Simulated hosts served on loopback: one with faults, one with a small training run.

Its values come from voxyard's own collectors; only node_exporter's series are written here.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol, cast
from unittest.mock import patch

from prometheus_client import CollectorRegistry, generate_latest
from simulated_host import GIB, Reads, SimulatedHost

from voxyard.service.documents.claims import SharedDocuments
from voxyard.service.http.metrics import DiskUsage, ServiceMetrics
from voxyard.speech.cluster.node_metrics import NodeMetrics
from voxyard.telemetry.configuration import EXPECTED_FILE, HASH_VARIABLE, RELEASE_VARIABLE

HOST, RUN = "gpu-02", "sick"
SMALL, SMALL_RUN, SMALL_DATA, SMALL_MODEL = "gpu-04", "small", 0, 1
SMALL_PLAN = "workloads:\n  - {workload: trainer, role: data}\n  - {workload: trainer, role: model}\n"
if TYPE_CHECKING:
    from voxyard.speech.cluster.node import Node

UNSTABLE = "gpu-05"
DEPLOYED, STARTED = "0000deadbeef", "feed00000000"  # the configuration of bark that should run, and that does
SILENT_SECONDS = 700.0
REFUSED = ("nvmlDeviceGetFanSpeed", 999)
SKEW_SECONDS = -90.0
STARTS = (2, 4, 6, 8, 10)  # scrapes: a busy machine makes fewer of them, and each start is to be seen
SMALL_FLAPPING, LOSSES = 7, range(3, 27, 2)  # the GPU, and the scrapes for which it is away
BUSY_SECONDS, GIVEN_UP_SECONDS = 45, 20
GONE = "gpu-06"
DISK_FREE, MEMORY_FREE, IO_PRESSURE = 0.05, 0.02, 0.8
STEP_SECONDS, WAIT_SECONDS, VARIATION = 0.5, 0.4, 0.6
CHUNK_SECONDS, GIVEN_UP, FIRST_SOUND_SECONDS, UNDERRUN_SECONDS = 16.0, 5, 45.0, 8.0


class FaultyHost:
    """The driver is gone, the disk full, the trainer waits for data, the pool lacks workers; later the run stalls.

    And somebody has started the pool with settings of their own. Its speech service takes over documents of the host
    UNSTABLE all the time, and has little room for audio; every other document fails, all streams are outrun. Its node
    of a cluster does not stay up.
    """

    def __init__(self, plan: Path, state: Path) -> None:
        """`plan` is the host's plan; what a deployment left on it is written to the directory `state`."""
        state.mkdir()
        expected = {"release": "0123456789ab", "services": {"bark": DEPLOYED}}
        (state / EXPECTED_FILE).write_text(json.dumps(expected), encoding="utf-8")
        self._host = SimulatedHost(plan, state=state, now=time.time())
        self._host.driver_gone_since = time.time() - SILENT_SECONDS
        self._host.disk_free, self._host.memory_free = DISK_FREE, MEMORY_FREE
        self._host.pressure["io"] = IO_PRESSURE
        run = self._host.start_run(RUN, 0, 1)
        run.step_seconds, run.wait_seconds, run.variation = STEP_SECONDS, WAIT_SECONDS, VARIATION
        run.reads = Reads(reading=0.9, computing=0.1, waiting=0.8, second_network=0.1)
        run.metrics.validation({"total": 2.5})
        run.metrics.epoch(0)
        run.metrics.checkpoint(0.4)
        with patch.dict(os.environ, {HASH_VARIABLE: STARTED, RELEASE_VARIABLE: "fedcba987654"}):
            pool = self._host.start_pool([2, 3, 4, 5])
        pool.running, pool.waiting, pool.chunk_seconds = 1, 20, CHUNK_SECONDS
        pool.first_sound_seconds = FIRST_SOUND_SECONDS
        pool.faulty = {"2": (1.0, "silent")}
        self._taken_over = 0
        self._gives_up = False
        self._service = ServiceMetrics(
            self._host.registries["bark"],
            ended=lambda: {"failed": self._taken_over, "completed": self._taken_over},
            disk=lambda: DiskUsage(97 * GIB, 100 * GIB, 3 * GIB),
            shared=lambda: SharedDocuments(
                True,
                2,
                {UNSTABLE: self._taken_over},
                transactions=10 * self._taken_over,
                seconds=0.04 * self._taken_over,
            ),
        )
        node = SimpleNamespace(spec=SimpleNamespace(role="worker"), joined=False)
        registry = self._host.registries["cluster-worker"] = CollectorRegistry()
        registry.register(NodeMetrics(cast("Node", node)))
        self._lock = threading.Lock()

    def tick(self) -> None:
        """A second goes by: the queue grows."""
        with self._lock:
            self._host.advance(1.0)
            self._host.now = time.time()
            self._taken_over += 1
            self._service.stream_heard(UNDERRUN_SECONDS)
            if self._host.pool is not None:
                self._host.pool.waiting += 1
            if self._gives_up and self._taken_over % GIVEN_UP_SECONDS == 0:
                self._give_up()

    def give_chunks_up(self) -> None:
        """From now on, chunks that failed on every worker: now and again, for what a busy machine does not scrape."""
        assert self._host.pool is not None
        with self._lock:
            self._give_up()
            self._gives_up = True
        self._host.pool.metrics.device_waits("4", "memory")

    def _give_up(self) -> None:
        assert self._host.pool is not None
        for _ in range(GIVEN_UP):
            self._host.pool.metrics.chunk_failed("timeout", silence=False)
            self._host.pool.metrics.failure("3", "timeout")

    def stall(self) -> None:
        """The run makes no step any more, and its last loss was not a number."""
        assert self._host.run is not None
        self._host.run.learning = False
        self._host.run.loss = float("nan")

    def pages(self) -> dict[str, Callable[[], bytes]]:
        """Pages that each job serves."""
        return _pages(self._host, self._lock)


class Starts:
    """Starts of a host after its first scrapes, STARTS of them, as a job's page is asked for."""

    def __init__(self, job: str) -> None:
        self._job, self._made = job, 0
        self.scrapes = 0

    def due(self) -> bool:
        """True once for each of them."""
        due = self._made < len(STARTS) and self.scrapes >= STARTS[self._made]
        self._made += due
        return due

    def counting(self, pages: dict[str, Callable[[], bytes]]) -> dict[str, Callable[[], bytes]]:
        """The pages, of which the job's counts how often it is asked for."""
        page = pages[self._job]

        def counted() -> bytes:
            self.scrapes += 1
            return page()

        return pages | {self._job: counted}


class SmallRunHost:
    """A host whose run never waits for data and fills a third of its model GPU, and whose clock is wrong.

    Its speech service reaches neither the database of its documents nor their audio, its run and its exporter were
    started six times, its driver refuses a call each second, and one of its idle GPUs comes and goes.
    """

    def __init__(self, plan: Path) -> None:
        """`plan` is the host's plan, which expects the trainer alone."""
        plan.write_text(SMALL_PLAN, encoding="utf-8")
        self._host = SimulatedHost(plan, now=time.time())
        self._host.start_run(SMALL_RUN, SMALL_DATA, SMALL_MODEL)
        self._host.clock_skew = SKEW_SECONDS
        registry = self._host.registries["bark"] = CollectorRegistry()
        ServiceMetrics(registry, shelf=lambda: False, shared=lambda: SharedDocuments(False, 0, {}))
        self._host.gpus[SMALL_DATA].utilization, self._host.gpus[SMALL_MODEL].utilization = 0.1, 0.3
        self._starts = Starts("exporter")
        self._lock = threading.Lock()

    def tick(self) -> None:
        """A second goes by; after some of the first scrapes the run starts again."""
        with self._lock:
            self._host.advance(1.0)
            self._host.now = time.time()
            self._host.nvml_errors[REFUSED] = self._host.nvml_errors.get(REFUSED, 0) + 1
            self._host.gpus[SMALL_FLAPPING].up = self._starts.scrapes not in LOSSES
            if self._starts.due() and self._host.run is not None:
                self._host.run.metrics.start()
                self._host.restart("exporter")

    def pages(self) -> dict[str, Callable[[], bytes]]:
        """Pages that each job serves."""
        return self._starts.counting(_pages(self._host, self._lock))


class GoneHost:
    """A host with a run whose GPU idles after a while, for no reason that is measured; then all of the host is gone.

    Before, it was started anew again and again.
    """

    def __init__(self, plan: Path) -> None:
        """`plan` is the host's plan, which expects the trainer alone."""
        plan.write_text(SMALL_PLAN, encoding="utf-8")
        self._host = SimulatedHost(plan, now=time.time())
        self._host.start_run(SMALL_RUN, SMALL_DATA, SMALL_MODEL)
        self._host.gpus[SMALL_DATA].utilization, self._host.gpus[SMALL_MODEL].utilization = 0.6, 0.95
        self._seconds = 0
        self._starts = Starts("node")
        self._lock = threading.Lock()

    def tick(self) -> None:
        """A second goes by."""
        with self._lock:
            self._host.advance(1.0)
            self._host.now = time.time()
            self._seconds += 1
            if self._starts.due():
                self._host.reboot()
            if self._seconds == BUSY_SECONDS:
                self._host.gpus[SMALL_MODEL].utilization = 0.2

    def pages(self) -> dict[str, Callable[[], bytes]]:
        """Pages that each job serves."""
        return self._starts.counting(_pages(self._host, self._lock))


class Host(Protocol):
    """A simulated host that can be served."""

    def tick(self) -> None:
        """A second goes by."""

    def pages(self) -> dict[str, Callable[[], bytes]]:
        """Pages that each job serves."""


@contextmanager
def faulty_host(plan: Path, state: Path) -> Iterator[tuple[FaultyHost, dict[str, int]]]:
    """The host and the ports of its jobs."""
    host = FaultyHost(plan, state)
    with served(host) as ports:
        yield host, ports


@contextmanager
def served(host: Host) -> Iterator[dict[str, int]]:
    """The ports of a host's jobs; a second of it is a second."""
    ended = threading.Event()
    servers = {job: _serve(page) for job, page in host.pages().items()}

    def live() -> None:
        while not ended.wait(1.0):
            host.tick()

    loops = [live, *(server.serve_forever for server in servers.values())]
    threads = [threading.Thread(target=loop) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield {job: int(server.server_address[1]) for job, server in servers.items()}
    finally:
        ended.set()
        for server in servers.values():
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join(30)


def _pages(host: SimulatedHost, lock: threading.Lock) -> dict[str, Callable[[], bytes]]:
    def node() -> bytes:
        with lock:
            series_of_host = host.node()
        return "".join(f"{series.removesuffix('{}')} {value}\n" for series, value in series_of_host.items()).encode()

    return {job: _page(registry, lock) for job, registry in host.registries.items()} | {"node": node}


def _page(registry: CollectorRegistry, lock: threading.Lock) -> Callable[[], bytes]:
    def page() -> bytes:
        with lock:
            return generate_latest(registry)

    return page


def _serve(page: Callable[[], bytes]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)
