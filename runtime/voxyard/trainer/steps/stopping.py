"""End of a run before its last step: a signal, --max-minutes, a sick GPU, or another host that was asked to stop."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from voxyard.host.signal_handlers import ENDS, handling
from voxyard.trainer.steps.in_flight import AHEAD, EndedStep
from voxyard.trainer.steps.losses import STOP

if TYPE_CHECKING:
    from voxyard.trainer.hosts.addresses import HostGroup
    from voxyard.trainer.step import TrainStep


log = logging.getLogger("voxyard.trainer")

_OTHERS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Stopping:
    """Decision to end a run after the step in progress, with its reason."""

    def __init__(
        self, max_minutes: float | None, group: HostGroup | None, sick: Callable[[], str | None] = lambda: None
    ) -> None:
        """The minutes count from now; `sick` tells of a GPU of the run that is to have no work any more."""
        self.why: str | None = None
        self.killed = False  # by a signal or a sick GPU, here or on another host; the end of --max-minutes is none
        self._begin, self._limit, self._group = time.perf_counter(), max_minutes, group
        self._sick = sick
        self._last: int | None = None  # over hosts: the step after which all of them end, once they know

    def asked(self) -> bool:
        """True where a signal came, the time is up, or a GPU is out of work."""
        if self.why is None and self._limit is not None and time.perf_counter() - self._begin > 60 * self._limit:
            self.why = f"the time is up (--max-minutes {self._limit:g}): saved and stopped"
        if self.why is None and (sick := self._sick()) is not None:
            self.why, self.killed = f"{sick}: saved and stopped", True
            log.error("%s", self.why)
        return self.why is not None

    def ends_after(self, number: int, step: TrainStep) -> bool:
        """True where step `number` is the last one; over hosts all of them agree on that first."""
        if self._group is None:
            return self.asked()
        if self.asked():
            step.ask_to_stop()
        return self._last is not None and number >= self._last

    def agree(self, ended: EndedStep, *, asynchronous: bool) -> None:
        """Over hosts: notes which step is the last one, where a host was asked to stop.

        All learn it from the same step. Another one may have been handed over to the devices by then, on every host.
        """
        if self._group is None:
            return
        asked = [place for place in range(self._group.count) if ended.losses.read()[f"{STOP}{place}"] > 0]
        if asked and self._last is None:
            self._last = ended.step + (AHEAD if asynchronous else 0)
            if self.why is None:
                self.why, self.killed = f"{self._group.name(asked[0])} was asked to stop: saved and stopped", True

    @contextmanager
    def signals(self) -> Iterator[None]:
        """SIGTERM, SIGINT and what else would kill the run end it after the step in progress, with a checkpoint.

        SIGHUP is of a terminal that was closed (ignored under nohup), SIGUSR1 and SIGUSR2 of Slurm's --signal.
        """
        others = [each for each in _OTHERS if signal.getsignal(each) is signal.SIG_DFL]

        def stop(number: int, _frame: Any) -> None:
            self.why, self.killed = f"{signal.Signals(number).name}: saved and stopped", True

        with handling(stop, [*ENDS, *others]):
            yield
