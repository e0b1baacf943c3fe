"""A service on a real socket, in a thread, for as long as a test needs it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from eventually import PATIENCE
from starlette.types import ASGIApp

from voxyard.service.config import ServiceSection
from voxyard.service.server import serve


@contextmanager
def live(app: ASGIApp, section: ServiceSection) -> Iterator[str]:
    """The address of `app`, served on a free port of loopback until the block is left."""
    addresses: queue.Queue[str] = queue.Queue()
    stop = threading.Event()
    section = section.model_copy(update={"host": "127.0.0.1", "port": 0})
    thread = threading.Thread(
        target=serve, args=(app, section), kwargs={"announce": addresses.put, "stop": stop}, daemon=True
    )
    thread.start()
    try:
        yield addresses.get(timeout=PATIENCE)
    finally:
        stop.set()
        thread.join(PATIENCE)
