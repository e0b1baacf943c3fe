"""Keys of older trainer configurations that a settings file may still use."""

from __future__ import annotations

from voxyard.settings import Alias

_ANYWHERE = ("data", "training", "model")

ALIASES: tuple[Alias, ...] = (
    Alias("mixed_precision", _ANYWHERE, "training.precision", values={True: "auto", False: "float32"}),
    Alias("enable_xla", _ANYWHERE, "training.xla"),
    Alias("batch_size", ("data",), "training.batch_size"),
    Alias("pin_memory", _ANYWHERE, None, "TensorFlow pins its host buffers itself"),
    Alias("use_tf_native_loading", _ANYWHERE, None, "there is one way of loading"),
)
