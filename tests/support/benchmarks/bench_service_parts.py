"""Parts of make bench-service: the process under benchmark, its loads, and what is measured of each."""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import bench_wrk
import httpx
import numpy as np
import psutil
from bench_slow_clients import slow_clients
from frontends import TonesFrontend
from websockets.sync.client import connect

from voxyard.service.auth.api_keys import StoredKey, hashed, new_key, write_keys
from voxyard.service.config import ServiceSection
from voxyard.service.fairness import KeyLimits
from voxyard.speech.audio.encoder import Encoder
from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.worker_process import Device
from voxyard.speech.requests import Request
from voxyard.speech.script import prepare_script

UNDER_TEST = Path(__file__).resolve().parents[2] / "bench" / "service_under_test.py"
SENTENCE = "The old sailor opens the heavy door."
STORY = " ".join([SENTENCE] * 8)
BOOK = " ".join([SENTENCE] * 550)  # 200 s of audio, an MP3 of 3.2 MB
LONG = " ".join([SENTENCE] * 40_000)  # 1.5 MB
SPEECH = {"model": "tts-1", "input": SENTENCE, "voice": "alloy", "response_format": "wav"}
CHUNK_SECONDS = 0.2  # that the engine takes for a chunk where first sound is measured
AUDIBLE = 100  # of 32,767: a sample above is heard
_PATIENCE = 120.0
_MIB = 2**20
_LIMITS = {"asks": 1_000_000, "floods": 1_000_000, "costly": ServiceSection().rate_limit}
"""Requests a minute of each key; `costly` has the shipped limit, for the others the load is the limit."""


@dataclass(frozen=True)
class Timed:
    """A load with the processor time that an answer took: the server with its workers, and the client."""

    load: bench_wrk.Load
    cpu_ms: float
    client_cpu_ms: float


@dataclass(frozen=True)
class Running:
    """The process under benchmark."""

    address: str
    process: psutil.Process
    folder: Path
    keys: Mapping[str, str]

    def headers(self, key: str = "asks") -> dict[str, str]:
        """Headers of a request with this key."""
        return {"Authorization": f"Bearer {self.keys[key]}"}

    def client(self, key: str = "asks") -> httpx.Client:
        """A client for what is not measured."""
        return httpx.Client(base_url=self.address, headers=self.headers(key), timeout=_PATIENCE)

    def cpu_seconds(self) -> float:
        """Processor time of it and its workers; of processes that have ended, what their parents have waited for."""
        each = [one.cpu_times() for one in [self.process, *self.process.children(recursive=True)]]
        return sum(sum(times[:4]) for times in each)

    def start(
        self,
        path: str,
        body: Mapping[str, object] | None,
        *,
        connections: int,
        seconds: float,
        key: str = "asks",
        close: bool = False,
    ) -> subprocess.Popen[str]:
        """Begin a load; with `close` each request has a connection of its own."""
        headers = self.headers(key) | ({"Connection": "close"} if close else {})
        lua = bench_wrk.script(headers, body)
        return bench_wrk.start(self.address + path, lua, self.folder, connections=connections, seconds=seconds)

    def load(
        self, path: str, body: Mapping[str, object] | None, *, connections: int, seconds: float, close: bool = False
    ) -> Timed:
        """A load, with the processor time that it took."""
        before, client = self.cpu_seconds(), _children_seconds()
        process = self.start(path, body, connections=connections, seconds=seconds, close=close)
        load = bench_wrk.finish(process)
        if load.refused and not load.answered:
            raise bench_wrk.WrkError(f"{path}: {load.refused} answers of 400 or more, none below")
        spent = 1000 / max(1, load.answered)
        return Timed(load, (self.cpu_seconds() - before) * spent, (_children_seconds() - client) * spent)


