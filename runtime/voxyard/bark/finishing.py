"""What follows the causal stages of a chunk (fine stage, codec, quality check): after a decode step, or beside them.

```
 decoding thread     step │ step │ step │ step │ step       the causal stages of all rows
                        └ give ┐      ▲ done
 finishing thread              fine, codec, check           one chunk at a time, on a GPU in a stream of its own
```
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from voxyard.bark.attempts import Attempt, ChunkInFlight
from voxyard.bark.pipeline import CausalOutcome


class OnFinishing(Protocol):
    """Called as the work goes on, with the seconds that the next piece of it may take without a report."""

    def __call__(self, pause: float = 0.0) -> None:
        """Report."""


@dataclass(frozen=True)
class Decoded:
    """A chunk that has left the causal stages."""

    chunk: ChunkInFlight
    outcome: CausalOutcome


Finish = Callable[[Sequence[Decoded], OnFinishing], Sequence[Attempt]]  # an attempt for each chunk
Wanted = Callable[[Decoded], bool]  # False where it was cancelled


class Afterwards:
    """Finishes chunks when they are taken, in the calling thread: `together` all that were given, else one by one."""

    pending = 0  # between two decode steps

    def __init__(self, finish: Finish, wanted: Wanted, report: OnFinishing, *, together: bool) -> None:
        self._finish, self._wanted, self._report, self._together = finish, wanted, report, together
        self._given: Sequence[Decoded] = ()

    def give(self, decoded: Sequence[Decoded]) -> None:
        """Chunks to finish, in this order."""
        self._given = decoded

    def take(self, *, wait: bool) -> Iterator[tuple[Decoded, Attempt]]:
        """All of them."""
        given, self._given = self._given, ()
        for some in [given] if self._together else [[each] for each in given]:
            left = [each for each in some if self._wanted(each)]
            yield from zip(left, self._finish(left, self._report) if left else (), strict=True)

    def close(self) -> None:
        """Nothing to end."""


class Beside:
    """Finishes chunks in a thread, while the caller decodes others; urgent ones first, else in their order.

    Both threads report to one watch, which believes the last report. So the pause that this thread has asked for is
    repeated where the caller waits for it, and cannot report itself.
    """

    def __init__(self, finish: Finish, wanted: Wanted, report: OnFinishing) -> None:
        self._finish, self._wanted, self._report = finish, wanted, report
        self.pending = 0
        self._pause, self._reporting = 0.0, threading.Lock()
        self._order = itertools.count()
        self._given: queue.PriorityQueue[tuple[int, int, Decoded | None]] = queue.PriorityQueue()
        self._done: queue.SimpleQueue[tuple[Decoded, Attempt | BaseException | None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="finishing", daemon=True)
        self._thread.start()

    def give(self, decoded: Sequence[Decoded]) -> None:
        """Chunks to finish."""
        for each in decoded:
            self.pending += 1
            self._given.put((1 if each.chunk.request.urgent else 2, next(self._order), each))

    def take(self, *, wait: bool) -> Iterator[tuple[Decoded, Attempt]]:
        """Those that are done, with `wait` at least one of those that are pending. Raises what finishing raised."""
        while self.pending:
            if wait:
                with self._reporting:
                    self._report(self._pause)
            try:
                decoded, found = self._done.get(block=wait)
            except queue.Empty:
                return
            self.pending -= 1
            if isinstance(found, BaseException):
                raise found
            if found is not None:
                wait = False
                yield decoded, found

    def close(self) -> None:
        """End the thread after the chunk that it is at."""
        self._given.put((0, 0, None))
        self._thread.join()

    def _run(self) -> None:
        on_gpu = torch.cuda.is_initialized()
        with torch.cuda.stream(torch.cuda.Stream()) if on_gpu else contextlib.nullcontext():
            while (decoded := self._given.get()[2]) is not None:
                found: Attempt | BaseException | None = None
                try:
                    if self._wanted(decoded):
                        (found,) = self._finish([decoded], self._progress)
                except BaseException as error:  # noqa: BLE001 — raised again in the thread that takes
                    found = error
                self._done.put((decoded, found))

    def _progress(self, pause: float = 0.0) -> None:
        with self._reporting:
            self._pause = pause
            self._report(pause)
