"""Launch of a decode step on a GPU: captured once as a CUDA graph for each reading length, or compiled."""

from __future__ import annotations

from typing import Any

import torch

from voxyard.bark.config import Capture
from voxyard.bark.model.decode import Launch, Step, TokenSampling, eager, sample
from voxyard.bark.model.gpt import Cache, CausalGPT

Tensor = Any
_WARM_UPS = 3  # runs before a capture, so that libraries have selected their kernels


def launch(capture: Capture, device: str) -> Launch:
    """Launcher of decode steps for the device; on a CPU nothing is captured."""
    if device != "cuda" or capture == "none":
        return eager
    return compiled if capture == "compile" else graphs


def compiled(gpt: CausalGPT, cache: Cache) -> Step:
    """The step through torch.compile, which fuses the operations between matrix products."""
    forward = torch.compile(gpt.step, dynamic=False, mode="max-autotune-no-cudagraphs")
    return graphs(gpt, cache, forward)


def graphs(gpt: CausalGPT, cache: Cache, forward: Any = None) -> Step:
    """The step as CUDA graphs: one for each pair of reading length and sampling, sharing their memory."""
    forward = forward or gpt.step
    captured: dict[tuple[int, TokenSampling], _Graph] = {}
    pool = torch.cuda.graph_pool_handle()

    def step(token: Tensor, at: Tensor, length: int, sampling: TokenSampling, noise: Tensor) -> tuple[Tensor, Tensor]:
        graph = captured.get((length, sampling))
        if graph is None:
            graph = captured[length, sampling] = _Graph(
                gpt, cache, forward, (length, sampling), (token, at, noise), pool
            )
        return graph(token, at, noise)

    return step


class _Graph:
    """One captured step with its own input and output tensors."""

    def __init__(
        self,
        gpt: CausalGPT,
        cache: Cache,
        forward: Any,
        shape: tuple[int, TokenSampling],
        example: tuple[Tensor, Tensor, Tensor],
        pool: Any,
    ) -> None:
        length, sampling = shape
        self._inputs = tuple(each.clone() for each in example)
        token, at, noise = self._inputs

        def run() -> tuple[Tensor, Tensor]:
            hidden = forward(token, at, cache, length)
            return sample(gpt.logits(hidden, sampling.first, sampling.last), sampling, noise)

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):  # idempotent: writes the same keys and values to the same positions
                run()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._outputs = run()

    def __call__(self, token: Tensor, at: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        for buffer, value in zip(self._inputs, (token, at, noise), strict=True):
            buffer.copy_(value)
        self._graph.replay()
        chosen, score = self._outputs
        return chosen.clone(), score.clone()  # the next replay of any graph overwrites them
