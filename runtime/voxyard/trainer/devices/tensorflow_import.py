"""Imports TensorFlow, without the lines that it prints about itself before its own log level counts, and Keras."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType


def import_tensorflow() -> ModuleType:
    """TensorFlow, imported, and Keras with its own defaults.

    What they printed meanwhile is shown only where the import fails. KERAS_BACKEND and ~/.keras/keras.json may be
    another project's: they count no more.
    """
    if "tensorflow" not in sys.modules:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        os.environ["KERAS_BACKEND"] = "tensorflow"
        with _stderr_on_failure():
            importlib.import_module("tensorflow")
            keras = importlib.import_module("keras").config
        keras.set_floatx("float32")
        keras.set_epsilon(1e-7)
        keras.set_image_data_format("channels_last")
    return sys.modules["tensorflow"]


@contextmanager
def _stderr_on_failure() -> Iterator[None]:
    """Keeps what is written to standard error, by C++ too, and writes it there after all if the block fails."""
    with suppress(OSError):  # a full disk
        sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(terminal, kept.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
