"""Worker process: one engine, one pipe, heartbeats with its progress.

Run as `python -m voxyard.speech.pool.worker FD [PARENT]`.

CUDA_VISIBLE_DEVICES is in its environment before the interpreter starts, so before anything can import torch.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection

from voxyard.host.signal_handlers import end_with
from voxyard.speech.engine import Engine, is_lost
from voxyard.speech.pool.ipc import (
    BeginDecoding,
    CancelChunk,
    ChunkDone,
    ChunkWanted,
    EngineFailed,
    EngineRaised,
    EngineReady,
    Heartbeat,
    OpenEngine,
    SpeakChunk,
    StopWorker,
)
from voxyard.speech.requests import Cancelled, Request, Result

_log = logging.getLogger(__name__)

ENGINE_FAILED = 3  # exit status of a process whose engine has failed
POOL_GONE = 4  # of one whose pool has ended


class PoolConnection:
    """A PipedProcess's own end of the pipe; several threads may send."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, message: object) -> None:
        """Send a message; ends the process where the pool has ended, which frees its GPU."""
        try:
            with self._sending:
                self._connection.send(message)
        except OSError:
            os._exit(POOL_GONE)

    def has_message(self) -> bool:
        """True where a message can be received; ends the process where the pool has ended."""
        try:
            return self._connection.poll()
        except OSError:
            os._exit(POOL_GONE)

    def receive(self) -> object:
        """The next message; ends the process where the pool has ended."""
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            os._exit(POOL_GONE)


class PoolChunkSource:
    """The engine's source in a worker: it asks the pool for one chunk for each free row.

    Nothing is prefetched: a chunk that waited behind a busy worker would be missing elsewhere, and delay a drain.
    """

    def __init__(self, pool: PoolConnection) -> None:
        self._pool = pool
        self._received: deque[SpeakChunk] = deque()  # not taken yet
        self._requested = 0
        self._stopped = False
        self.leases: dict[Request, deque[int]] = {}  # of taken chunks; equal requests have equal answers
        self._cancelled: dict[int, Request] = {}  # by lease: taken chunks that nobody wants any more
        self._uncollected: deque[Request] = deque()  # those of them that the engine has not been told
        self._reported = (0, 0.0)  # reports of progress, and the pause of the last one; read by the heartbeat's thread

    def take(self, room: int, *, wait: bool) -> Sequence[Request]:
        """Up to `room` chunks, as an engine takes them."""
        self._ask(room)
        while self._pool.has_message() or (wait and not self._received and not self._stopped):
            self._read()
            self._ask(room)  # for those that were cancelled
        taken = [self._received.popleft() for _ in range(min(room, len(self._received)))]
        for speak in taken:
            self.leases.setdefault(speak.request, deque()).append(speak.lease)
        return [speak.request for speak in taken]

    def cancelled(self) -> Sequence[Request]:
        """Chunks that were cancelled since the last call, as an engine asks for them."""
        while not self._stopped and self._pool.has_message():
            self._read()
        found, self._uncollected = tuple(self._uncollected), deque()
        return found

    def progress(self, pause: float = 0.0) -> None:
        """Record progress, which leaves with the next heartbeat."""
        self._reported = self._reported[0] + 1, pause

    def heartbeat(self) -> Heartbeat:
        """Heartbeat with the progress up to now."""
        return Heartbeat(*self._reported)

    def complete(self, request: Request, *, cancelled: bool = False) -> int:
        """Lease of a chunk that the engine has answered; it is returned.

        Of equal requests, one that was cancelled is the last to get a sound.

        Raises:
            ValueError: it has no such chunk, or has not cancelled it.
        """
        leases = self.leases.get(request)
        if leases is None:
            raise ValueError(f"the engine answered chunk {request.chunk}, which it does not have")
        fitting = [lease for lease in leases if (lease in self._cancelled) == cancelled]
        if cancelled and not fitting:
            raise ValueError(f"the engine ceased to speak chunk {request.chunk}, which was not cancelled")
        lease = (fitting or leases)[0]
        leases.remove(lease)
        self._cancelled.pop(lease, None)
        if not leases:
            del self.leases[request]
        return lease

    def begin(self) -> int | None:
        """Wait for BeginDecoding: its rows; None after StopWorker. Earlier chunks and requests are dropped."""
        for each in (self._received, self.leases, self._cancelled, self._uncollected):
            each.clear()
        self._requested = 0
        while not self._stopped:
            message = self._pool.receive()
            if isinstance(message, BeginDecoding):
                return message.rows
            self._stopped = isinstance(message, StopWorker)
        return None

    def _ask(self, room: int) -> None:
        for _ in range(0 if self._stopped else room - len(self._received) - self._requested):
            self._pool.send(ChunkWanted())
            self._requested += 1

    def _read(self) -> None:
        match message := self._pool.receive():
            case SpeakChunk():
                self._requested -= 1
                self._received.append(message)
            case CancelChunk(lease):
                self._cancel(lease)
            case StopWorker():
                self._stopped = True
                self._received.clear()
            case _:
                raise TypeError(f"the pool sent {message!r}, expected SpeakChunk, CancelChunk or StopWorker")

    def _cancel(self, lease: int) -> None:
        """Answer a chunk that was not taken yet; note one that the engine has. One that was answered is left alone."""
        for speak in self._received:
            if speak.lease == lease:
                self._received.remove(speak)
                self._pool.send(ChunkDone(lease, Cancelled()))
                return
        for request, leases in self.leases.items():
            if lease in leases:
                self._cancelled[lease] = request
                self._uncollected.append(request)


