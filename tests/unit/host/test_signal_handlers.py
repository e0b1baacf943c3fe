"""Handlers of signals for the time of a block."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

from voxyard.host.signal_handlers import handling


def test_a_block_takes_signals_and_gives_them_back() -> None:
    before, came = signal.getsignal(signal.SIGUSR1), []
    with suppress(ZeroDivisionError), handling(lambda number, _: came.append(number), [signal.SIGUSR1]):
        signal.raise_signal(signal.SIGUSR1)
        1 / 0  # noqa: B018
    assert came == [signal.SIGUSR1]
    assert signal.getsignal(signal.SIGUSR1) is before


def test_on_another_thread_signals_stay_as_they_are() -> None:
    found = []

    def look() -> None:
        with handling(signal.SIG_IGN, [signal.SIGUSR1]):
            found.append(signal.getsignal(signal.SIGUSR1))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGUSR1)] != [signal.SIG_IGN]
