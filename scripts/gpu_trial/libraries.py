"""What of TensorFlow's CUDA works on this host, piece by piece, on two parts of one card.

`libraries.py OUT.json`; without a GPU the same pieces run on the CPU.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    """Try every piece; the file is written after each."""
    out = Path(sys.argv[1])
    begin = time.perf_counter()
    import tensorflow as tf

    found: dict[str, Any] = {"tensorflow": tf.__version__, "import_seconds": round(time.perf_counter() - begin, 1)}
    cards = tf.config.list_physical_devices("GPU")
    for card in cards[:1]:
        halves = [tf.config.LogicalDeviceConfiguration(memory_limit=2048) for _ in range(2)]
        tf.config.set_logical_device_configuration(card, halves)
    parts = [each.name for each in tf.config.list_logical_devices("GPU")]
    first, device = parts[:2] if len(parts) > 1 else ("/device:CPU:0", "/device:CPU:0")
    found |= {"device": device, "pieces": {}}
    for name, work in pieces(tf, first, device, on_gpu=bool(cards)).items():
        begin = time.perf_counter()
        try:
            with tf.device(device):
                value = work()
                value = value.numpy() if hasattr(value, "numpy") else value
            good = bool(np.isfinite(np.asarray(value, np.float64)).all())
            found["pieces"][name] = "works" if good else f"is wrong: {value}"
        except Exception as error:  # noqa: BLE001 (whatever TensorFlow raises is this piece's result)
            found["pieces"][name] = f"{type(error).__name__}: {error}"[:600]
        print(f"{name}: {found['pieces'][name]} ({time.perf_counter() - begin:.2f} s)", flush=True)
        out.write_text(json.dumps(found, indent=1), encoding="utf-8")
    os._exit(0 if set(found["pieces"].values()) == {"works"} else 1)  # nothing of TensorFlow's end is waited for


def pieces(tf: Any, first: str, device: str, *, on_gpu: bool) -> dict[str, Callable[[], Any]]:
    """Each piece of work by its name; the most important ones first."""
    with tf.device(device):
        square = tf.random.stateless_normal([512, 512], (1, 2))
        half = tf.cast(square, tf.bfloat16)
        frames = tf.random.stateless_normal([8, 128, 64], (3, 4))
        kernel = tf.random.stateless_normal([5, 64, 64], (5, 6))

    def xla(work: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = tf.function(work, jit_compile=True, autograph=False)
        return compiled

    def total(value: Any) -> Any:
        return tf.reduce_sum(tf.cast(value, tf.float32))

    def copied() -> Any:
        from voxyard.trainer.copies import to_device

        there = to_device({"a": np.ones((1 << 20,), np.float32)}, first)
        return to_device(to_device(there, device), "/device:CPU:0")["a"]

    def traced() -> int:
        from tensorflow.tsl.profiler.protobuf import xplane_pb2

        with tempfile.TemporaryDirectory() as folder:
            tf.profiler.experimental.start(folder)
            (square @ square).numpy()
            tf.profiler.experimental.stop()
            (file,) = Path(folder).rglob("*.xplane.pb")
            planes = [plane.name for plane in xplane_pb2.XSpace.FromString(file.read_bytes()).planes]
        if on_gpu and not any(name.startswith("/device:GPU") for name in planes):
            raise RuntimeError(f"the trace has no plane of a GPU, which CUPTI writes: {planes}")
        return len(planes)

    def looped(table: Any) -> Any:
        body = lambda i, s: (i + 1, tf.tanh(s) + table)  # noqa: E731
        return tf.while_loop(lambda *_: True, body, (0, table), maximum_iterations=50)[1][0, 0]

    return {
        "matmul": lambda: total(square @ square),
        "matmul_bfloat16": lambda: total(half @ half),
        "convolution": lambda: total(tf.nn.conv1d(frames, kernel, 1, "SAME")),
        "fft": lambda: tf.abs(tf.reduce_sum(tf.signal.rfft(square))),
        "xla_add": lambda: xla(lambda a: total(a + 1))(square),
        "xla_libdevice": lambda: xla(lambda a: total(tf.math.lgamma(tf.exp(tf.sin(a)))))(square),
        "xla_matmul_bfloat16": lambda: xla(lambda a: total(a @ a))(half),
        "xla_convolution": lambda: xla(lambda a, k: total(tf.nn.conv1d(a, k, 1, "SAME")))(frames, kernel),
        "xla_fft": lambda: xla(lambda a: total(tf.signal.irfft(tf.signal.rfft(a))))(square),
        "xla_while": lambda: xla(looped)(square),
        "xla_cond": lambda: xla(lambda a: tf.cond(a[0, 0] > 0, lambda: total(a), lambda: total(a * 2)))(square),
        "copies_between_parts": copied,
        "profiler": traced,
    }


if __name__ == "__main__":
    main()
