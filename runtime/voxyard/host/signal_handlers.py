"""Signals of a process: handlers for the time of a block, and what it gets at its parent's death."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

_PR_SET_PDEATHSIG = 1  # prctl(2)

ENDS = (signal.SIGINT, signal.SIGTERM)  # of Ctrl-C, and of kill


@contextmanager
def handling(
    handler: Callable[[int, FrameType | None], object] | signal.Handlers, signals: Iterable[signal.Signals] = ENDS
) -> Iterator[None]:
    """Takes these signals with `handler`; those before take them again at the end.

    Only the main thread can take signals: in a block of another thread they stay as they are.
    """
    on_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in signals} if on_main else {}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


def end_with(parent: int, number: signal.Signals) -> bool:
    """Have the kernel send this signal when the thread that started this process ends; False where it has already.

    It comes also where the parent is killed, and where this process hangs.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
    return os.getppid() == parent
