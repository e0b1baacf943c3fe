"""Operations of a decode step on a GPU, by kernels that are compiled for the model's sizes when it is loaded.

torch's own attention reads as many positions of every row as the longest row has, and knows no unused rows: a lone
chunk in a batch of 64 would cost as much as 64. These kernels (`kernels/`) read a row's own positions, write the new
one to the cache on the way, and take the sum of a residual with its layer norm. The products stay cuBLAS's.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

import torch

from voxyard.bark.model.cuda_kernels import Kernels, compiled

Tensor = Any
LENGTHS = 256  # a step is captured for multiples of this: a row reads its own positions, however long the longest is
_THREADS = 128  # of a block, as in the sources
_TYPES = (torch.bfloat16, torch.float32)
_log = logging.getLogger(__name__)


def available(like: Tensor, batch: int, heads: int, block: int) -> bool:
    """True where the kernels are compiled for a cache of these sizes, in the type and on the device of `like`.

    False on a CPU; on a GPU with a warning that says why torch's own attention is used.
    """
    if like.device.type != "cuda":
        return False
    width = like.shape[-1] // heads
    lanes, rest = divmod(width * like.element_size(), 16)
    reason = None
    if like.dtype not in _TYPES:
        reason = f"values in {like.dtype}"
    elif rest or lanes not in (1, 2, 4, 8, 16, 32):  # threads share a position by twos
        reason = f"heads of {width} values"
    else:
        try:
            _attention(like.dtype, heads, width, block, span_of(batch), like.device.index)
            _norm(like.dtype, like.shape[-1], like.device.index)
        except (ImportError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:500]
    if reason is not None:
        _log.warning("decode steps on the GPU are slower than they could be, by torch's own attention: %s", reason)
    return reason is None


@functools.cache
def normalises(dtype: Any, hidden: int, device: Any) -> bool:
    """True where a sum and its layer norm are one kernel on this device."""
    if device.type != "cuda" or dtype not in _TYPES:
        return False
    try:
        _norm(dtype, hidden, device.index)
    except (ImportError, RuntimeError):
        return False  # `available` has told it
    return True


def span_of(batch: int) -> int:
    """Positions of a block of threads: few where few rows have to keep all multiprocessors busy."""
    return 128 if batch <= 16 else 256


def _attention(dtype: Any, heads: int, width: int, block: int, span: int, device: int) -> Kernels:
    sizes = ("HEADS", heads), ("WIDTH", width), ("BLOCK", block), ("SPAN", span)
    macros = (("BF16", int(dtype == torch.bfloat16)), *sizes)
    return compiled("attend_step", macros, ("attend_spans", "join_spans"), device)


def _norm(dtype: Any, hidden: int, device: int) -> Kernels:
    macros = ("BF16", int(dtype == torch.bfloat16)), ("HIDDEN", hidden)
    return compiled("add_and_norm", macros, ("add_and_norm",), device)


@torch.library.custom_op(  # type: ignore[untyped-decorator]
    "voxyard::attend_step",
    mutates_args=("cache",),
    device_types="cuda",
    schema="(Tensor qkv, Tensor(a!) cache, Tensor at, int length) -> Tensor",
)
def attend_step(qkv: Tensor, cache: Tensor, at: Tensor, length: int) -> Tensor:
    """Attention of one token a row: (rows, 3 · hidden) → (rows, hidden).

    Writes its key and value to the cache, (rows, 2, heads, block, width), at its position (rows,) int64.
    """
    rows, _, heads, block, width = cache.shape
    span = span_of(rows)
    kernels = _attention(cache.dtype, heads, width, block, span, qkv.device.index)
    parts = torch.empty(rows, heads, -(-block // span), width + 2, dtype=torch.float32, device=qkv.device)
    out = qkv.new_empty(rows, heads * width)
    kernels.launch("attend_spans", (-(-length // span), heads, rows), _THREADS, (qkv, cache, at, parts))
    kernels.launch("join_spans", (heads, rows, 1), width, (parts, at, out))
    return out


attend_step.register_fake(lambda qkv, *_: qkv.new_empty(qkv.shape[0], qkv.shape[1] // 3))


@torch.library.custom_op(  # type: ignore[untyped-decorator]
    "voxyard::add_and_norm",
    mutates_args=(),
    device_types="cuda",
    schema="(Tensor x, Tensor added, Tensor weight, Tensor? bias) -> (Tensor, Tensor)",
)
def add_and_norm(x: Tensor, added: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Sum of a residual and a layer's output, each (…, hidden) and contiguous, and its layer norm."""
    hidden = x.shape[-1]
    total, normed = torch.empty_like(x), torch.empty_like(x)
    kernels = _norm(x.dtype, hidden, x.device.index)
    kernels.launch(
        "add_and_norm", (x.numel() // hidden, 1, 1), _THREADS, (x, added.contiguous(), weight, bias, total, normed)
    )
    return total, normed


add_and_norm.register_fake(lambda x, *_: (torch.empty_like(x), torch.empty_like(x)))
