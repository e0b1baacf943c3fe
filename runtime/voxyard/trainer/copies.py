"""Copies between devices, each in one compiled function over both of them.

A copy outside a function (`tf.identity` under another device) is `EagerCopyToDevice` in tensor_handle.cc: it waits
until the source has computed all that it was given (`Device::Sync`), copies one tensor, and waits for that. Inside a
function it is a pair of _Send and _Recv for each tensor: all of them are handed over at once, and wait for nothing but
what both devices had been given by then (`SameWorkerRecvDone` in rendezvous_mgr.cc, `CopyTensor::ViaDMA`). The call
returns when the copies have arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.trainer.trainable import Batch

HOST = "/device:CPU:0"
ALIGNED = 64  # bytes: where TensorFlow's own memory begins (EIGEN_MAX_ALIGN_BYTES), and a packed batch


def to_device(batch: Mapping[str, Any], device: str) -> Batch:
    """The tensors (or arrays) of a batch on `device`, in one call. Nobody changes such an array afterwards."""
    tensors = [_tensor_of(each) if isinstance(each, np.ndarray) else each for each in batch.values()]
    with tf.device(device):  # else the results go back through the device that functions have by default
        return dict(zip(batch, _copy_to(device, *map(_of_any_length, tensors))(*tensors), strict=True))


def _tensor_of(array: NDArray[Any]) -> tf.Tensor:
    """The array as a tensor in host memory, a packed one as the same memory.

    TensorFlow would copy the array into memory of its own first, and onto a GPU before the function is called.
    """
    if array.dtype == np.float32 and array.flags.c_contiguous and array.ctypes.data % ALIGNED == 0:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    with tf.device(HOST):
        return tf.constant(array)


def _of_any_length(tensor: tf.Tensor) -> tf.TensorSpec:
    return tf.TensorSpec([None] * tensor.shape.rank, tensor.dtype)


@cache
def _copy_to(device: str, *specs: tf.TensorSpec) -> Callable[..., list[tf.Tensor]]:
    """The compiled function for such tensors: they lie where they lie, its results on `device`.

    It is traced here and not by its calls, in which TensorFlow would take the first ones for retracing, and warn.
    """

    def copy(*tensors: tf.Tensor) -> list[tf.Tensor]:
        with tf.device(device):
            return [tf.identity(tensor) for tensor in tensors]

    copies: Callable[..., list[tf.Tensor]] = tf.function(copy, autograph=False).get_concrete_function(*specs)
    return copies
