"""Workers without processes on a clock of their own: what the scheduler is tried and measured with."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from voxyard.speech.limits import Limits
from voxyard.speech.queue import Key
from voxyard.speech.scheduler import GiveUp, Kill, Scheduler, Send, Start

BEAT = 5.0


@dataclass
class Fate:
    """What the simulated machine does to a batch; `None` where all goes well."""

    poison: frozenset[Key] = frozenset()  # the engine raises
    deadly: frozenset[Key] = frozenset()  # the process ends
    rows_that_fit: Mapping[int, int] = field(default_factory=dict)  # by slot: more is out of memory
    death_share: float = 0.0  # of batches during which the process is killed
    hang_share: float = 0.0  # of batches during which it is stopped


class SimulatedPool:
    """Runs a scheduler until nothing is left to do; remembers who spoke what, when."""

    def __init__(
        self,
        slots: int,
        *,
        limits: Limits | None = None,
        rows: int = 1,
        start: Callable[[int], float] = lambda _: 0.0,
        duration: Callable[[Sequence[Key]], float] = lambda batch: float(len(batch)),
        fate: Fate | None = None,
        refuse: Callable[[int, float], bool] = lambda _slot, _now: False,
        seed: int = 0,
    ) -> None:
        self.scheduler = Scheduler(slots, limits)
        self.now = 0.0
        self.spoken: list[tuple[float, int, Key]] = []
        self.batches: list[tuple[float, int, tuple[Key, ...]]] = []
        self.given_up: dict[Key, str] = {}
        self.kills: list[tuple[int, str]] = []
        self.refusals: list[tuple[float, int]] = []
        self._rows, self._start, self._duration = rows, start, duration
        self._refuse = refuse
        self._fate = Fate() if fate is None else fate
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._stopped: set[tuple[int, int]] = set()
        self._gone: set[tuple[int, int]] = set()

    @property
    def makespan(self) -> float:
        """When the last chunk was done."""
        return max(when for when, _, _ in self.spoken)

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Something happens at that time."""
        heapq.heappush(self._events, (when, next(self._order), what))

    def run(self, until: float = float("inf")) -> None:
        """Until that time, or until no chunk is left."""
        self._act()
        while self._events and self._events[0][0] <= until:
            census = self.scheduler.census()
            if until == float("inf") and census.waiting + census.leased == 0:
                return
            self.now, _, what = heapq.heappop(self._events)
            what()
            self._act()

    def _act(self) -> None:
        for action in self.scheduler.actions(self.now):
            match action:
                case Start(slot, generation) if self._refuse(slot, self.now):
                    self.refusals.append((self.now, slot))
                    self.scheduler.refused(slot, generation, self.now)
                    self.at(self.now, lambda: None)
                case Start(slot, generation):
                    self._beat(slot, generation)
                    self.at(self.now + self._start(slot), lambda s=slot, g=generation: self._open(s, g))  # type: ignore[misc]
                case Send():
                    self.batches.append((self.now, action.slot, action.chunks))
                    self._speak(action)
                case Kill(slot, generation, reason):
                    self._gone.add((slot, generation))
                    self.kills.append((slot, reason))
                case GiveUp(chunk, _, reason):
                    assert chunk not in self.given_up, f"{chunk} was given up twice"
                    self.given_up[chunk] = reason
        look = self.scheduler.next_look(self.now)
        if look is not None:
            self.at(self.now + look + 1e-6, lambda: None)

    def _alive(self, slot: int, generation: int) -> bool:
        return (slot, generation) not in self._gone and (slot, generation) not in self._stopped

    def _open(self, slot: int, generation: int) -> None:
        if self._alive(slot, generation):
            self.scheduler.opened(slot, generation, self._rows, self.now)

    def _beat(self, slot: int, generation: int) -> None:
        if self._alive(slot, generation):
            self.scheduler.heartbeat(slot, generation, self.now)
            census = self.scheduler.census()
            if census.waiting + census.leased:
                self.at(self.now + BEAT, lambda: self._beat(slot, generation))

    def _speak(self, send: Send) -> None:
        process = send.slot, send.generation
        begin, took = self.now, self._duration(send.chunks)
        fits = self._fate.rows_that_fit.get(send.slot)
        if fits is not None and len(send.chunks) > fits:
            self.at(begin + took / 2, lambda: self._raise(send, "device is full", memory=True))
            return
        bad = [chunk for chunk in send.chunks if chunk in self._fate.poison]
        for number, chunk in enumerate(send.chunks, 1):
            if chunk in self._fate.poison:
                break
            self.at(begin + took * number / len(send.chunks), lambda chunk=chunk: self._hand_in(send, chunk))  # type: ignore[misc]
        if bad:
            self.at(begin + took, lambda: self._raise(send, f"cannot speak chunk {bad[0].index}"))
        else:
            self.at(begin + took, lambda: self._end(send))
        dice = self._random.random()
        when = begin + took * self._random.random()
        if self._fate.deadly & set(send.chunks) or dice < self._fate.death_share:
            self.at(when, lambda: self._die(send))
        elif dice < self._fate.death_share + self._fate.hang_share:
            self.at(when, lambda: self._stopped.add(process))

    def _hand_in(self, send: Send, chunk: Key) -> None:
        if not self._alive(send.slot, send.generation):
            return
        if self.scheduler.spoken(send.slot, send.generation, send.lease, chunk, self.now):
            self.spoken.append((self.now, send.slot, chunk))

    def _end(self, send: Send) -> None:
        if self._alive(send.slot, send.generation):
            self.scheduler.ended(send.slot, send.generation, send.lease, self.now)

    def _raise(self, send: Send, reason: str, *, memory: bool = False) -> None:
        if self._alive(send.slot, send.generation):
            self.scheduler.raised(send.slot, send.generation, send.lease, reason, self.now, memory=memory)

    def _die(self, send: Send) -> None:
        if self._alive(send.slot, send.generation):
            self._gone.add((send.slot, send.generation))
            self.scheduler.died(send.slot, send.generation, "killed by signal 9", self.now)
