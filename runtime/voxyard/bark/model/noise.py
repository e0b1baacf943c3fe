"""Counter-based random numbers: those of a chunk depend on its seed alone, never on its batch or worker."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import torch

Stage = Literal["semantic", "coarse", "fine", "codec"]

Tensor = Any
_BITS = 23  # of a uniform number: with its half added it is still exact in float32, and never 0 or 1


def key(seed: int, chunk: int, attempt: int, stage: Stage) -> tuple[int, int]:
    """Key of the noise of one chunk in one stage of one attempt: two 32-bit numbers."""
    name = f"{seed}/{chunk}/{attempt}/{stage}".encode()
    digest = hashlib.blake2b(name, digest_size=8).digest()
    return int.from_bytes(digest[:4], "little", signed=True), int.from_bytes(digest[4:], "little", signed=True)


def keys(named: list[tuple[int, int]], device: Any) -> Tensor:
    """Keys of the rows of a batch, (batch, 2) int32."""
    return torch.tensor(named, dtype=torch.int32, device=device)


def gumbel(keys: Tensor, steps: Tensor, width: int) -> Tensor:
    """Standard Gumbel noise: the largest of `logits / temperature + noise` is a sample of the softmax.

    Args:
        keys: (batch, 2) int32.
        steps: counters of the steps, (batch, steps) int32.
        width: number of noise values of a step.

    Returns:
        (steps, batch, width) float32.
    """
    columns = torch.arange(width, dtype=torch.int32, device=keys.device)
    by_column = _mix(columns + keys[:, :1])  # (batch, width)
    by_step = _mix(steps.T ^ keys[:, 1])  # (steps, batch)
    bits = _mix(by_column ^ by_step[..., None])  # (steps, batch, width)
    uniform = (_shifted(bits, 32 - _BITS).float() + 0.5) * 2.0**-_BITS
    return uniform.log_().neg_().log_().neg_()


def _mix(number: Tensor) -> Tensor:
    """A 32-bit hash without collisions: xor-shift and multiply, constants of Chris Wellons' hash-prospector search."""
    number = (number ^ _shifted(number, 16)) * 0x21F0AAAD
    number = (number ^ _shifted(number, 15)) * 0x735A2D97
    return number ^ _shifted(number, 15)


def _shifted(number: Tensor, bits: int) -> Tensor:
    """A logical shift to the right of int32 numbers, whose own shift keeps the sign."""
    return (number >> bits) & ((1 << (32 - bits)) - 1)
