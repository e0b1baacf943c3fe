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

import tensorflow as tf

from voxyard.trainer.trainable import Batch


def to_device(batch: Mapping[str, Any], device: str) -> Batch:
    """The tensors (or arrays) of a batch on `device`, in one call."""
    names = tuple(batch)
    with tf.device(device):  # else the results go back through the device that functions have by default
        return dict(zip(names, _copy_to(device)(*batch.values()), strict=True))


@cache
def _copy_to(device: str) -> Callable[..., list[tf.Tensor]]:
    """The compiled function: its arguments lie where they lie, its results on `device`."""

    def copy(*tensors: tf.Tensor) -> list[tf.Tensor]:
        with tf.device(device):
            return [tf.identity(tensor) for tensor in tensors]

    return tf.function(copy, autograph=False, reduce_retracing=True)
