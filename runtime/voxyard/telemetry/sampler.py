"""GPU sampler: the one loop that reads the GPUs, for the exporter, the monitor and a run's statistics.

No call into the driver is made in the loop itself. Each GPU has a thread, and so has what belongs to none of them: a
pass asks all that are free, and goes on without those that do not answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from voxyard.host.nvml import TIMEOUT, Gpu, GpuLostError, Session, SessionLostError, handle_key, lost_gpu
from voxyard.host.readings import Reading
from voxyard.telemetry.call_thread import CallThread
from voxyard.telemetry.driver import Card, Driver, Links
from voxyard.telemetry.gpu_state import KnownGpu, Xid

__all__ = ["HUNG_SECONDS", "REOPEN_SECONDS", "GpuSampler", "GpuState", "Snapshot", "Xid"]

log = logging.getLogger("voxyard.telemetry")

HUNG_SECONDS = 10.0
"""Time after which one NVML call counts as hung, and its GPU as down.

A healthy one takes microseconds to 20 ms, nvmlInit some seconds where no persistence daemon runs, and a driver that
waits for a GPU's own processor (GSP) in vain gives up after 6 s with an error, which says more than silence.
"""

REOPEN_SECONDS = 15.0
"""Interval of looking for a lost GPU, with a new session: NVML does not find it in the old one."""

_CLOSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class GpuState:
    """State of one GPU. `reading` and the figures are None while it does not answer."""

    gpu: Gpu
    up: bool
    reading: Reading | None
    utilization_ratio: float | None  # mean of the last second's samples
    busy_seconds: float | None  # integral of utilization since the sampler began
    xids: Mapping[int, Xid]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of all GPUs at the end of a pass. Times are Unix times."""

    taken: float
    monotonic: float  # the same moment, by the clock that never jumps
    success: bool
    last_success: float | None
    duration: float  # seconds that the pass took
    gpus: tuple[GpuState, ...]
    links: Links
    driver_version: str | None
    cuda_version: str | None
    errors: Mapping[tuple[str, int], int]  # (function, nvmlReturn_t) → how often
    problem: str | None = None  # why the pass failed, or what of it did
    last_success_monotonic: float | None = None  # the moment of `last_success`, by the clock that never jumps


