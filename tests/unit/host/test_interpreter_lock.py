"""Interpreter lock: held while threads compute in Python, free while they wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from voxyard.host.interpreter_lock import LockWatch


def compute(ended: threading.Event) -> None:
    while not ended.is_set():
        sum(range(10_000))


def wait(ended: threading.Event) -> None:
    ended.wait()


@pytest.mark.slow
@pytest.mark.parametrize(("work", "threads", "most_held"), [(compute, 4, True), (wait, 32, False)])
def test_the_lock_is_held_by_threads_that_compute_in_python(
    work: Callable[[threading.Event], None], threads: int, most_held: bool
) -> None:
    ended = threading.Event()
    workers = [threading.Thread(target=work, args=(ended,)) for _ in range(threads)]
    told: list[bool] = []
    try:
        with LockWatch(told.append) as watch:
            for worker in workers:
                worker.start()
            while watch.looks < 10:
                time.sleep(0.05)
    finally:
        ended.set()
        for worker in workers:
            worker.join()
    assert (watch.share > 0.5) is most_held
    assert (len(told), sum(told)) == (watch.looks, watch.held)


def test_before_the_first_look_nothing_is_held() -> None:
    assert LockWatch().share == 0
