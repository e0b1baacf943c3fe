"""Start of this process anew, in its place, a number of times an hour: what a run over hosts does that lost one."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("voxyard.trainer")

HOUR = 3600.0  # seconds
VARIABLE = "VOXYARD_STARTED_AGAIN"  # times of the starts of the last hour, for the next one
_INHERITED = 3  # standard input, output and error


def start_again(
    limit: int,
    why: str,
    now: float | None = None,
    replace: Callable[[str, list[str]], object] = os.execv,
) -> None:
    """Replaces this process by a new one with the same command line; returns where it did so `limit` times in an hour.

    What a device or a port holds is freed: nothing but the standard streams stays open.
    """
    now = time.time() if now is None else now
    before = [at for at in map(float, os.environ.get(VARIABLE, "").split()) if now - HOUR < at <= now]
    if len(before) >= limit:
        return
    os.environ[VARIABLE] = " ".join(map(str, [*before, now]))
    log.warning("%s", why)
    log.warning("Starting again: %d of %d times an hour", len(before) + 1, limit)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for number in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        if number >= _INHERITED:
            with contextlib.suppress(OSError):  # that of the listing itself is closed by now
                os.set_inheritable(number, False)
    replace(sys.executable, [sys.executable, *sys.orig_argv[1:]])
