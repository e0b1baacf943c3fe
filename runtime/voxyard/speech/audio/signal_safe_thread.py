"""Work that Ctrl-C does not interrupt: its steps run one after the other in a thread of their own."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

_Job = tuple[Callable[[], None], "SimpleQueue[BaseException | None]"]


class Uninterrupted:
    """A thread for the steps of one piece of work.

    Python handles signals between two instructions of the main thread, wherever they are: in the middle of a library,
    in a call back from C, where the exception is lost, or in the locks of concurrent.futures, which then stay shut.
    So the main thread only waits here, in SimpleQueue.get, which is one instruction and can be left.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True).start()
        self.close = weakref.finalize(self, self._jobs.put, None)  # ends the thread, after the steps that it has

    def do(self, step: Callable[[], None]) -> None:
        """Have the step done and wait; raises what it raises. After a Ctrl-C it is still done, before the next."""
        answer: SimpleQueue[BaseException | None] = SimpleQueue()
        self._jobs.put((step, answer))
        error = answer.get()
        if error is not None:
            raise error


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        step, answer = job
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - it is raised where the step was asked for
            answer.put(error)
        else:
            answer.put(None)
        del job, step, answer  # while it waits for the next, it keeps nobody alive