@contextmanager
def running(kind: str, folder: Path, chunk_seconds: float = 0.0) -> Iterator[Running]:
    """The process of this kind, ready, for the block."""
    own = Path(tempfile.mkdtemp(dir=folder))
    keys = {name: new_key() for name in _LIMITS}
    stored = {name: StoredKey(hashed(key), KeyLimits(requests_per_minute=_LIMITS[name])) for name, key in keys.items()}
    write_keys(own / "keys.yaml", stored)
    process = subprocess.Popen(
        [sys.executable, str(UNDER_TEST), kind, str(own), str(chunk_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(own / "log").open("w"),
        text=True,
    )
    try:
        assert process.stdout is not None
        found = Running(process.stdout.readline().strip(), psutil.Process(process.pid), own, keys)
        with found.client() as client:
            _until(lambda: client.get("/readyz").status_code == 200, f"{kind} is ready")
        yield found
    finally:
        process.communicate("", timeout=60)


class Peaks:
    """Most threads and resident memory of the service's own process."""

    def __init__(self, service: Running) -> None:
        self._process = service.process
        self.threads = self.resident_mib = 0.0

    def look(self) -> None:
        """Compare with now."""
        self.threads = max(self.threads, float(self._process.num_threads()))
        self.resident_mib = max(self.resident_mib, self._process.memory_info().rss / _MIB)


def finished_document(service: Running, key: str, text: str, *, mp3: bool = True) -> str:
    """Id of a document of this key that is complete, with its MP3 unless it is not asked for."""
    with service.client(key) as client:
        id = str(client.post("/v1/documents", json={"text": text}).json()["id"])
        _until(lambda: client.get(f"/v1/documents/{id}").json()["state"] == "completed", "the document is spoken")
        if not mp3:
            return id
        client.get(f"/v1/documents/{id}/audio?format=mp3").raise_for_status()  # encodes it
        _until(lambda: "content-length" in client.head(f"/v1/documents/{id}/audio?format=mp3").headers, "it is an MP3")
    return id


def documents(service: Running, seconds: float, waves: int = 2) -> dict[str, float]:
    """Waves of documents, as many as are accepted in this time; lost is what does not become sound."""
    resident, accepted, rate = [], 0, 0.0
    before = service.cpu_seconds()
    with service.client() as client:
        done = _completed(client)
        for _ in range(waves):
            process = service.start("/v1/documents", {"text": STORY}, connections=16, seconds=seconds)
            load = bench_wrk.finish(process)
            accepted, rate = accepted + load.answered, max(rate, load.per_second)
            _until(lambda: not _pending(client), "all documents are spoken")
            resident.append(service.process.memory_info().rss / _MIB)
        spoken = _completed(client) - done
    return {
        "ratio lost": float(max(0, accepted - spoken)),
        "ratio rss_growth": resident[-1] / resident[0],
        "documents": float(spoken),
        "documents_accepted_per_second": rate,
        "document_cpu_ms": (service.cpu_seconds() - before) * 1000 / spoken,
    }


@contextmanager
def reading(service: Running, book: str, readers: int, seconds: float) -> Iterator[None]:
    """So many readers of the MP3, as fast as they can."""
    path = f"/v1/documents/{book}/audio?format=mp3"
    process = service.start(path, None, connections=readers, seconds=seconds, key="floods")
    time.sleep(2)
    try:
        yield
    finally:
        process.communicate(timeout=_PATIENCE)


@contextmanager
def flood(service: Running, book: str, readers: int, seconds: float) -> Iterator[None]:
    """One key floods: documents as fast as they are accepted, and readers of an MP3 at the pace of listening."""
    mp3 = f"{service.address}/v1/documents/{book}/audio?format=mp3"
    with slow_clients("readers", mp3, service.keys["floods"], readers) as got:
        load = service.start("/v1/documents", {"text": STORY}, connections=8, seconds=seconds + 2, key="floods")
        time.sleep(1)
        try:
            yield
        finally:
            load.communicate(timeout=_PATIENCE)
    if got.get("status_200") != readers:
        raise bench_wrk.WrkError(f"expected {readers} readers of the MP3, found {got}")
    with service.client("floods") as client:
        _until(lambda: not _pending(client), "the flood's documents are spoken")


Asked = Sequence[tuple[str, Mapping[str, object] | None]]
"""Requests: path and body of each."""


@contextmanager
def asked(service: Running, requests: Asked, connections: int, seconds: float) -> Iterator[None]:
    """One key sends each of these over so many connections; what it began is cancelled."""
    loads = [
        service.start(path, body, connections=connections, seconds=seconds + 2, key="costly") for path, body in requests
    ]
    time.sleep(1)
    try:
        yield
    finally:
        for each in loads:
            each.communicate(timeout=_PATIENCE)
    with service.client("costly") as client:

        def gone() -> bool:
            left = [each["id"] for each in _listed(client) if each["state"] in ("pending", "processing")]
            for id in left:  # also what was accepted after its client had gone
                client.delete(f"/v1/documents/{id}")
            return not left

        _until(gone, "nothing of the flood is left")


def slow_bodies(service: Running, count: int, seconds: float) -> dict[str, float]:
    """Clients without a key send bodies slowly, to a public path; a valid key asks, each time on a new connection."""
    with slow_clients("bodies", f"{service.address}/session", "", count) as got:
        time.sleep(2)
        timed = service.load("/v1/models", None, connections=1, seconds=seconds, close=True).load
    return {
        "ratio slow_body_refused": float(timed.refused + timed.broken),
        "slow_body_connections": float(got["connected"]),
        "slow_body_p99_ms": timed.p99 * 1000,
        "slow_body_answers": float(timed.answered),
    }


def first_sound(service: Running, turns: int) -> dict[str, float]:
    """First audible sample of a story, beside its stages by turns: HTTP, script, pool with engine, encoder."""
    frontend = TonesFrontend()
    spec = EngineSpec("engines:tones", {"rows": 8, "samples": 240, "seconds": 8 * CHUNK_SECONDS})
    ratios, heard, bounds = [], [], []
    with Pool(spec, [Device("cpu0")]) as pool:

        def spoken() -> None:
            next(iter(pool.submit([Request(0, SENTENCE)], listening=True).results()))

        spoken()
        _heard(service)
        for _ in range(turns):
            took = _heard(service)
            stages = [
                _timed(lambda: _answered(service)),
                _timed(lambda: prepare_script(STORY, frontend, voice=None, seed=0)),
                _timed(spoken),
                _timed(lambda: Encoder("wav").encode(np.zeros(240 * len(SENTENCE), np.float32))),
            ]
            heard.append(took)
            bounds.append(sum(stages))
            ratios.append(took / sum(stages))
    return {
        "ratio first_sound_vs_bound": statistics.median(ratios),
        "first_sound_ms": statistics.median(heard) * 1000,
        "first_sound_bound_ms": statistics.median(bounds) * 1000,
        "first_sound_engine_ms": CHUNK_SECONDS * 1000,
    }


def spoken_while_written(service: Running, turns: int) -> dict[str, float]:
    """First audible sample after the last word of a sentence that comes over the WebSocket, with more to follow."""
    address = service.address.replace("http://", "ws://")
    heard = []
    with connect(f"{address}/v1/audio/speech/stream", additional_headers=service.headers()) as socket:
        socket.send(json.dumps({"type": "session.config", "voice": "alloy"}))
        for _ in range(turns + 1):
            for word in SENTENCE.split():
                socket.send(json.dumps({"type": "input.text", "text": f"{word} "}))
            socket.send(json.dumps({"type": "input.text", "text": "And"}))
            began = time.perf_counter()
            while not (isinstance(message := socket.recv(_PATIENCE), bytes) and _audible(message)):
                pass
            heard.append(time.perf_counter() - began)
            socket.send(json.dumps({"type": "input.done"}))
            while isinstance(message := socket.recv(_PATIENCE), bytes) or json.loads(message)["type"] != "session.done":
                pass
    return {"first_sound_over_websocket_ms": statistics.median(heard[1:]) * 1000}


def _audible(pcm: bytes) -> bool:
    return bool(np.abs(np.frombuffer(pcm[: len(pcm) // 2 * 2], "<i2").astype(int)).max(initial=0) > AUDIBLE)


def released_first_sound(service: Running, turns: int) -> dict[str, float]:
    """First audible sample of a story with warm workers, and by turns after these have ended for want of work."""
    warm, after = [], []
    with service.client() as client:

        def released() -> bool:
            return all(each["state"] == "released" for each in client.get("/v1/workers").json()["workers"])

        for _ in range(turns):
            _heard(service)
            warm.append(_heard(service))
            _until(released, "the workers have ended")
            after.append(_heard(service))
    return {
        "first_sound_warm_ms": statistics.median(warm) * 1000,
        "first_sound_after_release_ms": statistics.median(after) * 1000,
    }


def _heard(service: Running) -> float:
    """Seconds from a request for a story to its first audible sample."""
    address = urlsplit(service.address)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_PATIENCE)
    body = json.dumps({**SPEECH, "input": STORY, "response_format": "pcm"})
    headers = {**service.headers(), "Content-Type": "application/json"}
    began = time.perf_counter()
    connection.request("POST", "/v1/audio/speech", body, headers)
    answer = connection.getresponse()
    block = answer.read1(1 << 16)
    while block and not _audible(block):
        block = answer.read1(1 << 16)
    took = time.perf_counter() - began
    connection.close()
    if answer.status != 200 or not block:
        raise RuntimeError(f"no sound was heard: status {answer.status}")
    return took


def _answered(service: Running) -> None:
    """A request that does nothing, on a connection of its own."""
    address = urlsplit(service.address)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_PATIENCE)
    connection.request("GET", "/healthz")
    connection.getresponse().read()
    connection.close()


def _pending(client: httpx.Client) -> bool:
    """True where a document of the key is not finished; the oldest is finished first."""
    return any(each["state"] in ("pending", "processing") for each in _listed(client))


def _completed(client: httpx.Client) -> int:
    return sum(each["state"] == "completed" for each in _listed(client))


def _listed(client: httpx.Client) -> list[dict[str, object]]:
    found, before = [], None
    while True:
        answer = client.get("/v1/documents", params={"limit": 200, **({"before": before} if before else {})})
        if answer.status_code == 429:  # the load has used up what the key may ask in a minute
            time.sleep(float(answer.headers["Retry-After"]))
            continue
        if answer.status_code != 200:
            raise RuntimeError(f"documents are not listed: {answer.status_code} {answer.text[:200]}")
        page = answer.json()
        found += page["documents"]
        before = page["next"]
        if before is None:
            return found


def _timed(action: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {_PATIENCE:g} s not yet: {what}")
        time.sleep(0.2)


def _children_seconds() -> float:
    """Processor time of this process's children that have ended: the clients."""
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)
