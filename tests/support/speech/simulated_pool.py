"""Workers without processes on a clock of their own: what the scheduler is tried and measured with."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from voxyard.speech.pool.ipc import BeginDecoding, CancelChunk, FromWorker, SpeakChunk, ToWorker
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.queue import ChunkKey
from voxyard.speech.pool.scheduler import (
    Action,
    BeginWork,
    CancelLease,
    FailChunk,
    KillWorker,
    Scheduler,
    SendChunk,
    StartWorker,
    StopIdleWorker,
)
from voxyard.speech.pool.worker import PoolChunkSource
from voxyard.speech.pool.worker_process import EndCause
from voxyard.speech.requests import Request

BEAT = 5.0
LOOK = 0.5  # seconds after which a worker with a free row looks for more


@dataclass
class Fate:
    """Fate of chunks on the simulated machine; `None` where all goes well."""

    poison: frozenset[ChunkKey] = frozenset()  # the engine refuses
    deranging: frozenset[ChunkKey] = frozenset()  # the engine raises
    deadly: frozenset[ChunkKey] = frozenset()  # the process ends
    ending: EndCause = "died"  # of the process of a deadly chunk, or with more rows than live
    rows_that_fit: Mapping[int, int] = field(default_factory=dict)  # by slot: more is out of memory
    rows_that_live: Mapping[int, int] = field(default_factory=dict)  # by slot: more of them with chunks end the process
    death_share: float = 0.0  # of chunks during which the process is killed
    with_mates: bool = False  # it is killed only while it has others too
    hang_share: float = 0.0  # of chunks during which it is stopped
    stuck: frozenset[ChunkKey] = frozenset()  # the engine hangs while heartbeats go on


Spell = tuple[float, Sequence[Request]]  # seconds, and the chunks that are done after them
SimulatedEngine = Callable[
    [PoolChunkSource, int], Iterator[Spell | None]
]  # source, rows; None: it waits for a first chunk


def servers(duration: Callable[[ChunkKey], float]) -> SimulatedEngine:
    """An engine whose rows each speak a chunk in its own time, whatever their mates do."""

    def speak(source: PoolChunkSource, rows: int) -> Iterator[Spell | None]:
        left: dict[Request, float] = {}
        while True:
            for request in source.take(rows - len(left), wait=False):
                left[request] = duration(key_of(request))
            if not left:
                yield None
                continue
            spell = min(left.values()) if len(left) == rows else min(LOOK, *left.values())
            left = {request: seconds - spell for request, seconds in left.items()}
            done = [request for request, seconds in left.items() if seconds < 1e-9]
            yield spell, done
            for request in done:
                del left[request]

    return speak


def key_of(request: Request) -> ChunkKey:
    """The chunk that a simulated request is for."""
    return ChunkKey(request.seed, request.chunk)


class _Wire:
    """The worker's end of a pipe that takes no time."""

    def __init__(self, say: Callable[[FromWorker], None]) -> None:
        self.send = say
        self.inbox: deque[ToWorker] = deque()

    def has_message(self) -> bool:
        return bool(self.inbox)

    def receive(self) -> ToWorker:
        return self.inbox.popleft()


@dataclass
class _Process:
    """A simulated worker: its intake is the real one."""

    slot: int
    generation: int
    wire: _Wire
    intake: PoolChunkSource
    engine: Iterator[Spell | None] | None = None
    tries: int = 0  # how often its engine began
    waits: bool = False
    alive: bool = True
    stuck: bool = False
    reports: int = 0  # of progress


