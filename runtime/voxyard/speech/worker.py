"""A worker's process: one engine, one pipe, a sign of life now and then. Run as `python -m voxyard.speech.worker FD`.

CUDA_VISIBLE_DEVICES stands in its environment before the interpreter starts, so before anything can import torch.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection

from voxyard.speech.engine import Engine, is_lost
from voxyard.speech.messages import Beat, Ended, FromWorker, Lost, Open, Opened, Raised, Speak, Spoken, Stop
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

    def receive(self) -> object:
        """The next message; ends the process where the pool is gone."""
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            os._exit(ORPHAN)


def serve(wire: Wire) -> int:
    """Load the engine, speak what is asked until told to stop; the exit status."""
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
    rows = ready.batch_limit
    while True:
        message = wire.receive()
        if isinstance(message, Stop):
            engine.close()
            return 0
        if not isinstance(message, Speak):
            raise TypeError(f"the pool says {message!r}, expected Speak or Stop")
        try:
            if message.rows < rows:
                engine.shrink(message.rows)
            rows = message.rows
            _speak(engine, wire, message)
        except MemoryError as error:
            wire.send(Raised(message.lease, _said(error), memory=True))
        except Exception as error:  # noqa: BLE001 — whatever an engine raises, the pool is told why
            if is_lost(error):
                wire.send(Lost(_said(error)))
                return OVER
            _log.debug("a batch failed", exc_info=True)
            wire.send(Raised(message.lease, _said(error), memory=False))


def _speak(engine: Engine, wire: Wire, message: Speak) -> None:
    results = iter(engine.speak([request for _, request in message.requests]))
    for number, (key, request) in enumerate(message.requests):
        result = next(results, None)
        if result is None:
            raise ValueError(f"the engine gave {number} results for {len(message.requests)} chunks")
        _check(result, request)
        wire.send(Spoken(message.lease, key, result))
    if next(results, None) is not None:
        raise ValueError(f"the engine gave more than {len(message.requests)} results, one a chunk is expected")
    wire.send(Ended(message.lease))


def _check(result: Result, request: Request) -> None:
    """Refuse sound that nobody could join: a caller must not find out from a file that hisses."""
    import numpy as np

    audio = result.audio
    if result.chunk != request.chunk:
        raise ValueError(f"the engine answers chunk {request.chunk} with chunk {result.chunk}: expected their order")
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
