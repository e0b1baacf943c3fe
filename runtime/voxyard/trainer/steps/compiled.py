"""Compiled functions of a run: one for each layout of a batch, and the count of how often each was traced."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import tensorflow as tf

from voxyard.trainer.devices.tensorflow_setup import Devices, executor_scope
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.packing import BatchLayout, Packed
from voxyard.trainer.trainable import Batch


class Compiler:
    """Compiles the functions of a step."""

    def __init__(self, devices: Devices, *, xla: bool, most_traces: int | None) -> None:
        """`most_traces` is how often each function may be traced; None is without bound."""
        self.xla = xla
        self.traces: Counter[str] = Counter()
        self._devices, self._most_traces = devices, most_traces

    def of_batch(
        self, name: str, function: Callable[..., Any], *, threads: bool = False, alike: int = 1, xla: bool | None = None
    ) -> Callable[..., Any]:
        """The function of a batch and further tensors, compiled once for each layout of a packed batch that it meets.

        With `threads` not in the scope of `executor_scope`. `alike` functions have this name, each with its traces.
        """

        def of_layout(layout: BatchLayout, words: tf.Tensor, *more: tf.Tensor) -> Any:
            batch = layout.unpack(words)
            self._count_trace(name, batch, alike)
            return function(batch, *more)

        return self.of_layout(name, of_layout, xla=self.xla if xla is None else xla, threads=threads)

    def of_layout(
        self, name: str, function: Callable[..., Any], *, xla: bool, threads: bool = False
    ) -> Callable[..., Any]:
        """The function of a packed batch and further tensors, compiled for each layout; its traces are not counted."""
        by_layout: dict[BatchLayout, Callable[..., Any]] = {}
        tracing = threading.Lock()  # threads of the ring meet a new layout at the same time

        def made(layout: BatchLayout) -> Callable[..., Any]:
            def traced(words: Any, *more: Any) -> Any:
                return function(layout, words, *more)

            traced.__name__ = name  # how TensorFlow's profiler calls it
            return tf.function(traced, jit_compile=xla or None, autograph=False)

        def call(packed: Packed, *more: Any) -> Any:
            with nullcontext() if threads else executor_scope(self._devices):
                if packed.layout in by_layout:
                    return by_layout[packed.layout](packed.words, *more)
                with tracing:
                    compiled = by_layout.get(packed.layout) or made(packed.layout)
                    values = compiled(packed.words, *more)
                    by_layout[packed.layout] = compiled
                    return values

        return call

    def _count_trace(self, name: str, batch: Batch, alike: int) -> None:
        self.traces[name] += 1
        most = None if self._most_traces is None else self._most_traces * alike
        if most is not None and self.traces[name] > most:
            shapes = {key: tuple(value.shape) for key, value in batch.items()}
            raise TrainerError(
                f"{name} was to be traced a {self.traces[name]}th time for {most} length buckets, by a batch of shapes "
                f"{shapes}: every batch must have the static shape of its bucket",
                exit_code=1,
            )
