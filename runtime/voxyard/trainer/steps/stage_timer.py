"""Times of the stages beside the training step: the data stage (D), and updates timed apart (V). No TensorFlow."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voxyard.telemetry.input_metrics import Part
    from voxyard.trainer.input import Arrays, HostBatch

SHARE = 0.01  # of the time, that measurements apart may take
MOST_SHAPES = 8  # host batches that are kept to time the data stage with, one of each shape


class StageTimer:
    """Timer of a step's stages.

    A CPU has computed what it was given when the call returns: the stages of every batch are timed. On GPUs a call is
    a launch that waits for others' work: there they are timed alone between barriers, where the loop is `due` to
    `calibrate`, at first and then for 1% of the time.
    """

    def __init__(
        self, traces: Mapping[str, int], *, asynchronous: bool, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`traces` counts how often each function was traced (compiled): such calls say nothing."""
        self.data, self.beside = DataTimes(), UpdateTimes()
        self.told: Callable[[Part, float], None] = lambda _part, _seconds: None  # is called with each time of D
        self.beside_next = not asynchronous  # V of the next step is timed, on the model device
        self._traces, self._asynchronous, self._clock = traces, asynchronous, clock
        self._due = -math.inf
        self._kept: dict[object, HostBatch] = {}
        self._waits = threading.local()  # seconds of a thread's features before their turn

    # -- where every batch is timed ------------------------------------------------------------------------------------

    @contextmanager
    def of_data(self, batch: HostBatch) -> Iterator[None]:
        """Scope of a batch's data stage, in the thread that stages it."""
        shape, traces, waited, begin = batch.plan.bucket, self._traces["features"], self.turn_seconds, self._clock()
        yield
        if self._asynchronous:
            if shape in self._kept or len(self._kept) < MOST_SHAPES:
                self._kept[shape] = batch
        elif self._traces["features"] == traces:
            self._staged(shape, both=self._clock() - begin - (self.turn_seconds - waited))

    @contextmanager
    def of_beside(self, name: str) -> Iterator[None]:
        """Scope of updates that are timed apart, by the function of this name."""
        traces, begin = self._traces[name], self._clock()
        yield
        if self._traces[name] == traces:
            self.beside.add(self._clock() - begin)
            self.beside_next = not self._asynchronous

    @contextmanager
    def turn(self, of_device: AbstractContextManager[object]) -> Iterator[None]:
        """Scope of features on a device that is taken for them: the wait for it is none of their time."""
        begin = self._clock()
        with of_device:
            self._waits.seconds = self.turn_seconds + self._clock() - begin
            yield

    @property
    def turn_seconds(self) -> float:
        """Seconds in which features that this thread asked for waited for their turn."""
        return getattr(self._waits, "seconds", 0.0)

    # -- between steps ---------------------------------------------------------------------------------------------

    def due(self) -> bool:
        """True where the time that the last calibration took is paid for."""
        return self._asynchronous and self._clock() >= self._due

    def calibrate(self, alone: Callable[[Arrays], dict[str, float]], paused: AbstractContextManager[None]) -> None:
        """Times the data stage of one batch `alone`, of the shape that was timed least; its seconds are by part.

        A batch that the ring, which is `paused`, has made already is made once more, in the place of the one that was
        trained on, and dropped.
        """
        begin = self._clock()
        with paused:
            if self._kept:
                shape = min(self._kept, key=self.data.count_of)
                self._staged(shape, **alone(self._kept[shape].arrays))
        now = self._clock()
        self._due = now + (now - begin) / SHARE

    def forget(self) -> None:
        """Drops the batches that were kept to be made once more."""
        self._kept.clear()

    def _staged(self, shape: object, **parts: float) -> None:
        self.data.add(sum(parts.values()), shape)
        for part, seconds in parts.items():
            self.told(part, seconds)  # type: ignore[arg-type]


class DataTimes:
    """Seconds of the data stage, by the shape of the batch."""

    def __init__(self) -> None:
        self._shapes: dict[object, tuple[int, float]] = {}

    def add(self, seconds: float, shape: object = None) -> None:
        """One batch of this shape."""
        count, total = self._shapes.get(shape, (0, 0.0))
        self._shapes[shape] = (count + 1, total + seconds)

    @property
    def count(self) -> int:
        """Batches that were timed."""
        return sum(count for count, _ in self._shapes.values())

    def count_of(self, shape: object) -> int:
        """Batches of this shape that were timed."""
        return self._shapes.get(shape, (0, 0.0))[0]

    def mean(self, steps: Mapping[Any, int]) -> float | None:
        """Mean seconds of a batch, None if none was timed.

        Each shape weighs as many `steps` as were made of it, however often the stage was timed on it.
        """
        made = {shape: steps.get(shape, 0) for shape in self._shapes}
        weights = made if any(made.values()) else {shape: count for shape, (count, _) in self._shapes.items()}
        weighed = (weights[shape] * total / count for shape, (count, total) in self._shapes.items())
        return sum(weighed) / sum(weights.values()) if weights else None


class UpdateTimes:
    """Seconds of updates timed apart, a vocoder's, of a whole run and of its present phase; from several threads."""

    def __init__(self) -> None:
        self.told: Callable[[float], None] = lambda _seconds: None  # is called with each
        self._change = threading.Lock()
        self._run, self._phase = (0, 0.0), (0, 0.0)

    def add(self, seconds: float) -> None:
        """The updates of one step."""
        with self._change:
            self._run, self._phase = ((count + 1, total + seconds) for count, total in (self._run, self._phase))
        self.told(seconds)

    def begin_phase(self) -> None:
        """From now on the updates are others: a vocoder's discriminators take part."""
        with self._change:
            self._phase = (0, 0.0)

    @property
    def run_mean(self) -> float | None:
        """Mean seconds of an update in this run."""
        return _mean(*self._run)

    @property
    def mean(self) -> float | None:
        """Mean seconds of an update in the present phase; of the run where nothing of the phase was timed yet."""
        return _mean(*self._phase) or self.run_mean

    @property
    def count(self) -> int:
        """Updates of the present phase that were timed."""
        return self._phase[0]


def _mean(count: int, total: float) -> float | None:
    return total / count if count else None
