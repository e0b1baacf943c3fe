"""Stand-in for two GPUs: calls return at once, and the devices compute later, in order, for as long as they are told.

The order of copies and waits is that of TensorFlow's source: a copy onto a device waits for all that its stream was
given when the copy was handed over (gpu_util.cc); a barrier waits for all that every stream was given. The numbers are
computed on CPU devices at the call.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from voxyard.trainer.devices.tensorflow_setup import Devices
from voxyard.trainer.loop import Run
from voxyard.trainer.packing import Packed
from voxyard.trainer.step import TrainStep
from voxyard.trainer.steps.losses import StepLosses

DATA, MODEL = "/device:CPU:0", "/device:CPU:1"
DEVICES = Devices(
    kind="cpu", strategy="split", data=DATA, model=MODEL, replicas=(MODEL,), batch_size=4, description=("one", "two"),
    limits={}, threads=None,
)  # fmt: skip

Open = Callable[..., Run]


class Stream:
    """Compute stream: what it is given takes its time, one after the other."""

    def __init__(self) -> None:
        self.ran_dry = 0  # times at which it was given work and had none
        self.tail = threading.Event()
        self.tail.set()
        self._given: queue.SimpleQueue[tuple[float, threading.Event] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._compute, daemon=True)
        self._thread.start()

    def give(self, seconds: float) -> threading.Event:
        """Hands work over; the event is set when it is computed."""
        self.ran_dry += self.tail.is_set()
        self.tail = threading.Event()
        self._given.put((seconds, self.tail))
        return self.tail

    def close(self) -> None:
        """Ends the thread after what was given."""
        self._given.put(None)
        self._thread.join()

    def _compute(self) -> None:
        while (one := self._given.get()) is not None:
            time.sleep(one[0])
            one[1].set()


@dataclass(frozen=True)
class PendingBatch(Packed):
    """A batch that its device computes later."""

    computed: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class PendingLosses(StepLosses):
    """Losses that their device computes later."""

    computed: threading.Event = field(default_factory=threading.Event)

    def read(self) -> dict[str, float]:
        """The values, once they are computed."""
        self.computed.wait()
        return super().read()


class AsyncStep(TrainStep):
    """The trainer's step on two such devices. Seconds of features, copy and training step are set on the class."""

    features_seconds, copy_seconds, train_seconds = 0.06, 0.004, 0.12

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.data_stream, self.model_stream = Stream(), Stream()
        self.copies = 0

    @property
    def asynchronous(self) -> bool:
        """As on GPUs."""
        return True

    def features_of(self, arrays: Mapping[str, Any], device: str | None = None) -> Packed:
        """Returns before the features are computed."""
        made = super().features_of(arrays, device)
        return PendingBatch(made.layout, made.words, self.data_stream.give(self.features_seconds))

    def transfer(self, made: Packed) -> Packed:
        """Waits for the features, and for the steps that the model device was given by now."""
        given = self.model_stream.tail
        self.wait_for(made)
        given.wait()
        time.sleep(self.copy_seconds)
        self.copies += 1
        return super().transfer(made)

    def train(self, staged: Any, step: int = 0) -> StepLosses:
        """Returns before the step is computed."""
        losses = super().train(staged, step)
        return PendingLosses(losses.names, losses.values, computed=self.model_stream.give(self.train_seconds))

    def synchronise(self) -> None:
        """Waits for both devices."""
        self.data_stream.tail.wait()
        self.model_stream.tail.wait()

    def wait_for(self, made: Packed) -> None:
        """Waits for the features of one batch."""
        if isinstance(made, PendingBatch):
            made.computed.wait()

    def end(self) -> None:
        """Ends both devices."""
        self.data_stream.close()
        self.model_stream.close()
