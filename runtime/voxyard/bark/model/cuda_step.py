"""Operations of a decode step on a GPU, by kernels that are compiled for the model's sizes when it is loaded.

torch's own attention reads as many positions of every row as the longest row has, and knows no unused rows: a lone
chunk in a batch of 64 would cost as much as 64. These kernels (`kernels/`) read a row's own positions, write the new
one to the cache on the way, and take the sum of a residual with its layer norm. The products stay cuBLAS's.

A cache in 8 bits has whole numbers from −127 to 127 and a scale for each row, head and position, in the type of the
model: 66 bytes instead of 128 for a key of 64 values in bfloat16. Its kernels are the same ones.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from voxyard.bark.model.cuda_kernels import Kernels, compiled

Tensor = Any
LENGTHS = 256  # a step is captured for multiples of this: a row reads its own positions, however long the longest is
_THREADS = 128  # of a block, as in the sources
_MOST_THREADS = 1024  # of a block of any kernel
_TYPES = (torch.bfloat16, torch.float32)


def problem(like: Tensor, batch: int, heads: int, block: int, *, in_8_bits: bool = False) -> str | None:
    """Reason why there are no kernels for a cache of these sizes, in the type and on the device of `like`."""
    if like.device.type != "cuda":
        return "the device is no NVIDIA GPU"
    width = like.shape[-1] // heads
    lanes, rest = divmod(width * (1 if in_8_bits else like.element_size()), 16)
    if like.dtype not in _TYPES:
        return f"values in {like.dtype}"
    if rest or lanes not in (1, 2, 4, 8, 16, 32):  # threads share a position by twos
        return f"heads of {width} values"
    if 2 * heads * lanes > _MOST_THREADS:
        return f"{heads} heads of {width} values, of which a position takes more than {_MOST_THREADS} threads"
    if in_8_bits and block * like.element_size() % 16:
        return f"blocks of {block} positions, whose scales are no whole 16 bytes"
    try:
        _attention(like.dtype, heads, width, block, span_of(batch), like.device.index, in_8_bits=in_8_bits)
        _norm(like.dtype, like.shape[-1], like.device.index)
    except (ImportError, RuntimeError) as error:
        return " ".join(str(error).split())[:500]
    return None


@functools.cache
def normalises(dtype: Any, hidden: int, device: Any) -> bool:
    """True where a sum and its layer norm are one kernel on this device."""
    if device.type != "cuda" or dtype not in _TYPES:
        return False
    try:
        _norm(dtype, hidden, device.index)
    except (ImportError, RuntimeError):
        return False  # the cache has told it
    return True


def span_of(batch: int) -> int:
    """Positions of a block of threads: few where few rows have to keep all multiprocessors busy."""
    return 128 if batch <= 16 else 256


def _attention(dtype: Any, heads: int, width: int, block: int, span: int, device: int, *, in_8_bits: bool) -> Kernels:
    sizes = ("HEADS", heads), ("WIDTH", width), ("BLOCK", block), ("SPAN", span)
    macros = (("BF16", int(dtype == torch.bfloat16)), ("CACHE8", int(in_8_bits)), *sizes)
    return compiled("attention", macros, ("attend_spans", "join_spans", "write_window"), device)


def _of_cache(like: Tensor, cache: Tensor) -> Kernels:
    """Kernels of a cache, (rows, 2, heads, block, width), in a model of the type of `like`."""
    rows, _, heads, block, width = cache.shape
    in_8_bits = cache.dtype == torch.int8
    return _attention(like.dtype, heads, width, block, span_of(rows), like.device.index, in_8_bits=in_8_bits)


def _norm(dtype: Any, hidden: int, device: int) -> Kernels:
    macros = ("BF16", int(dtype == torch.bfloat16)), ("HIDDEN", hidden)
    return compiled("add_and_norm", macros, ("add_and_norm",), device)


@torch.library.custom_op(  # type: ignore[untyped-decorator]
    "voxyard::attend_step",
    mutates_args=("cache", "scales"),
    device_types="cuda",
    schema="(Tensor qkv, Tensor(a!) cache, Tensor(b!)? scales, Tensor at, int length) -> Tensor",
)
def attend_step(qkv: Tensor, cache: Tensor, scales: Tensor | None, at: Tensor, length: int) -> Tensor:
    """Attention of one token a row: (rows, 3 · hidden) → (rows, hidden).

    Writes its key and value to the cache, (rows, 2, heads, block, width), at its position (rows,) int64; in 8 bits with
    its scales, (rows, 2, heads, block).
    """
    rows, _, heads, block, width = cache.shape
    span, kernels = span_of(rows), _of_cache(qkv, cache)
    parts = torch.empty(rows, heads, -(-block // span), width + 2, dtype=torch.float32, device=qkv.device)
    out = qkv.new_empty(rows, heads * width)
    kernels.launch("attend_spans", (-(-length // span), heads, rows), _THREADS, (qkv, cache, scales, at, parts))
    kernels.launch("join_spans", (heads, rows, 1), width, (parts, at, out))
    return out


attend_step.register_fake(lambda qkv, *_: qkv.new_empty(qkv.shape[0], qkv.shape[1] // 3))


@torch.library.custom_op(  # type: ignore[untyped-decorator]
    "voxyard::write_window",
    mutates_args=("cache", "scales"),
    device_types="cuda",
    schema="(Tensor qkv, Tensor(a!) cache, Tensor(b!)? scales, Tensor rows) -> ()",
)
def write_window(qkv: Tensor, cache: Tensor, scales: Tensor | None, rows: Tensor) -> None:
    """Write keys and values of windows, (windows, time, 3 · hidden), to rows of the cache, from position 0 on.

    Cache and scales as of `attend_step`; `rows` (windows,) int64.
    """
    _, _, heads, _, width = cache.shape
    windows, time, _ = qkv.shape
    threads = 2 * heads * width * cache.element_size() // 16
    _of_cache(qkv, cache).launch("write_window", (time, windows, 1), threads, (qkv, cache, scales, rows))


write_window.register_fake(lambda *_: None)


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
