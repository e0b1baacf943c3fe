"""Compiled functions of a run: one for each layout of a batch, and the count of how often each was traced."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import tensorflow as tf

from voxyard.trainer.devices.tensorflow_setup import Devices, executor_scope
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.out_of_memory import is_out_of_memory
from voxyard.trainer.packing import BatchLayout, Packed
from voxyard.trainer.steps.stable_names import stable_names
from voxyard.trainer.trainable import Batch


class Compiler:
    """Compiles the functions of a step."""

    def __init__(self, devices: Devices, *, xla: bool, most_traces: int | None) -> None:
        """`most_traces` is how often each function may be traced; None is without bound."""
        self.xla = xla
        self.traces: Counter[str] = Counter()
        self._devices, self._most_traces = devices, most_traces
        self._again = 0  # first calls that were made once more, without the cache of compiled code
        self._named: Counter[str] = Counter()
        self._tracing = threading.Lock()

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
        locks: defaultdict[BatchLayout, threading.Lock] = defaultdict(
            threading.Lock
        )  # threads meet a new layout at once
        number = self._count(name)

        def made(layout: BatchLayout) -> Callable[..., Any]:
            def traced(words: Any, *more: Any) -> Any:
                return function(layout, words, *more)

            traced.__name__ = name  # how TensorFlow's profiler calls it
            # TensorFlow takes five traces of one code for retracing, and warns: here each is a function of its own.
            traced.__code__ = traced.__code__.replace(co_name=f"{name} {number} {len(by_layout)}")
            return tf.function(traced, jit_compile=xla or None, autograph=False)

        def call(packed: Packed, *more: Any) -> Any:
            with nullcontext() if threads else executor_scope(self._devices):
                if packed.layout in by_layout:
                    return by_layout[packed.layout](packed.words, *more)
                with locks[packed.layout]:
                    if packed.layout not in by_layout:
                        key = f"{name} {number} {packed.layout}"
                        by_layout[packed.layout], values = self._first(key, lambda: made(packed.layout), packed, more)
                        return values
                    return by_layout[packed.layout](packed.words, *more)

        return call

    def _count(self, name: str) -> int:
        """Number of the function among those of this name."""
        self._named[name] += 1
        return self._named[name]

    def _first(
        self, key: str, made: Callable[[], Callable[..., Any]], packed: Packed, more: tuple[Any, ...]
    ) -> tuple[Callable[..., Any], Any]:
        """A function and what its first call gives, which traces and compiles it.

        An error is not the last word where compiled code is read from and written to a cache: TensorFlow fails the
        call with what fails there. Then it is compiled once more without.
        """
        cache, compiled = self._devices.cache, made()
        try:
            return compiled, self._traced_and_called(key, compiled, packed, more)
        except tf.errors.OpError as error:
            if cache is None or self._devices.hosts is not None or is_out_of_memory(error):
                raise
            failed = error
        cache.leave()
        self._again += 1
        compiled = made()
        values = self._traced_and_called(key, compiled, packed, more)
        cache.blame(failed)
        return compiled, values

    def _traced_and_called(self, key: str, compiled: Any, packed: Packed, more: tuple[Any, ...]) -> Any:
        """What the first call gives. One thread traces at a time, and several compile."""
        if not tf.executing_eagerly():  # within the trace of another function
            with stable_names(key):
                return compiled(packed.words, *more)
        with self._tracing, stable_names(key):
            if not isinstance(packed.words, tf.Tensor):  # distributed over replicas
                return compiled(packed.words, *more)
            compiled.get_concrete_function(packed.words, *more)
        return compiled(packed.words, *more)

    def _count_trace(self, name: str, batch: Batch, alike: int) -> None:
        self.traces[name] += 1
        most = None if self._most_traces is None else self._most_traces * alike + self._again
        if most is not None and self.traces[name] > most:
            shapes = {key: tuple(value.shape) for key, value in batch.items()}
            raise TrainerError(
                f"{name} was to be traced a {self.traces[name]}th time for {most} length buckets, by a batch of shapes "
                f"{shapes}: every batch must have the static shape of its bucket",
                exit_code=1,
            )
