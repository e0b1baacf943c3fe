"""Packing: the arrays of a batch in one buffer of 64-byte lines, so that a batch is one copy between devices.

Two properties of TensorFlow make a batch of several tensors wait for the training step, again and again:

- Each copy onto a GPU is ordered behind the work that its compute stream has been given by then, because the memory
  that it writes may still be in use (`GPUUtil::DeviceToDeviceCopy`, `GPUUtil::CopyCPUTensorToGPU`, both in
  tensorflow/core/common_runtime/gpu/gpu_util.cc). Tensors that are copied one after another wait for a step each.
- int32 arguments of a function lie in host memory (`UpdateArgAndRetvalMetadata` in partitioning_utils.cc), and are
  copied onto the GPU inside the function: every launch of a step with int32 tokens would wait for the step before.

A packed batch is one float32 tensor, and the functions take their arrays out of it where they run. A CPU copies nothing
for that: a part of a tensor shares its memory where it begins at a multiple of 64 bytes (split_v_op.cc).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.trainer.errors import TrainerError
from voxyard.trainer.trainable import Batch

WORD, LINE = 4, 16  # bytes in a word, words in a line


@dataclass(frozen=True)
class PackedArray:
    """One array of a packed batch."""

    name: str
    dtype: str  # TensorFlow's name, e.g. int16
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of the array."""
        return math.prod(self.shape) * int(tf.as_dtype(self.dtype).size)

    @property
    def lines(self) -> int:
        """Lines that it takes, the last one filled up."""
        return -(-self.bytes // (WORD * LINE))


@dataclass(frozen=True)
class BatchLayout:
    """Names, types and shapes of the arrays in a packed batch, in the order in which they lie there."""

    fields: tuple[PackedArray, ...]

    @classmethod
    def of(cls, batch: Mapping[str, Any]) -> BatchLayout:
        """The layout of these arrays or tensors. Raises TrainerError for what has no fixed size."""
        return cls(tuple(_field(name, batch[name]) for name in sorted(batch)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(field.name for field in self.fields)

    @property
    def lines(self) -> int:
        """Length of the buffer."""
        return sum(field.lines for field in self.fields)

    def unpack(self, words: tf.Tensor) -> dict[str, tf.Tensor]:
        """The tensors of a buffer (lines, 16), bit for bit; graph code for where the buffer lies."""
        sizes = [field.lines for field in self.fields]
        parts = tf.split(words, sizes) if len(sizes) > 1 else [words]
        return {field.name: _from_words(part, field) for field, part in zip(self.fields, parts, strict=True)}


@dataclass(frozen=True)
class Packed:
    """A batch in one buffer: float32 (lines, 16), a NumPy array or a tensor, whose bits are the arrays' own."""

    layout: BatchLayout
    words: Any

    def unpack(self) -> dict[str, tf.Tensor]:
        """The tensors of the batch."""
        return self.layout.unpack(self.words)


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> Packed:
    """Arrays in host memory as one buffer, each byte of it written once."""
    layout = BatchLayout.of(arrays)
    room, begin = _lines(layout.lines), 0
    for field in layout.fields:
        array = np.ascontiguousarray(arrays[field.name])
        filled, end = begin + field.bytes, begin + field.lines * LINE * WORD
        room[begin:filled], room[filled:end] = array.reshape(-1).view(np.uint8), 0
        begin = end
    return Packed(layout, room.view(np.float32).reshape(layout.lines, LINE))


def pack_tensors(batch: Batch) -> Packed:
    """Tensors of static shapes as one buffer; graph code for where they lie."""
    layout = BatchLayout.of(batch)
    return Packed(layout, tf.concat([_to_words(batch[field.name], field) for field in layout.fields], 0))


def _lines(count: int) -> NDArray[np.uint8]:
    """Memory of so many lines that begins with one: TensorFlow takes it as it is (copies.py)."""
    size = LINE * WORD
    room = np.empty((count + 1) * size, np.uint8)
    begin = -room.ctypes.data % size
    return room[begin : begin + count * size]


def _field(name: str, value: Any) -> PackedArray:
    dtype, shape = tf.as_dtype(value.dtype), tuple(value.shape)
    if not (dtype.is_floating or dtype.is_integer or dtype.is_bool) or None in shape:
        raise TrainerError(
            f"{name} of a batch is {dtype.name} of shape {shape}: numbers or booleans of a static shape were expected"
        )
    return PackedArray(name, dtype.name, tuple(int(size) for size in shape))


def _to_words(tensor: tf.Tensor, field: PackedArray) -> tf.Tensor:
    flat = tf.reshape(tf.cast(tensor, tf.uint8) if field.dtype == "bool" else tensor, [-1])
    size, room = flat.dtype.size, field.lines * LINE * WORD
    if room > field.bytes:
        flat = tf.pad(flat, [[0, room // size - flat.shape[0]]])
    if size < WORD:
        flat = tf.reshape(flat, [-1, WORD // size])
    return tf.reshape(tf.bitcast(flat, tf.float32), [field.lines, LINE])


def _from_words(words: tf.Tensor, field: PackedArray) -> tf.Tensor:
    dtype = tf.uint8 if field.dtype == "bool" else tf.as_dtype(field.dtype)
    words = tf.reshape(words, [-1] if dtype.size <= WORD else [-1, dtype.size // WORD])
    flat = tf.reshape(tf.bitcast(words, dtype), [-1])[: math.prod(field.shape)]
    shaped = tf.reshape(flat, field.shape)
    return tf.cast(shaped, tf.bool) if field.dtype == "bool" else shaped
