"""A service for tests: real store, audio store and queue, a real pool of tones engines, on a real socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from eventually import PATIENCE, eventually
from fastapi import FastAPI
from frontends import TONE_FILES, TonesFrontend
from prometheus_client import CollectorRegistry

from voxyard.service.app import create_app
from voxyard.service.config import ServiceSection
from voxyard.service.state import AppState
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.frontend import VoiceFiles
from voxyard.speech.placement import Refusal
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.scheduler import PoolStats
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.reading.options import READING, ReadingOptions


class Watch(PoolMetrics):
    """The pool's last counts, how many chunks were sent and spoken, and why others failed."""

    def __init__(self) -> None:
        super().__init__()
        self.queue, self.chunks, self.sent = 0, 0, 0
        self.failures: list[str] = []

    def stats(self, stats: PoolStats) -> None:
        self.queue = stats.waiting + stats.leased

    def chunk_sent(self, device: str, chunks: int) -> None:
        self.sent += 1

    def failure(self, device: str, cause: str) -> None:
        self.failures.append(cause)

    def chunk_failed(self, cause: str, *, silence: bool) -> None:
        self.failures.append(cause)

    def chunk_spoken(self, device: str, audio_seconds: float, seconds: float) -> None:
        self.chunks += 1


@contextmanager
def running(
    folder: Path,
    *,
    workers: int = 1,
    watch: Watch | None = None,
    engine: dict[str, Any] | None = None,
    admit: Callable[[Device], Refusal | None] = lambda _: None,
    reading: ReadingOptions = READING,
    voice_files: VoiceFiles | None = TONE_FILES,
    speeds: tuple[float, float] = (1.0, 1.0),
    **settings: Any,
) -> Iterator[AppState]:
    """Services over data in `folder`; `engine` are the settings of the tones, `settings` the service's."""
    section = ServiceSection(data_dir=folder, **settings)
    tones = TonesFrontend({"marks": str(folder), **(engine or {})}, voice_files=voice_files, speeds=speeds)
    folder.mkdir(exist_ok=True)
    watch = Watch() if watch is None else watch
    pool = Pool(
        tones.engine,
        [Device(f"cpu {number}", "") for number in range(workers)],
        limits=PoolLimits(backoff=0.01, max_backoff=0.05),
        heartbeat_seconds=0.2,
        observer=watch,
        admit=admit,
    )
    try:
        with AppState(section, Pauses(), tones, pool, CollectorRegistry(), reading=reading) as state:
            yield state
    finally:
        pool.close(0.3)


@contextmanager
def quiet(section: ServiceSection) -> Iterator[AppState]:
    """Services whose pool has no worker, for what speaks nothing."""
    tones = TonesFrontend({})
    with (
        Pool(tones.engine, [], no_device="there is none") as pool,
        AppState(section, Pauses(), tones, pool, CollectorRegistry()) as state,
    ):
        yield state


@dataclass(frozen=True)
class Served:
    """A service that listens at `url`."""

    url: str
    state: AppState
    watch: Watch
    app: FastAPI


@contextmanager
def serving(folder: Path, **options: Any) -> Iterator[Served]:
    """The service on a socket of this machine, in a thread of its own."""
    watch = Watch()
    with running(folder, watch=watch, **options) as state:
        app = create_app(state)
        server = uvicorn.Server(
            uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=server.run, name="service")
        thread.start()
        try:
            eventually(lambda: server.started, "the service listens")
            port = server.servers[0].sockets[0].getsockname()[1]
            yield Served(f"http://127.0.0.1:{port}", state, watch, app)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