class GpuSampler:
    """Reads all GPUs every `interval` seconds, each in a thread of its own; `snapshot` is the latest result.

    A lost GPU, one that hangs, a driver that is restarted or not there at all are states that it reports and leaves by
    itself. A snapshot has the latest reading of each GPU, which is older than a pass where a GPU takes longer than one.
    `only` names the UUIDs of the GPUs to read; `on_snapshot` is called in the loop's thread after each pass.
    """

    def __init__(
        self,
        interval: float = 1.0,
        *,
        only: Collection[str] | None = None,
        processes: bool = False,
        on_snapshot: Callable[[Snapshot], None] | None = None,
        session: Callable[[], Session] = Session,
    ) -> None:
        self.interval, self._new_session = interval, session
        self._only, self._processes, self._on_snapshot = only, processes, on_snapshot
        self._known: dict[str, KnownGpu] = {}
        self._nameless: dict[int, Gpu] = {}  # by index: those that did not say who they are
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._driver = CallThread("voxyard-driver", self._changed)
        self._threads: list[CallThread] = []  # by index, of the GPUs
        self._open: Driver | None = None
        self._opening = False
        self._cards: list[Card] = []  # of the open session, by index
        self._events: list[tuple[int, int]] = []  # Xids of GPUs that did not say who they are yet
        self._links: Links = {}  # as they were last read: those of an earlier session hold until they are read again
        self._linked: frozenset[str] | None = None  # UUIDs whose links this session was asked for
        self._problem: str | None = None  # why there is no session that can be used
        self._last_success: tuple[float, float] | None = None  # Unix time, monotonic
        self._logged: str | None = None
        self._answered = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="voxyard-gpu-sampler", daemon=True)
        self.snapshot: Snapshot | None = None

    def start(self) -> Self:
        """Begins the loop; the first pass is on its way when this returns."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ends the loop after the pass that is under way; a driver that hangs is not waited for."""
        with self._changed:
            self._ended.set()
            self._changed.notify_all()
        self._thread.join(timeout=5.0)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stale_after(self) -> float:
        """Seconds without any answer of the driver after which a snapshot counts as stale."""
        return HUNG_SECONDS + 2 * self.interval

    def age(self) -> float:
        """Seconds since the driver's latest answer, for whichever GPU; since the loop was made where there was none."""
        return time.monotonic() - self._answered

    def alive(self) -> bool:
        """True where passes are made and the driver answers for anything at all."""
        return self._thread.is_alive() and self.age() < self.stale_after()

    def _run(self) -> None:
        self._session = self._new_session()
        next_pass = time.monotonic()
        while not self._over():
            self._pass(next_pass + self.interval)
            next_pass = max(next_pass + self.interval, time.monotonic())
            with self._changed:
                self._changed.wait_for(self._ended.is_set, next_pass - time.monotonic())
        self._close()

    def _over(self) -> bool:
        """True where it has to end: after one pass at least, also where that was asked for before this thread ran."""
        return self._ended.is_set() and self.snapshot is not None

    def _pass(self, next_pass: float) -> None:
        begun = time.monotonic()
        self._collect()  # what came between two passes
        self._open_session(begun)
        asked = self._ask()
        self._wait(asked, next_pass)
        self._collect()
        if unseen := self._unseen(asked):
            self._wait(unseen, begun + HUNG_SECONDS)
            self._collect()
        problem = self._problem or self._hang()
        if self._over() or (self._open is None and problem is None):
            return  # nothing is known before the session is open
        self._log_problem(problem)
        success = problem is None or any(known.reading is not None for known in self._known.values())
        if success:
            self._last_success = time.time(), time.monotonic()
        self.snapshot = self._snapshot(begun, success, problem)
        if self._on_snapshot is not None:
            self._on_snapshot(self.snapshot)

    def _open_session(self, begun: float) -> None:
        """Begins a new session where there is none, or a GPU is missing and it is time to look for it again.

        NVML is never closed under a call: a session lives on as long as one of its calls hangs.
        """
        free = all(thread.free for thread in (self._driver, *self._threads))
        if not self._opening and free and self._renewal_is_due():
            before, self._open, self._cards, self._opening = self._open, None, [], True
            self._events, self._linked = [], None
            self._driver.begin(partial(Driver.open, self._session, before))
        if not self._opening:
            return
        self._wait([self._driver], begun + (self.interval if self._hung(self._driver) else HUNG_SECONDS))
        if self._driver.answered:
            self._opening, self._problem = False, None
            try:
                self._open = self._collected(self._driver)
            except SessionLostError as error:
                self._problem = str(error)
            else:
                self._cards = [self._card(self._open, index) for index in range(self._open.count)]
                self._nameless = {index: gpu for index, gpu in self._nameless.items() if index < self._open.count}

    def _renewal_is_due(self) -> bool:
        if self._open is None or self._problem is not None:
            return True
        missing = self._nameless or any(known.reading is None for known in self._known.values())
        return bool(missing) and time.monotonic() - self._open.since >= REOPEN_SECONDS

    def _card(self, driver: Driver, index: int) -> Card:
        if index == len(self._threads):
            self._threads.append(CallThread(f"voxyard-gpu-{index}", self._changed))
        return Card(index, driver, self._threads[index], only=self._only, processes=self._processes)

    def _ask(self) -> list[CallThread]:
        """Starts a pass over all GPUs whose thread is free, and asks the driver for Xids and links; its threads."""
        if self._open is None or self._problem is not None:
            return []
        cards = [card for card in self._cards if card.wanted and not card.lost and card.thread.free]
        asked = [card.thread for card in cards]
        if self._driver.free:
            self._driver.begin(partial(self._open.poll, self._unlinked()))
            asked.append(self._driver)
        for card in cards:
            card.thread.begin(card.read)
        return asked

    def _unseen(self, asked: Sequence[CallThread]) -> list[CallThread]:
        """Busy threads of GPUs that are in no snapshot yet: the first snapshot waits for them."""
        if self._only is not None and all(uuid in self._known for uuid in self._only):
            return []
        seen = {state.gpu.index for state in self.snapshot.gpus} if self.snapshot else set()
        return [
            card.thread for card in self._cards if card.thread.busy and card.thread in asked and card.index not in seen
        ]

    def _unlinked(self) -> list[tuple[str, str, Any]] | None:
        """The GPUs whose links are to be read: all that answer, where this session was not asked for one of them."""
        if not all(card.decided for card in self._cards):
            return None
        up = [card for card in self._cards if card.known is not None and card.known.reading is not None]
        uuids = frozenset(card.known.gpu.uuid for card in up if card.known)
        if self._linked is not None and uuids <= self._linked:
            return None
        self._linked = uuids
        return [(card.known.gpu.uuid, card.known.gpu.pci_bus_id, card.handle) for card in up if card.known]

    def _wait(self, threads: Sequence[CallThread], until: float) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._over() or not any(thread.busy for thread in threads), max(0.0, until - time.monotonic())
            )

    def _collect(self) -> None:
        """Collects the answers since the last time, and the threads that have been silent for too long."""
        for card in self._cards:
            if card.thread.answered:
                self._take(card)
            elif function := self._hung(card.thread):
                self._mark_down(card, f"it hangs: {function} has not returned for {HUNG_SECONDS:.0f} s")
        if self._driver.answered and not self._opening:
            try:
                events, links = self._collected(self._driver)
            except SessionLostError as error:
                self._problem = str(error)
            else:
                self._events += events
                self._links = self._links if links is None else links
        self._events = [event for event in self._events if not self._record_xid(*event)]
        claimed = [card.known for card in self._cards]
        unusable = self._problem is not None or (self._open is None and self._hung(self._driver))
        listed = self._open is not None and all(card.decided for card in self._cards)
        for known in self._known.values():
            if unusable or (listed and known not in claimed):
                known.pause()

    def _take(self, card: Card) -> None:
        late = card.thread.hung
        try:
            reading = self._collected(card.thread)
        except GpuLostError as error:
            card.lost = True
            self._mark_down(card, str(error))
            return
        except SessionLostError as error:
            self._problem = str(error)
            return
        known = self._identify(card)
        if late and self._open is not None:  # part of it was measured before it hung: the next pass has all of it
            self._open.since = time.monotonic()
        elif known is not None and reading is not None:
            known.take(reading, time.monotonic())

    def _identify(self, card: Card) -> KnownGpu | None:
        """The GPU of this card; where it was not identified, the one that was there before and is not elsewhere."""
        if card.known is None and card.gpu is not None and card.wanted:
            card.known = self._known.setdefault(card.gpu.uuid, KnownGpu(card.gpu))
            card.known.identify(card.gpu)
            self._nameless.pop(card.index, None)
        if card.known is not None:
            return card.known
        elsewhere = [other.known for other in self._cards]
        before = (known for known in self._known.values() if known.gpu.index == card.index and known not in elsewhere)
        return next(before, None)

    def _mark_down(self, card: Card, problem: str) -> None:
        known = self._identify(card)
        if known is not None:
            known.mark_down(problem)
        elif self._only is None:
            if card.index not in self._nameless or self._nameless[card.index].problem != problem:
                log.warning("GPU %d does not answer: %s", card.index, problem)
            self._nameless[card.index] = lost_gpu(card.index, problem)

    def _record_xid(self, handle: int, xid: int) -> bool:
        """Records an Xid at its GPU; False where no GPU has this handle."""
        for card in self._cards:
            if card.known is not None and handle_key(card.handle) == handle:
                card.known.count_xid(xid)
                return True
        return False

    def _collected(self, thread: CallThread) -> Any:
        self._answered = time.monotonic()
        return thread.collect()

    def _hung(self, thread: CallThread) -> str | None:
        """The function that does not return to this thread, where one has not for too long."""
        if not thread.busy:
            return None
        function, since = self._session.calling.get(thread.ident, ("", 0.0))
        if time.monotonic() - max(since, thread.begun) <= HUNG_SECONDS:
            return None
        if not thread.hung:
            thread.hung = True
            self._session.count(function, TIMEOUT)
        return function

    def _hang(self) -> str | None:
        function = self._hung(self._driver)
        lost = "" if self._open is None else "; Xid errors are not seen"
        return (
            f"the NVIDIA driver hangs: {function} has not returned for {HUNG_SECONDS:.0f} s{lost}" if function else None
        )

    def _snapshot(self, begun: float, success: bool, problem: str | None) -> Snapshot:
        opened = self._open
        states = [self._state(known) for known in self._known.values()]
        states += [GpuState(gpu, False, None, None, None, {}) for gpu in self._nameless.values()]
        now = time.monotonic()
        last_success, last_success_monotonic = self._last_success or (None, None)
        return Snapshot(
            taken=time.time(),
            monotonic=now,
            success=success,
            last_success=last_success,
            last_success_monotonic=last_success_monotonic,
            duration=now - begun,
            gpus=tuple(sorted(states, key=lambda state: state.gpu.index)),
            links=self._links,
            driver_version=opened.driver_version if opened else None,
            cuda_version=opened.cuda_version if opened else None,
            errors=dict(self._session.errors),  # a copy in one step: other threads count on
            problem=problem,
        )

    @staticmethod
    def _state(known: KnownGpu) -> GpuState:
        up = known.reading is not None
        busy = known.busy
        return GpuState(
            gpu=known.gpu,
            up=up,
            reading=known.reading,
            utilization_ratio=busy.ratio if up and not known.silent else None,
            busy_seconds=busy.seconds if up and busy.measured else None,
            xids=dict(known.xids),
        )

    def _log_problem(self, problem: str | None) -> None:
        if problem != self._logged:
            log.warning("%s", problem) if problem else log.info("the NVIDIA driver answers again")
        self._logged = problem

    def _close(self) -> None:
        """Closes the session, unless one of its calls does not return in time."""
        threads = [self._driver, *self._threads]
        with self._changed:
            if self._changed.wait_for(lambda: not any(each.busy for each in threads), _CLOSE_SECONDS) and self._open:
                self._driver.begin(self._open.close)
            self._changed.wait_for(lambda: not self._driver.busy, _CLOSE_SECONDS)
        for thread in threads:
            thread.end()
