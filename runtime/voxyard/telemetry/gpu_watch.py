"""GPU readings of a run: taken in a thread from its begin to its end, with means by role."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from voxyard.host.nvml import Gpu, Session
from voxyard.telemetry.sampler import GpuSampler, GpuState, Snapshot

MOST_KEPT = 7200
"""Utilizations that are kept one by one: an hour of a profile, which reads twice a second."""

READING_SECONDS = 1.0
"""Time that a reading is of, up to its end: a utilization is the mean of the driver's samples of the last second."""

PARTS = "NVML cannot tell the parts of a card apart (--gpu-parts)"
"""Why a role on a card that has several devices of a run has no utilization of its own."""

STEADY_SHARE = 0.9
"""Least share of that time in steps for a reading to be of steps: the rest are measurements of a few milliseconds."""


@dataclass(slots=True)
class RunningMean:
    """Mean of values that are not kept; None before the first."""

    count: int = 0
    value: float | None = None

    def add(self, value: float) -> None:
        """One more value."""
        self.count += 1
        mean = 0.0 if self.value is None else self.value
        self.value = mean + (value - mean) / self.count


@dataclass(frozen=True, slots=True)
class CardPower:
    """Mean power of one GPU of a run in its role, and the limit that was in force; None: the driver reports none."""

    role: str
    index: int
    watts: float | None
    limit_watts: float | None

    @property
    def share(self) -> float | None:
        """Power of the limit in force, 0…1."""
        return None if self.watts is None or not self.limit_watts else self.watts / self.limit_watts

    def __str__(self) -> str:
        if self.watts is None:
            return "not measured"
        return f"{self.watts:.0f} W" + ("" if not self.limit_watts else f" of {self.limit_watts:.0f} W")


@dataclass(slots=True)
class GpuReadings:
    """One GPU's readings in constant space: the mean of those that count, and what came after the first pass.

    The driver measured the first pass before the watch began.
    """

    utilization: RunningMean = field(default_factory=RunningMean)
    utilizations: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))  # the newest
    memory_used: int | None = None  # the most, in bytes
    memory_size: int | None = None
    activity: dict[str, RunningMean] = field(default_factory=dict)  # by part of the card
    power: RunningMean = field(default_factory=RunningMean)
    power_limit: float | None = None  # the newest
    energy: float | None = None  # joules since the first pass
    _counter: float | None = None  # the card's own, at the newest pass

    def take(self, state: GpuState, *, first: bool) -> None:
        """One pass."""
        if state.utilization_ratio is not None and not first:
            self.utilizations.append(state.utilization_ratio)
        if state.reading is not None and not first:
            for part, share in state.reading.activity.parts.items():
                self.activity.setdefault(part, RunningMean()).add(share)
        if state.reading is not None and state.reading.power_limit_watts is not None:
            self.power_limit = state.reading.power_limit_watts
        if state.reading is not None:
            self._count_energy(state.reading.totals.get("energy_joules"))
        memory = None if state.reading is None else state.reading.memory
        if memory is not None and not first:
            self.memory_used = max(memory.used, self.memory_used or 0)
            self.memory_size = memory.size

    def _count_energy(self, joules: float | None) -> None:
        """The card's counter, which begins anew with its driver."""
        if joules is None:
            return
        before = joules if self._counter is None else self._counter
        self.energy = (self.energy or 0.0) + max(0.0, joules - before)
        self._counter = joules


