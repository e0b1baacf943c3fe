"""Compiling ahead: every function of every length bucket before the first step, the buckets side by side."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from voxyard.host.cores import usable_cores
from voxyard.trainer.out_of_memory import is_out_of_memory

if TYPE_CHECKING:
    from voxyard.trainer.step import Arrays, TrainStep

log = logging.getLogger("voxyard.trainer")


def compile_ahead(
    step: TrainStep,
    batches: Sequence[Arrays],
    *,
    number: int,
    validates: bool,
    interrupted: Callable[[], bool] = lambda: False,
) -> float:
    """Makes step `number` from a batch of each shape, and its validation, and takes the state back; seconds.

    XLA compiles in the first call alone. What several buckets have no room for at once is called again, alone. Ends
    early where it is `interrupted`.
    """
    begin, state, timed = time.perf_counter(), step.state(), step.timer.beside_next
    step.timer.beside_next = False

    def one(arrays: Arrays) -> None:
        step.train(step.stage(arrays), number).read()
        if validates:
            step.evaluate(arrays)

    workers = max(1, min(len(batches), int(usable_cores())))
    log.info("Compiling %d length buckets before the first step, %d at once", len(batches), workers)
    alone: list[Arrays] = []
    try:
        with ThreadPoolExecutor(workers, thread_name_prefix="voxyard-compile") as threads:
            due: dict[Future[None], Arrays] = {threads.submit(one, arrays): arrays for arrays in batches}
            while due and not interrupted():
                done, _ = wait(due, timeout=1.0, return_when=FIRST_COMPLETED)
                for each in done:
                    arrays = due.pop(each)
                    error = each.exception()
                    if error is None:
                        seconds = time.perf_counter() - begin
                        log.info("Compiled %d of %d buckets, in %.1f s", len(batches) - len(due), len(batches), seconds)
                    elif is_out_of_memory(error):
                        alone.append(arrays)
                    else:
                        raise error
            for each in due:
                each.cancel()
        for arrays in alone:
            one(arrays)
    finally:
        step.restore(state)
        step.timer.beside_next = timed
    return time.perf_counter() - begin
