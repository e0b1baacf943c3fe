"""Worker process: one engine, one pipe, regular heartbeats. Run as `python -m voxyard.speech.pool.worker FD`.

CUDA_VISIBLE_DEVICES stands in its environment before the interpreter starts, so before anything can import torch.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection

from voxyard.speech.engine import Engine, is_lost
from voxyard.speech.pool.ipc import Answered, Beat, Begin, FromWorker, Lost, Open, Opened, Raised, Speak, Stop, Want
from voxyard.speech.requests import Request, Result

_log = logging.getLogger(__name__)

OVER = 3  # exit status of a process whose engine cannot go on
ORPHAN = 4  # of one whose pool is gone


class Wire:
    """The worker's end of the pipe, for two threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, message: FromWorker) -> None:
        """Say it. Without a pool at the other end there is nothing left to do: the process ends and frees its GPU."""
        try:
            with self._sending:
                self._connection.send(message)
        except OSError:
            os._exit(ORPHAN)

    def says_something(self) -> bool:
        """True where there is a message, or the pool is gone."""
        try:
            return self._connection.poll()
        except OSError:
            os._exit(ORPHAN)

    def receive(self) -> object:
        """The next message; ends the process where the pool is gone."""
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            os._exit(ORPHAN)


class Intake:
    """The engine's source in a worker: it asks the pool for a chunk for each row that is free.

    Nothing is kept ahead: a chunk that waits behind a busy worker is missing where a row is free, and delays a drain.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._here: deque[Speak] = deque()  # not taken yet
        self._asked = 0
        self._stopped = False
        self.taken: dict[Request, deque[int]] = {}  # leases; equal requests have equal answers

    def take(self, room: int, *, wait: bool) -> Sequence[Request]:
        """Up to `room` chunks, as an engine takes them."""
        for _ in range(0 if self._stopped else room - len(self._here) - self._asked):
            self._wire.send(Want())
            self._asked += 1
        while self._wire.says_something() or (wait and not self._here and not self._stopped):
            self._read()
        got = [self._here.popleft() for _ in range(min(room, len(self._here)))]
        for speak in got:
            self.taken.setdefault(speak.request, deque()).append(speak.lease)
        return [speak.request for speak in got]

    def answered(self, request: Request) -> int:
        """The lease of a chunk that the engine has answered.

        Raises:
            ValueError: it has no such chunk.
        """
        leases = self.taken.get(request)
        if leases is None:
            raise ValueError(f"the engine answers chunk {request.chunk}, which it does not have")
        lease = leases.popleft()
        if not leases:
            del self.taken[request]
        return lease

    def begin(self) -> int | None:
        """Wait until the pool says so, and with how many rows; None where it says stop. What was here is forgotten."""
        self._here.clear()
        self.taken.clear()
        self._asked = 0
        while not self._stopped:
            message = self._wire.receive()
            if isinstance(message, Begin):
                return message.rows
            self._stopped = isinstance(message, Stop)
        return None

    def _read(self) -> None:
        match message := self._wire.receive():
            case Speak():
                self._asked -= 1
                self._here.append(message)
            case Stop():
                self._stopped = True
                self._here.clear()
            case _:
                raise TypeError(f"the pool says {message!r}, expected Speak or Stop")


def serve(wire: Wire) -> int:
    """Load the engine, speak what the pool has until told to stop; the exit status."""
    first = wire.receive()
    if not isinstance(first, Open):
        raise TypeError(f"the pool's first message is {first!r}, expected Open")
    threading.Thread(target=_beat, args=(wire, first.beat), name="heartbeat", daemon=True).start()
    try:
        engine = first.engine.create()
        ready = engine.prepare()
    except Exception as error:  # noqa: BLE001 — whatever an engine raises, the pool is told why
        wire.send(Lost(f"the engine does not open: {_said(error)}"))
        return OVER
    wire.send(Opened(ready))
    intake = Intake(wire)
    while (rows := intake.begin()) is not None:
        trouble = _speak(engine, intake, wire, rows if rows < ready.batch_limit else None)
        if trouble is None:
            break
        wire.send(trouble)
        if isinstance(trouble, Lost):
            return OVER
    engine.close()
    return 0


def _speak(engine: Engine, intake: Intake, wire: Wire, shrink: int | None) -> Raised | Lost | None:
    """Hand in one answer after the other until the pool says stop; or what went wrong, for the pool to hear.

    Only words leave: the error, and what its frames hold of the device's memory, are gone when the next try begins.
    """
    try:
        if shrink is not None:
            engine.shrink(shrink)
        for request, answer in engine.speak(intake):
            lease = intake.answered(request)
            if isinstance(answer, Result):
                _check(answer, request)
            wire.send(Answered(lease, answer))
        if intake.taken:
            raise ValueError(f"the engine ended with {len(intake.taken)} chunks unanswered")
    except MemoryError as error:
        return Raised(_said(error), memory=True)
    except Exception as error:  # noqa: BLE001 — whatever an engine raises, the pool is told why
        if is_lost(error):
            return Lost(_said(error))
        _log.debug("the engine raised", exc_info=True)
        return Raised(_said(error), memory=False)
    return None


def _check(result: Result, request: Request) -> None:
    """Refuses invalid audio (chunk, type, shape, NaN), so that it never reaches a file."""
    import numpy as np

    audio = result.audio
    if result.chunk != request.chunk:
        raise ValueError(f"the engine answers chunk {request.chunk} with chunk {result.chunk}")
    if audio.dtype != np.float32 or audio.ndim != 1:
        raise ValueError(f"the engine's sound is {audio.dtype} {audio.shape}, expected float32 (samples,)")
    if not np.isfinite(audio).all():
        raise ValueError(f"the sound of chunk {request.chunk} has samples that are no numbers")


def _beat(wire: Wire, every: float) -> None:
    pause = threading.Event()
    while not pause.wait(every):
        wire.send(Beat())


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def main(arguments: Sequence[str]) -> int:
    """Serve the pool at the other end of the file descriptor."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s worker %(process)d: %(message)s")
    return serve(Wire(Connection(int(arguments[0]))))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
