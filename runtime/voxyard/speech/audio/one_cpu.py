"""One CPU for this thread: FFmpeg's filter graphs, which PyAV puts before each encoder, start a thread a CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def on_one_cpu() -> Iterator[None]:
    """Lets the calling thread run on one of its CPUs only, for the block.

    FFmpeg counts the CPUs that the calling thread may use when a graph is configured, and starts one more thread than
    that, unless it is one. PyAV configures the graph at an encoder's first frame and offers no setting for it.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
