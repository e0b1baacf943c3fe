"""Launch on a GPU: steps, prefills and windows captured once as CUDA graphs, one for each shape."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from voxyard.bark.config import Capture
from voxyard.bark.model.attention import Cache
from voxyard.bark.model.decode import Launch, Launched, Loop, TokenSampling, advance, eager
from voxyard.bark.model.fine import Fill, FineGPT, FineSampling, fill_eagerly, filled
from voxyard.bark.model.gpt import CausalGPT
from voxyard.bark.model.progress import OnProgress, unwatched

Tensor = Any
_CAPTURING = (
    threading.Lock()
)  # a capture begins with a wait for the whole device, which another one must not be asked for
_WARM_UPS = 3  # runs before a capture, so that libraries have selected their kernels


def launch(capture: Capture, device: str) -> Launch:
    """Launcher for the device; on a CPU nothing is captured."""
    return eager if device != "cuda" or capture == "none" else graphs


def graphs(gpt: CausalGPT, cache: Cache) -> Launched:
    """Step and prefill as CUDA graphs that share their memory.

    A step has one for each pair of reading length and sampling, a prefill one for each length.
    """
    steps: dict[tuple[int, TokenSampling], _Graph] = {}
    prefills: dict[int, _Graph] = {}
    pool = torch.cuda.graph_pool_handle()
    of: list[Loop] = []  # the loop whose addresses the steps have

    def step(loop: Loop, length: int, sampling: TokenSampling) -> None:
        def run() -> tuple[Tensor, ...]:
            advance(gpt, cache, loop, length, sampling)
            return ()

        if of != [loop]:
            steps.clear()
            of[:] = [loop]
        if (length, sampling) not in steps:
            steps[length, sampling] = _Graph(run, (), pool, state=loop.state)
        steps[length, sampling](())

    def prefill(x: Tensor, rows: Sequence[int], report: OnProgress) -> None:
        def run(x: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
            gpt.prefill_rows(x, cache, rows)
            return ()

        inputs = x, torch.tensor(rows, device=x.device)
        if x.shape[1] not in prefills:
            prefills[x.shape[1]] = _Graph(run, inputs, pool)
        report()
        prefills[x.shape[1]](inputs)

    return Launched(step, prefill, eager(gpt, cache).prefill_rows)


def launch_fill(capture: Capture, device: str) -> Callable[[FineGPT], Fill]:
    """Launcher of the fine stage for the device; on a CPU nothing is captured."""
    return fill_eagerly if device != "cuda" or capture == "none" else fill_graph


def fill_graph(gpt: FineGPT) -> Fill:
    """The fill of a window, all its codebooks as one CUDA graph: the host alone would take three times as long."""
    captured: dict[tuple[torch.Size, FineSampling], _Graph] = {}
    pool = torch.cuda.graph_pool_handle()

    def fill(
        window: Tensor, first: int, key: Tensor, counter: int, sampling: FineSampling, report: OnProgress
    ) -> tuple[Tensor, Tensor]:
        def run(window: Tensor, bounds: Tensor, key: Tensor) -> tuple[Tensor, ...]:
            return filled(gpt, window, 0, bounds, key, sampling, unwatched)

        inputs = window, torch.tensor([first, counter], dtype=torch.int32, device=window.device), key
        if (window.shape, sampling) not in captured:
            captured[window.shape, sampling] = _Graph(run, inputs, pool)
        report()
        complete, finite = captured[window.shape, sampling](inputs)
        return complete, finite

    return fill


class _Graph:
    """A captured function of tensors, with its own input and output tensors.

    `state`: tensors that it changes, and reads the next time; the capture leaves them as they were.
    """

    def __init__(
        self,
        run: Callable[..., tuple[Tensor, ...]],
        example: Sequence[Tensor],
        pool: Any,
        *,
        state: Sequence[Tensor] = (),
    ) -> None:
        self._inputs = tuple(each.clone() for each in example)
        self._state = tuple((each, each.clone()) for each in state)
        with _CAPTURING:
            self._capture(run, pool)

    def _capture(self, run: Callable[..., tuple[Tensor, ...]], pool: Any) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):  # idempotent: writes the same keys and values to the same positions
                run(*self._inputs)
                self._restore()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        # Another thread may allocate, copy and launch on its own stream meanwhile.
        with torch.cuda.graph(self._graph, pool=pool, capture_error_mode="thread_local"):
            self._outputs = run(*self._inputs)
        self._restore()

    def _restore(self) -> None:
        for each, before in self._state:
            each.copy_(before)

    def __call__(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        for buffer, value in zip(self._inputs, inputs, strict=True):
            buffer.copy_(value)
        self._graph.replay()
        return tuple(each.clone() for each in self._outputs)  # the next replay of any graph overwrites them
