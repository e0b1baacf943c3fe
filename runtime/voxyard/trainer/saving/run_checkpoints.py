"""Checkpoints of a run, written in a thread beside its training, one at a time. No TensorFlow."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from voxyard.trainer import checkpoint
from voxyard.trainer.checkpoint import CheckpointError

log = logging.getLogger("voxyard.trainer")

State = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class _Written:
    path: Path
    step: int
    best: float  # validation loss of the best one up to this one
    is_best: bool
    seconds: float


class RunCheckpoints:
    """Writer of a run's checkpoints. A context: its end waits for the one that is being written.

    The results of the thread are taken over where the run asks (`collect`, `settle`, `begin`), all from one thread:
    one that could not be written is an error in the log, and the earlier ones are as they were.
    """

    def __init__(
        self,
        directory: Path,
        *,
        keep: int,
        first: int = 0,
        best: float = math.inf,
        written: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """`first` is the step that the run starts from, `best` the validation loss of the best checkpoint up to there.

        `written` is called with the seconds of each checkpoint, from its step to the disk.
        """
        self.saved, self.best = first, best  # newest step on the disk, and the loss of the best one
        self.count, self.seconds = 0, 0.0  # checkpoints on the disk, and all of their seconds
        self._directory, self._keep, self._told = directory, keep, written
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="voxyard-checkpoint")
        self._pending: Future[_Written] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.settle()
        finally:
            self._thread.shutdown()

    @property
    def writing(self) -> bool:
        """True until the result of the newest one was taken over."""
        return self._pending is not None

    @property
    def mean_seconds(self) -> float | None:
        """Mean seconds of a checkpoint, from its step to the disk."""
        return self.seconds / self.count if self.count else None

    def begin(self, step: int, state: Callable[[], State], meta: Mapping[str, Any], *, loss: float) -> None:
        """Takes a copy of the state as it is now, and has it written; waits for the one before first.

        `state` gives arrays that nothing changes from then on. With a `loss` (NaN is none) below that of all before,
        `best` points to it once it is written. Raises what `state` raises.
        """
        self.settle()
        begin = time.perf_counter()
        best = min(self.best, loss)  # in this order NaN is never the best
        described = {**meta, "best": best if math.isfinite(best) else None}
        self._pending = self._thread.submit(self._write, step, state(), described, best, best < self.best, begin)

    def collect(self) -> None:
        """Takes the result over where there is one; waits for nothing."""
        if self._pending is not None and self._pending.done():
            self.settle()

    def settle(self, *, must: bool = False) -> None:
        """Waits for the one that is being written. With `must` raises CheckpointError where it cannot be written."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            made = pending.result()
        except CheckpointError as error:
            if must:
                raise
            log.error("%s", error)
            return
        self.saved, self.best = made.step, made.best
        self.count, self.seconds = self.count + 1, self.seconds + made.seconds
        self._told(made.seconds)
        log.info("Checkpoint %s%s", made.path, " (best so far)" if made.is_best else "")

    def _write(
        self, step: int, state: State, meta: Mapping[str, Any], best: float, is_best: bool, begin: float
    ) -> _Written:
        path = checkpoint.save(self._directory, step, state, meta, keep=self._keep)
        if is_best:
            checkpoint.mark_best(self._directory, path)
        return _Written(path, step, best, is_best, time.perf_counter() - begin)
