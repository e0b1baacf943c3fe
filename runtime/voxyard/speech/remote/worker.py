"""A server as a worker of the pool: chunks go to it as requests, some at a time; one that is away is waited for."""

from __future__ import annotations

import http.client
import itertools
import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import cast

from voxyard.speech.engine import EngineSpec, Ready
from voxyard.speech.errors import SpeechError
from voxyard.speech.placement import Refusal
from voxyard.speech.pool import ipc
from voxyard.speech.pool.transport import Report, StartRefused
from voxyard.speech.pool.worker_process import Device, ProcessEnded
from voxyard.speech.remote.client import Answer, ServerError, decoded
from voxyard.speech.remote.frontend import servers_of
from voxyard.speech.requests import SAMPLE_RATE, Cancelled, Request, Result, Unspeakable

LONGEST_WAIT = 60.0  # seconds after one answer of a server that has too much to do
TRIES = 6  # of one chunk on such a server, before others get its chunks
_REFUSED = (400, 404, 405, 413, 415, 422)  # the request is at fault
_BUSY = (429, 503)


class RemoteWorker:
    """One server, as the pool sees a worker; threads of this process in place of a process."""

    pid: int | None = None

    def __init__(self, device: Device, engine: EngineSpec, heartbeat_seconds: float, report: Report) -> None:
        """The device's name is the server's URL."""
        self._server = next(each for each in servers_of(engine.settings) if each.url == device.name)
        self._model = cast("str", engine.settings["model"])
        self._rows = cast("int", engine.settings.get("requests", 4))
        self._report, self._beat = report, heartbeat_seconds
        self._inbox: queue.SimpleQueue[ipc.ToWorker | ProcessEnded] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._cancelled: set[int] = set()  # leases in flight that nobody wants any more
        self._thread = threading.Thread(target=self._run, name=f"requests to {device.name}", daemon=True)
        self._thread.start()

    def send(self, message: ipc.ToWorker) -> None:
        """Send a message."""
        self._inbox.put(message)

    def kill(self) -> None:
        """Take no answer any more."""
        self._end("it was ended")

    def join(self, seconds: float) -> bool:
        """Wait until it has ended; False after a timeout. Requests that a server still answers end by themselves."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _end(self, reason: str) -> None:
        self._ended.set()
        self._inbox.put(ProcessEnded(reason, "left"))

    def _run(self) -> None:
        end: ProcessEnded | StartRefused = ProcessEnded("an internal error", "died")
        try:
            end = self._serve()
        finally:
            self._ended.set()
            self._report(end)

    def _serve(self) -> ProcessEnded | StartRefused:
        try:
            self._server.models()
        except ServerError as error:
            return StartRefused(Refusal("missing", str(error)))
        facts = {"device": self._server.url, "model": self._model, "batch_size": self._rows}
        self._report(ipc.EngineReady(Ready(self._rows, SAMPLE_RATE, facts, self._rows)))
        beats, due = itertools.count(1), time.monotonic()
        while True:
            if time.monotonic() >= due:  # requests have timeouts of their own: they are no reason to end it
                self._report(ipc.Heartbeat(next(beats)))
                due = time.monotonic() + self._beat
            try:
                message = self._inbox.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                continue
            match message:
                case ipc.BeginDecoding(rows):
                    for _ in range(rows):
                        self._report(ipc.ChunkWanted())
                case ipc.SpeakChunk(lease, request):
                    name = f"request to {self._server.url}"  # as many as chunks were asked for
                    threading.Thread(target=self._speak, args=(lease, request), name=name, daemon=True).start()
                case ipc.CancelChunk(lease):
                    self._cancelled.add(lease)
                case ProcessEnded():
                    return message
                case ipc.StopWorker():
                    return ProcessEnded("it was stopped", "left")

    def _speak(self, lease: int, request: Request) -> None:
        try:
            answer = self._answer(lease, request)
        except ServerError as error:
            self._end(str(error))
            return
        except Exception as error:  # noqa: BLE001 — told as the reason of its chunk: a thread has no caller
            answer = Unspeakable(f"{self._server.url}: {type(error).__name__}: {error}")
        self._cancelled.discard(lease)
        if not self._ended.is_set():
            self._report(ipc.ChunkDone(lease, answer))
            self._report(ipc.ChunkWanted())

    def _answer(self, lease: int, request: Request) -> Result | Unspeakable | Cancelled:
        """Sound of a chunk. Raises ServerError where the server is away, refuses the key, or has too much to do."""
        if request.voice_file is not None:
            return Unspeakable("the voice is an uploaded file, which other servers do not take", refused=True)
        url = self._server.url
        for attempt in range(TRIES):
            if lease in self._cancelled or self._ended.is_set():
                return Cancelled()
            try:
                answer = self._server.speech(_body(request, self._model))
            except TimeoutError:
                return Unspeakable(f"{url} did not answer within {self._server.timeout:.0f} s")
            except (OSError, http.client.HTTPException) as error:
                return Unspeakable(f"{url} broke off: {type(error).__name__} {error}")
            if answer.status == 200:
                return self._sound(request, answer)
            said = f"{url} answers with status {answer.status}: {self._server.safe(answer.message())}"
            if answer.status in (401, 403):
                raise ServerError(f"{url} refuses the key (status {answer.status}): see --api-key-file")
            if answer.status not in _BUSY:
                return Unspeakable(said, refused=answer.status in _REFUSED)
            self._pause(lease, retry_after(answer, attempt))
        raise ServerError(f"{url} has too much to do: {TRIES} answers with status 429 or 503")

    def _pause(self, lease: int, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and lease not in self._cancelled:
            if self._ended.wait(min(left, 0.2)):
                return

    def _sound(self, request: Request, answer: Answer) -> Result | Unspeakable:
        try:
            return Result(request.chunk, decoded(answer.body), SAMPLE_RATE)
        except SpeechError as error:
            return Unspeakable(f"{self._server.url}: {error}")


def devices(engine: EngineSpec) -> tuple[Device, ...]:
    """A device for each server of an engine's settings, named by its URL."""
    return tuple(Device(url, "") for url in cast("Sequence[str]", engine.settings["base_urls"]))


def retry_after(answer: Answer, attempt: int, now: Callable[[], float] = time.time) -> float:
    """Seconds to wait before the next request: as the server says, in seconds or as a date, else 1, 2, 4 and so on."""
    said = answer.headers.get("retry-after", "").strip()
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - now()
        except (TypeError, ValueError):
            seconds = 2.0**attempt
    return min(max(seconds, 0.0), LONGEST_WAIT) if math.isfinite(seconds) else 2.0**attempt


def _body(request: Request, model: str) -> dict[str, object]:
    """A speech request as every server takes it; a seed only where one is asked for. WAV tells its rate."""
    body: dict[str, object] = {
        "model": model,
        "input": request.text,
        "voice": request.voice or "alloy",
        "response_format": "wav",
    }
    return body if request.seed == 0 else {**body, "seed": request.seed}
