"""A server as a worker of the pool: chunks go to it as requests, some at a time; one that is away is waited for."""

from __future__ import annotations

import http.client
import itertools
import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from voxyard.speech.engine import EngineSpec, Ready
from voxyard.speech.errors import SpeechError
from voxyard.speech.placement import Refusal
from voxyard.speech.pool import ipc
from voxyard.speech.pool.transport import OnWorkerMessage, StartRefused
from voxyard.speech.pool.worker_process import Device, ProcessEnded
from voxyard.speech.remote.client import Answer, ServerError, decoded, told_wait
from voxyard.speech.remote.frontend import servers_of
from voxyard.speech.requests import SAMPLE_RATE, Cancelled, Request, Result, Unspeakable

LONGEST_WAIT = 60.0  # seconds after one answer of a server that has too much to do
BUSY_SECONDS = 1.0  # that its chunks wait for one that speaks nothing else, before it counts as away
LOOK_SECONDS = 10.0  # between two looks at a server that has nothing to speak
TRIES = 6  # of one chunk on a server that has too much to do
FAULTS = 3  # of one chunk on a server that speaks others, before the chunk is at fault
BUSY_PATIENCE = 600.0
"""Seconds in which a server may have too much to do for a chunk while it speaks others; then the chunk is at fault."""
PROBE = "Hello."
_REFUSED = (400, 404, 405, 413, 415, 422)  # the request is at fault
_DENIED = (401, 403)
_BUSY = (429, 503)
_CUT = Answer(502, {}, b"")  # stands for one that broke off


@dataclass(slots=True)
class Doubt:
    """What is left in doubt of a server from one worker to the next."""

    probe: dict[str, object] | None = None  # the request that it has to answer before it gets chunks again
    suspects: Counter[Request] = field(default_factory=Counter)  # chunks that failed alone on it, how often
    busy: dict[Request, float] = field(default_factory=dict)  # for which it has too much to do since when

    def blame(self, request: Request, error: ServerError) -> str | None:
        """Reason why a chunk is given up, as the server speaks others; None where the server may be at fault."""
        if time.monotonic() - self.busy.get(request, math.inf) > BUSY_PATIENCE:
            del self.busy[request]
            return f"{error}; it has had no time for it for {BUSY_PATIENCE:g} s, while it spoke others"
        return str(error) if self.suspects[request] >= FAULTS else None