class StepSpans:
    """Spans of time in which steps were computed, those that follow upon each other as one. In constant space."""

    def __init__(self) -> None:
        self._spans: deque[tuple[float, float]] = deque()

    def add(self, begin: float, end: float) -> None:
        """One more span, from the end of the last one at the earliest."""
        if self._spans and begin <= self._spans[-1][1]:
            begin, _ = self._spans.pop()
        self._spans.append((begin, end))

    def share(self, begin: float, end: float) -> float:
        """Share of this time that is in the spans."""
        return sum(max(0.0, min(end, last) - max(begin, first)) for first, last in self._spans) / (end - begin)

    def forget(self, before: float) -> None:
        """Drops the spans that ended before this time."""
        while self._spans and self._spans[0][1] < before:
            self._spans.popleft()


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass over the GPUs, at a time of the clock that never jumps."""

    at: float
    utilization: Mapping[str, float]  # by UUID
    power: Mapping[str, float]  # by UUID, in watts


class GpuWatch:
    """Reads the GPUs of a run, each with its role, every `interval` seconds within the context.

    `gpus` are the readings by UUID, `passes` their number. Without GPUs, or not `enabled`, it touches no driver. Means
    are of all passes; `of_steps` of those alone that `trained` confirms.
    """

    def __init__(
        self,
        cards: Sequence[tuple[str, Gpu]],
        *,
        interval: float = 1.0,
        enabled: bool = True,
        of_steps: bool = False,
    ) -> None:
        self.cards, self.enabled = tuple(cards), enabled
        self.gpus = {gpu.uuid: GpuReadings() for _, gpu in self.cards}
        devices = Counter(gpu.uuid for _, gpu in self.cards)
        self.cut = frozenset(uuid for uuid, count in devices.items() if count > 1)  # cards with several devices
        self.passes = 0
        self._power = RunningMean()
        self._pending: deque[_Pass] | None = deque(maxlen=MOST_KEPT) if of_steps else None
        self._spans, self._settling = StepSpans(), threading.Lock()
        self._sampler = GpuSampler(interval, only=set(self.gpus), on_snapshot=self.take)

    def __enter__(self) -> Self:
        """Raises HostError where there are GPUs and NVML does not answer."""
        if self.cards and self.enabled:
            with Session():
                self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.cards and self.enabled:
            self._sampler.stop()

    def take(self, snapshot: Snapshot) -> None:
        """One pass over the GPUs."""
        states = {state.gpu.uuid: state for state in snapshot.gpus if state.gpu.uuid in self.gpus}
        for uuid, state in states.items():
            self.gpus[uuid].take(state, first=self.passes == 0)
        self.passes += 1
        powers = {uuid: _power(states.get(uuid)) for uuid in self.gpus}
        made = _Pass(
            snapshot.monotonic,
            {uuid: one.utilization_ratio for uuid, one in states.items() if one.utilization_ratio is not None},
            {uuid: watts for uuid, watts in powers.items() if watts is not None},
        )
        with self._settling:
            if self._pending is None:
                self._count(made)
            else:
                self._pending.append(made)

    def trained(self, begin: float, end: float) -> None:
        """Steps were computed between these times (`time.perf_counter`, on Linux the clock of a snapshot).

        What is no step (compiling, validating, saving) is left out of the means with the readings that overlap it.
        """
        if self._pending is None or not self.cards:
            return
        with self._settling:
            self._spans.add(begin, end)
            while self._pending and self._pending[0].at <= end:
                one = self._pending.popleft()
                if self._spans.share(one.at - READING_SECONDS, one.at) >= STEADY_SHARE:
                    self._count(one)
            self._spans.forget((self._pending[0].at if self._pending else end) - READING_SECONDS)

    def _count(self, one: _Pass) -> None:
        for uuid, ratio in one.utilization.items():
            self.gpus[uuid].utilization.add(ratio)
        for uuid, watts in one.power.items():
            self.gpus[uuid].power.add(watts)
        if one.power and len(one.power) == len(self.gpus):
            self._power.add(sum(one.power.values()))

    @property
    def counted(self) -> int:
        """Readings in the means, of the GPU that has the most."""
        return max((each.utilization.count for each in self.gpus.values()), default=0)

    def utilization(self) -> dict[str, float | None]:
        """Mean utilization 0…1 of each role; the least of the GPUs that share one (mirrored).

        None: not measured, or of a card that has several devices of the run (`PARTS`).
        """
        means: dict[str, float | None] = {}
        for role, gpu in self.cards:
            mean = None if gpu.uuid in self.cut else self.gpus[gpu.uuid].utilization.value
            before = means.get(role, mean)
            means[role] = None if before is None or mean is None else min(before, mean)
        return means

    def cut_cards(self) -> dict[str, float | None]:
        """Mean utilization of each card that has several devices of the run, all of them together, by its name."""
        cards = {gpu.uuid: gpu for _, gpu in self.cards if gpu.uuid in self.cut}
        return {f"GPU {gpu.index}": self.gpus[uuid].utilization.value for uuid, gpu in cards.items()}

    def power_watts(self) -> float | None:
        """Mean power of the GPUs together."""
        return self._power.value

    def energy_joules(self) -> float | None:
        """Energy of the GPUs together since the first pass, by their own counters; None: one has no counter."""
        each = [gpu.energy for gpu in self.gpus.values()]
        known = [joules for joules in each if joules is not None]
        return sum(known) if each and len(known) == len(each) else None

    def powers(self) -> tuple[CardPower, ...]:
        """Mean power of each GPU beside its limit; of a card that has several devices of the run once, of no role."""
        cards = dict.fromkeys(("all parts" if gpu.uuid in self.cut else role, gpu) for role, gpu in self.cards)
        read = ((role, gpu, self.gpus[gpu.uuid]) for role, gpu in cards)
        return tuple(CardPower(role, gpu.index, each.power.value, each.power_limit) for role, gpu, each in read)


def _power(state: GpuState | None) -> float | None:
    return None if state is None or state.reading is None else state.reading.power_watts
