"""End of a process with its parent, by the kernel: also where the parent is killed, and where the process hangs."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1  # prctl(2)


def end_with(parent: int, number: signal.Signals) -> bool:
    """Have the kernel send this signal when the thread that started this process ends; False where it has already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
    return os.getppid() == parent