class RemoteWorker:
    """One server, as the pool sees a worker; threads of this process in place of a process.

    A server that fails a chunk is asked for a short text: it counts as away, and its chunks wait, until it speaks that.
    Then it gets them one by one at first: one that takes it away each time is found.
    """

    pid: int | None = None

    def __init__(
        self, device: Device, engine: EngineSpec, heartbeat_seconds: float, report: OnWorkerMessage, *,
        doubts: dict[str, Doubt],
    ) -> None:  # fmt: skip
        """The device's name is the server's URL.

        The workers share the `doubts`, by URL.
        """
        self._server = next(each for each in servers_of(engine.settings) if each.url == device.name)
        self._model = cast("str", engine.settings["model"])
        self._rows = cast("int", engine.settings.get("requests", 4))
        self._report, self._beat, self._doubt = report, heartbeat_seconds, doubts.setdefault(device.name, Doubt())
        self._trial = 0 if self._doubt.probe is None else self._rows  # chunks to speak one by one
        self._inbox: queue.SimpleQueue[ipc.ToWorker | ProcessEnded | StartRefused] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._looking: threading.Thread | None = None
        self._held: set[int] = set()  # leases that are not answered
        self._asking: set[int] = set()  # those of them that the server has now
        self._cancelled: set[int] = set()  # those of them that nobody wants any more
        self._thread = threading.Thread(target=self._run, name=f"requests to {device.name}", daemon=True)
        self._thread.start()

    def send(self, message: ipc.ToWorker) -> None:
        """Send a message."""
        self._inbox.put(message)

    def kill(self) -> None:
        """Take no answer any more."""
        self._end(ProcessEnded("it was ended", "left"))

    def join(self, seconds: float) -> bool:
        """Wait until it has ended; False after a timeout. Requests that a server still answers end by themselves."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _end(self, end: ProcessEnded | StartRefused) -> None:
        self._ended.set()
        self._inbox.put(end)

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
            if self._doubt.probe is not None:
                self._try_out(self._doubt.probe)
                self._doubt.probe = None
        except ServerError as error:
            self._doubt.busy.clear()  # it speaks no others
            return _refused(error)
        facts = {"device": self._server.url, "model": self._model, "batch_size": self._rows}
        self._report(ipc.EngineReady(Ready(self._rows, SAMPLE_RATE, facts, self._rows)))
        beats, due, look = itertools.count(1), time.monotonic(), time.monotonic() + LOOK_SECONDS
        while True:
            if time.monotonic() >= due:  # requests have timeouts of their own: they are no reason to end it
                self._report(ipc.Heartbeat(next(beats)))
                due = time.monotonic() + self._beat
                look = self._look(look)
            try:
                message = self._inbox.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                continue
            match message:
                case ipc.BeginDecoding(rows):
                    for _ in range(1 if self._trial else rows):
                        self._report(ipc.ChunkWanted())
                case ipc.SpeakChunk(lease, request):
                    self._held.add(lease)
                    name = f"request to {self._server.url}"  # as many as chunks were asked for
                    threading.Thread(target=self._speak, args=(lease, request), name=name, daemon=True).start()
                case ipc.CancelChunk(lease):
                    self._cancelled.add(lease)
                case ProcessEnded() | StartRefused():
                    return message
                case ipc.StopWorker():
                    return ProcessEnded("it was stopped", "left")

    def _look(self, due: float) -> float:
        """Looks in a thread at a server that has nothing to speak; when to look next."""
        if time.monotonic() < due or self._held or (self._looking is not None and self._looking.is_alive()):
            return due
        self._looking = threading.Thread(target=self._check, name=f"look at {self._server.url}", daemon=True)
        self._looking.start()
        return time.monotonic() + LOOK_SECONDS

    def _check(self) -> None:
        try:
            self._server.models()
        except ServerError as error:
            self._end(_refused(error))

    def _speak(self, lease: int, request: Request) -> None:
        try:
            answer = self._answer(lease, request)
        except ServerError as error:
            self._doubt.probe = {**_body(request, self._model), "input": PROBE}
            if (reason := self._doubt.blame(request, error)) is not None and not self._ended.is_set():
                self._report(ipc.ChunkDone(lease, Unspeakable(reason)))
            self._end(_refused(error))
            return
        except Exception as error:  # noqa: BLE001 — told as the reason of its chunk: a thread has no caller
            answer = Unspeakable(f"{self._server.url}: {type(error).__name__}: {error}")
        for leases in (self._held, self._cancelled):
            leases.discard(lease)
        if not self._ended.is_set():
            self._report(ipc.ChunkDone(lease, answer))
            wanted = 1
            if self._trial and isinstance(answer, Result):
                self._trial -= 1
                wanted = 1 if self._trial else self._rows
            for _ in range(wanted):
                self._report(ipc.ChunkWanted())

    def _answer(self, lease: int, request: Request) -> Result | Unspeakable | Cancelled:
        """Sound of a chunk. Raises ServerError where the server is away, refuses the key, or has too much to do."""
        if request.voice_file is not None:
            return Unspeakable("the voice is an uploaded file, which other servers do not take", refused=True)
        body, waited, faults = _body(request, self._model), 0.0, 0
        for attempt in range(TRIES):
            if lease in self._cancelled or self._ended.is_set():
                return Cancelled()
            self._asking.add(lease)
            busy_since = self._doubt.busy.pop(request, math.inf)
            try:
                answer, said = self._asked(body)
            except TimeoutError:
                return Unspeakable(f"{self._server.url} did not answer within {self._server.timeout:.0f} s")
            finally:
                self._asking.discard(lease)
            if answer.status == 200:
                self._doubt.suspects.pop(request, None)
                return self._sound(request, answer)
            wait = retry_after(answer, attempt)
            if answer.status in _BUSY:
                waited += wait
                self._doubt.busy[request] = min(busy_since, time.monotonic())
                if not self._asking and waited > BUSY_SECONDS:  # it speaks nothing else either
                    raise ServerError(said, wait)
            elif answer.status in _DENIED:
                raise ServerError(said)
            elif answer.status < 500:
                return Unspeakable(said, refused=answer.status in _REFUSED)
            else:
                if self._held == {lease}:
                    self._doubt.suspects[request] += 1
                self._try_out({**body, "input": PROBE})
                faults += 1
                if faults == FAULTS:
                    return Unspeakable(said)
            self._pause(lease, wait)
        raise ServerError(f"{self._server.url} has too much to do: {TRIES} answers that are no sound")

    def _try_out(self, probe: dict[str, object]) -> None:
        """Raises ServerError where the server does not speak a short text either."""
        try:
            answer, said = self._asked(probe)
        except TimeoutError as error:
            raise ServerError(f"{self._server.url} did not answer within {self._server.timeout:.0f} s") from error
        if answer.status in (*_DENIED, *_BUSY) or answer.status >= 500:
            raise ServerError(said, retry_after(answer, 0) if answer.status in _BUSY else 0.0)

    def _asked(self, body: dict[str, object]) -> tuple[Answer, str]:
        """The answer to a request, _CUT where it broke off, and what to tell of it where it is an error.

        Raises:
            ServerError: there is no connection to the server.
            TimeoutError: it has not answered in time.
        """
        url = self._server.url
        try:
            answer = self._server.speech(body)
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException) as error:
            return _CUT, f"{url} broke off: {type(error).__name__} {error}"
        if answer.status in _DENIED:
            return answer, f"{url} refuses the key (status {answer.status}): see --api-key-file"
        return answer, f"{url} answers with status {answer.status}: {self._server.safe(answer.message())}"

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


def _refused(error: ServerError) -> StartRefused:
    return StartRefused(Refusal("missing", str(error), error.wait))


def devices(engine: EngineSpec) -> tuple[Device, ...]:
    """A device for each server of an engine's settings, named by its URL."""
    return tuple(Device(url, "") for url in cast("Sequence[str]", engine.settings["base_urls"]))


def retry_after(answer: Answer, attempt: int, now: Callable[[], float] = time.time) -> float:
    """Seconds to wait before the next request: as the server says, in seconds or as a date, else 1, 2, 4 and so on."""
    told = told_wait(answer.headers.get("retry-after", ""), now())
    return 2.0**attempt if told is None else min(told, LONGEST_WAIT)


def _body(request: Request, model: str) -> dict[str, object]:
    """A speech request as every server takes it; a seed only where one is asked for. WAV tells its rate."""
    body: dict[str, object] = {
        "model": model,
        "input": request.text,
        "voice": request.voice or "alloy",
        "response_format": "wav",
    }
    return body if request.seed == 0 else {**body, "seed": request.seed}