class SimulatedPool:
    """Runs a scheduler until nothing is left to do; remembers who spoke what, when."""

    def __init__(
        self,
        slots: int,
        *,
        limits: PoolLimits | None = None,
        rows: int = 1,
        start: Callable[[int], float] = lambda _: 0.0,
        duration: Callable[[ChunkKey], float] = lambda _: 1.0,
        engine: SimulatedEngine | None = None,
        fate: Fate | None = None,
        refuse: Callable[[int, float], bool] = lambda _slot, _now: False,
        seed: int = 0,
    ) -> None:
        self.scheduler = Scheduler(slots, limits)
        self.now = 0.0
        self.spoken: list[tuple[float, int, ChunkKey]] = []
        self.sent: list[tuple[float, int, ChunkKey]] = []
        self.held: list[tuple[int, int]] = []  # slot, chunks that it has with each that it gets
        self.rows: list[tuple[int, int]] = []  # slot, rows that it begins with
        self.given_up: dict[ChunkKey, str] = {}
        self.stops: list[tuple[float, int]] = []  # when, slot
        self.kills: list[tuple[int, str]] = []
        self.deaths: list[tuple[int, tuple[ChunkKey, ...]]] = []  # slot, chunks that it had
        self.refusals: list[tuple[float, int]] = []
        self._rows, self._start = rows, start
        self._engine = servers(duration) if engine is None else engine
        self._refuse = refuse
        self._fate = Fate() if fate is None else fate
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._processes: dict[int, _Process] = {}

    @property
    def makespan(self) -> float:
        """Time at which the last chunk was done."""
        return max(when for when, _, _ in self.spoken)

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Something happens at that time."""
        heapq.heappush(self._events, (when, next(self._order), what))

    def run(self, until: float = float("inf")) -> None:
        """Until that time, or until no chunk is left."""
        self._act()
        while self._events and self._events[0][0] <= until:
            census = self.scheduler.stats()
            if until == float("inf") and census.waiting + census.leased == 0:
                return
            self.now, _, what = heapq.heappop(self._events)
            what()
            self._act()

    def _act(self) -> None:
        while actions := self.scheduler.actions(self.now):
            for action in actions:
                self._carry_out(action)
        look = self.scheduler.next_deadline(self.now)
        if look is not None:
            self.at(self.now + look + 1e-6, lambda: None)

    def _carry_out(self, action: Action) -> None:
        match action:
            case StartWorker(slot, generation) if self._refuse(slot, self.now):
                self.refusals.append((self.now, slot))
                self.scheduler.start_refused(slot, generation, self.now)
            case StartWorker(slot, generation):
                wire = _Wire(lambda _: self.scheduler.chunk_wanted(slot, generation, self.now))
                self._processes[slot] = process = _Process(slot, generation, wire, PoolChunkSource(wire))  # type: ignore[arg-type]
                self._beat(process)
                self.at(self.now + self._start(slot), lambda: self._open(process))
            case BeginWork(slot, _, rows):
                self.rows.append((slot, rows))
                process = self._processes[slot]
                process.wire.inbox.append(BeginDecoding(rows))
                process.tries += 1
                self.at(self.now, lambda number=process.tries: self._begin(process, number, rows))  # type: ignore[misc]
            case SendChunk(slot, _, lease, _, chunk, held):
                self.sent.append((self.now, slot, chunk))
                self.held.append((slot, held))
                process = self._processes[slot]
                process.wire.inbox.append(SpeakChunk(lease, Request(chunk.index, "", seed=chunk.job)))
                process.stuck |= chunk in self._fate.stuck
                self._strike(process)
                if process.waits:
                    process.waits = False
                    self.at(self.now, lambda number=process.tries: self._step(process, number))  # type: ignore[misc]
            case CancelLease(slot, _, lease):
                self._processes[slot].wire.inbox.append(CancelChunk(lease))
            case KillWorker(slot, _, reason):
                self._processes[slot].alive = False
                self.kills.append((slot, reason))
            case StopIdleWorker(slot, generation):
                self.stops.append((self.now, slot))
                idle = self._processes.get(slot)
                if idle is not None and idle.alive and not idle.stuck:
                    idle.alive = False
                    self.at(self.now, lambda: self.scheduler.process_ended(slot, generation, "status 0", self.now))
            case FailChunk(chunk, _, reason):
                assert chunk not in self.given_up, f"{chunk} was given up twice"
                self.given_up[chunk] = reason

    def _open(self, process: _Process) -> None:
        if process.alive:
            self.scheduler.engine_ready(process.slot, process.generation, self._rows, self.now)

    def _beat(self, process: _Process) -> None:
        if process.alive:
            process.reports += not process.stuck
            self.scheduler.heartbeat(process.slot, process.generation, self.now, process.reports)
            census = self.scheduler.stats()
            if census.waiting + census.leased:
                self.at(self.now + BEAT, lambda: self._beat(process))

    def _begin(self, process: _Process, number: int, rows: int) -> None:
        if process.alive and process.tries == number:
            assert process.intake.begin() == rows
            process.engine = self._engine(process.intake, rows)
            self._step(process, number)

    def _step(self, process: _Process, number: int) -> None:
        """Let the engine work for a spell; what it finishes is handed in at the end of it."""
        if not process.alive or process.stuck or process.tries != number or process.engine is None:
            return
        spell = next(process.engine)
        fits = self._fate.rows_that_fit.get(process.slot)
        lives = self._fate.rows_that_live.get(process.slot)
        if spell is None:
            process.waits = True
        elif lives is not None and len(self.scheduler.slots[process.slot].leases) > lives:
            self.at(self.now + spell[0] / 2, lambda: self._die(process, self._fate.ending))
        elif fits is not None and self.rows_of(process.slot) > fits:
            self.at(self.now + spell[0] / 2, lambda: self._raise(process, number, "device is full", memory=True))
        else:
            self.at(self.now + spell[0], lambda: self._hand_in(process, number, spell[1]))

    def rows_of(self, slot: int) -> int:
        """Rows that the worker began with last."""
        return next(rows for number, rows in reversed(self.rows) if number == slot)

    def _hand_in(self, process: _Process, number: int, done: Sequence[Request]) -> None:
        if not process.alive or process.stuck or process.tries != number:
            return
        for request in done:
            key = key_of(request)
            if key in self._fate.deranging:
                self._raise(process, number, f"chunk {key.index} upsets it")
                return
            if key in self._fate.deadly:
                self._die(process, self._fate.ending)
                return
            lease = process.intake.complete(request)
            if key in self._fate.poison:
                reason = f"cannot speak chunk {key.index}"
                self.scheduler.chunk_unspeakable(process.slot, process.generation, lease, reason, self.now)
            elif self.scheduler.chunk_done(process.slot, process.generation, lease, self.now):
                self.spoken.append((self.now, process.slot, key))
        self._step(process, number)

    def _raise(self, process: _Process, number: int, reason: str, *, memory: bool = False) -> None:
        if process.alive and process.tries == number:
            self.scheduler.engine_raised(process.slot, process.generation, reason, self.now, out_of_memory=memory)

    def _strike(self, process: _Process) -> None:
        """Perhaps the process is killed or stopped while it has the chunk it just got."""
        dice = self._random.random()
        when = self.now + self._random.random()
        if dice < self._fate.death_share:
            self.at(when, lambda: self._die(process))
        elif dice < self._fate.death_share + self._fate.hang_share:
            self.at(when, lambda: self._stop(process))

    def _stop(self, process: _Process) -> None:
        process.alive = False

    def _die(self, process: _Process, cause: EndCause = "died") -> None:
        held = self.scheduler.slots[process.slot].leases.values()
        if not process.alive or (cause == "died" and self._fate.with_mates and len(held) < 2):
            return
        process.alive = False
        self.deaths.append((process.slot, tuple(sorted(lease.chunk.key for lease in held))))
        self.scheduler.process_ended(process.slot, process.generation, "killed by signal 9", self.now, cause=cause)