def serve(connection: PoolConnection) -> int:
    """Load the engine and speak the pool's chunks until StopWorker; the exit status."""
    first = connection.receive()
    if not isinstance(first, OpenEngine):
        raise TypeError(f"the pool's first message is {first!r}, expected OpenEngine")
    source = PoolChunkSource(connection)
    threading.Thread(
        target=_send_heartbeats, args=(connection, source, first.heartbeat_seconds), name="heartbeat", daemon=True
    ).start()
    try:
        engine = first.engine.create()
        ready = engine.prepare()
    except Exception as error:  # noqa: BLE001 — any exception of an engine is reported to the pool
        connection.send(EngineFailed(f"the engine cannot be opened: {_described(error)}"))
        return ENGINE_FAILED
    connection.send(EngineReady(ready))
    while (rows := source.begin()) is not None:
        failure = _speak(engine, source, connection, rows if rows < ready.batch_limit else None)
        if failure is None:
            break
        connection.send(failure)
        if isinstance(failure, EngineFailed):
            return ENGINE_FAILED
    engine.close()
    return 0


def _speak(
    engine: Engine, source: PoolChunkSource, connection: PoolConnection, shrink: int | None
) -> EngineRaised | EngineFailed | None:
    """Send each answer until the pool stops the worker; returns a failure as a message.

    The message holds text only: the exception, whose frames hold device memory, is freed before the next attempt.
    """
    try:
        if shrink is not None:
            engine.shrink(shrink)
        for request, answer in engine.speak(source):
            lease = source.complete(request, cancelled=isinstance(answer, Cancelled))
            if isinstance(answer, Result):
                _check(answer, request)
            connection.send(ChunkDone(lease, answer))
        if source.leases:
            raise ValueError(f"the engine ended with {len(source.leases)} chunks unanswered")
    except MemoryError as error:
        return EngineRaised(_described(error), out_of_memory=True)
    except Exception as error:  # noqa: BLE001 — any exception of an engine is reported to the pool
        if is_lost(error):
            return EngineFailed(_described(error))
        _log.debug("the engine raised", exc_info=True)
        return EngineRaised(_described(error), out_of_memory=False)
    return None


def _check(result: Result, request: Request) -> None:
    """Refuse invalid audio (chunk, type, shape, NaN), so that it never reaches a file."""
    import numpy as np

    audio = result.audio
    if result.chunk != request.chunk:
        raise ValueError(f"the engine answered chunk {request.chunk} with chunk {result.chunk}")
    if audio.dtype != np.float32 or audio.ndim != 1:
        raise ValueError(f"the engine's audio is {audio.dtype} {audio.shape}, expected float32 (samples,)")
    if not np.isfinite(audio).all():
        raise ValueError(f"the audio of chunk {request.chunk} has samples that are NaN or infinite")


def _send_heartbeats(connection: PoolConnection, source: PoolChunkSource, every: float) -> None:
    pause = threading.Event()
    while not pause.wait(every):
        connection.send(source.heartbeat())


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def main(arguments: Sequence[str]) -> int:
    """Serve the pool at the other end of the file descriptor; with a second argument die with that parent process."""
    if len(arguments) > 1 and not end_with(int(arguments[1]), signal.SIGKILL):
        return POOL_GONE
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s worker %(process)d: %(message)s")
    return serve(PoolConnection(Connection(int(arguments[0]))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
