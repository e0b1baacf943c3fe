"""Attention and its cache of keys and values, laid out for the device that reads it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (the field's name for it)

from voxyard.bark.errors import BarkError
from voxyard.bark.model.cuda_step import LENGTHS, problem

Tensor = Any
_log = logging.getLogger(__name__)
TILE = 64  # positions that a CPU takes through a layer at a time: their activations stay in its second-level cache


@dataclass(frozen=True)
class LayerCache:
    """Keys and values of one layer, each (batch, heads, block, width)."""

    keys: Tensor
    values: Tensor
    both: Tensor | None  # (batch, 2, heads, block, width) where they are one tensor
    scales: Tensor | None = None  # (batch, 2, heads, block) of those in 8 bits, which kernels write and read

    def first(self, length: int) -> tuple[Tensor, Tensor]:
        """Views of the first positions, each (batch, heads, length, width)."""
        return self.keys[:, :, :length], self.values[:, :, :length]

    def write_step(self, rows: Tensor, at: Tensor, kv: Tensor) -> None:
        """Write one position of each row; `kv` is (rows, 2, heads, width)."""
        if self.both is not None:
            self.both[rows, :, :, at] = kv
            return
        self.keys[rows, :, at], self.values[rows, :, at] = kv[:, 0], kv[:, 1]

    def write_tile(self, row: int, begin: int, kv: Tensor) -> None:
        """Write consecutive positions of one row; `kv` is (time, 2, heads, width)."""
        end = begin + len(kv)
        self.keys[row, :, begin:end] = kv[:, 0].transpose(0, 1)
        self.values[row, :, begin:end] = kv[:, 1].transpose(0, 1)

    def write_rows(self, rows: Tensor, k: Tensor, v: Tensor) -> None:
        """Write positions from 0 on of several rows; `k` and `v` are (rows, heads, time, width)."""
        time = k.shape[2]
        self.keys[:, :, :time][rows] = k
        self.values[:, :, :time][rows] = v


class Cache:
    """Keys and values of a batch, by layer.

    On a CPU keys lie transposed, so that both products of `attend` read contiguous memory. On a GPU keys and values are
    one tensor, which a step writes with one kernel.
    """

    def __init__(self, like: Tensor, shape: tuple[int, int, int, int], layers: int, *, in_8_bits: bool = False) -> None:
        """Zeros in the type and on the device of `like`, or in 8 bits; `shape` is (batch, heads, block, width).

        Raises:
            BarkError: a cache in 8 bits has no kernels here.
        """
        self.batch, heads, self.block, width = shape
        reason = problem(like, self.batch, heads, self.block, in_8_bits=in_8_bits)
        if reason is not None and in_8_bits:
            raise BarkError(f"--kv-cache int8 cannot be had on this GPU: {reason}; leave it out")
        if reason is not None and like.device.type == "cuda":
            _log.warning("GPU decode steps are slower than they could be, by torch's own attention: %s", reason)
        self.kernels = reason is None  # for steps and prefills
        self.layers = tuple(
            _zeros(like, self.batch, heads, self.block, width, in_8_bits=in_8_bits) for _ in range(layers)
        )
        self.rows = torch.arange(self.batch, device=like.device)
        self._views: dict[int, list[tuple[LayerCache, Tensor, Tensor]]] = {}

    def read_length(self, positions: int) -> int:
        """Positions that a step reads or skips, for rows of so many: few lengths, as each is captured on its own.

        Longer reads add exact zeros and change no bit.
        """
        return padded_length(positions, self.block, LENGTHS if self.kernels else TILE)

    def views(self, length: int) -> list[tuple[LayerCache, Tensor, Tensor]]:
        """By layer: cache to write to, keys and values to read, each (batch, heads, length, width); cached."""
        if length not in self._views:
            self._views[length] = [(layer, *layer.first(length)) for layer in self.layers]
        return self._views[length]

    def clear(self, rows: list[int]) -> None:
        """Set rows to zero."""
        for layer in self.layers:
            layer.keys[rows] = layer.values[rows] = 0
            if layer.scales is not None:
                layer.scales[rows] = 0

    def row_bytes(self, length: int) -> int:
        """Bytes that a step reads of one row of so many positions."""
        read = [each[0] for layer in self.layers for each in layer.first(length)]
        read += [layer.scales[0, ..., :length] for layer in self.layers if layer.scales is not None]
        return sum(each.nbytes for each in read)


def padded_length(length: int, block: int, multiple: int = TILE) -> int:
    """The next multiple, at most the block: few lengths, as each is captured on its own."""
    return min(block, -(-length // multiple) * multiple)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Scaled dot-product attention, each (batch, heads, time, width); `mask` is added to the scores.

    On a CPU it is two batched products around a softmax: torch's fused kernel there is several times slower for the few
    queries of a step, and for a tile of a prefill.
    """
    if q.device.type != "cpu":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(2, 3))  # (batch, heads, queries, keys)
    if mask is not None:
        scores += mask
    return torch.matmul(scores.softmax(-1), v)


def transposed(tensor: Tensor) -> Tensor:
    """The same values with the last two axes exchanged in memory: keys as `attend` reads them fastest on a CPU."""
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def _zeros(like: Tensor, batch: int, heads: int, block: int, width: int, *, in_8_bits: bool) -> LayerCache:
    """Zeros, not uninitialised memory: masked values must be finite too."""
    if like.device.type == "cpu":
        keys = like.new_zeros(batch, heads, width, block).transpose(2, 3)
        return LayerCache(keys, like.new_zeros(batch, heads, block, width), None)
    both = like.new_zeros(batch, 2, heads, block, width, dtype=torch.int8 if in_8_bits else like.dtype)
    scales = like.new_zeros(batch, 2, heads, block) if in_8_bits else None
    return LayerCache(both[:, 0], both[:, 1], both, scales)
