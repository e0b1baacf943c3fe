"""Losses of a step: they stay on the model device until somebody reads them."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

import tensorflow as tf

from voxyard.trainer.copies import HOST, to_device
from voxyard.trainer.steps.updates import with_totals

STOP = "stop/"  # beside them over hosts, with the number of each host: above 0 where it was asked to stop


@dataclass(frozen=True)
class StepLosses:
    """Mean losses of one step and the learning rate that it took, on the model device: one tensor."""

    names: tuple[str, ...]
    values: tf.Tensor  # (names,) float32
    beside: Future[dict[str, float]] | None = None  # those of the updates on the data device
    of_beside: tuple[tuple[str, ...], tf.Tensor] | None = None  # those of the same updates on the model device

    def read(self) -> dict[str, float]:
        """The values by name. Waits for this step, and not for one that is handed over to the device afterwards.

        `EagerTensor.numpy()` would wait for both: `EagerCopyToDevice` (tensor_handle.cc) first waits for all that the
        compute stream was given. A copy inside a function is ordered behind what the stream was given when the copy
        was handed over (`GPUUtil::CopyGPUTensorToCPU`).
        """
        read = _on_host(self.names, self.values)
        if self.of_beside is not None:
            read |= _on_host(*self.of_beside)
        return with_totals(read if self.beside is None else read | self.beside.result())


def _on_host(names: tuple[str, ...], values: tf.Tensor) -> dict[str, float]:
    return dict(zip(names, map(float, to_device({"values": values}, HOST)["values"].numpy()), strict=True))
