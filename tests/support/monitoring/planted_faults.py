"""Faults planted on a simulated host, and the alerts that they raise under the project's rules."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rule_replay import Fired, Recording, replay
from simulated_host import INSTANCE, SimulatedHost

PLAN = """
gpus: 8
workloads:
  - {workload: trainer, role: data}
  - {workload: trainer, role: model}
  - {workload: bark, role: bark}
"""
DATA, MODEL, IDLE = 0, 1, 6
BARK = (2, 3, 4, 5)
STEP_SECONDS = 0.5
MINUTE, HOUR = 60.0, 3600.0

Drawn = dict[str, Any]
Change = Callable[[SimulatedHost, float], None]
"""A change of the host, so many seconds after the fault began; called before every scrape."""


@dataclass(frozen=True)
class Planted:
    """A fault as it was drawn: what was drawn, and what it does as time goes by."""

    drawn: Drawn
    during: Change = lambda _host, _seconds: None


@dataclass(frozen=True)
class Kind:
    """A kind of fault, and the names that tell its cause: an alert's label `cause` where it has one, else its own."""

    name: str
    told_by: frozenset[str]
    plant: Callable[[SimulatedHost, random.Random], Planted]
    training: bool = True  # whether a run is there before
    link: str = "NV18"  # between data and model GPU
    before: float = 40 * MINUTE
    after: float = 45 * MINUTE
    interval: float = 15.0
    not_told_by: frozenset[str] = frozenset()  # names that would mislead
    also: str | None = None  # what is to tell the second cause, where two are planted at once


@dataclass(frozen=True)
class Outcome:
    """Alerts around one fault; seconds are since it began."""

    kind: Kind
    drawn: Drawn
    fired: tuple[tuple[str, str, float], ...]  # name, severity, after how long
    before: tuple[str, ...]  # what fired while all was well

    @property
    def told(self) -> tuple[str, str, float] | None:
        """The first alert that tells the cause; None where one misleads."""
        if self.misleads:
            return None
        if self.kind.also is not None and self.kind.also not in {name for name, _, _ in self.fired}:
            return None
        return next((each for each in self.fired if each[0] in self.kind.told_by), None)

    @property
    def misleads(self) -> bool:
        """True where an alert tells a cause that it is not; a second one where there is one is such."""
        names = {name for name, _, _ in self.fired}
        return bool(
            names & self.kind.not_told_by or {name for name in names if name.endswith(", too")} - {self.kind.also}
        )

    @property
    def first_page(self) -> str | None:
        """Name of the first page, whatever it tells."""
        return next((name for name, severity, _ in self.fired if severity in ("critical", "warning")), None)


def name_of(fired: Fired) -> str:
    """Cause that an alert tells, `cause, too` where it is the second of two; of one without a cause its own name."""
    return fired.labels.get("cause", fired.name) + (", too" if "place" in fired.labels else "")


def new_host(directory: Path, *, link: str = "NV18", seed: int = 0) -> SimulatedHost:
    """A host of eight GPUs with a Bark pool on four of them."""
    plan = directory / "plan.yaml"
    plan.write_text(PLAN, encoding="utf-8")
    host = SimulatedHost(plan, link=link, seed=seed)
    host.start_pool(BARK)
    return host


def train(host: SimulatedHost, name: str) -> None:
    """A healthy run; its data GPU has little to do, which is well."""
    host.start_run(name, DATA, MODEL).step_seconds = STEP_SECONDS
    host.gpus[DATA].utilization, host.gpus[MODEL].utilization = 0.15, 0.92


def end_run(host: SimulatedHost, *, well: bool) -> None:
    """The run's process ends; only one that ends well says so."""
    if host.run is not None and well:
        host.run.metrics.finish()
    host.end_run()
    host.gpus[DATA].utilization = host.gpus[MODEL].utilization = 0.0


def speak(host: SimulatedHost, waiting: int) -> None:
    """The pool's queue holds so many chunks."""
    assert host.pool is not None
    host.pool.waiting = waiting
    for index in BARK:
        host.gpus[index].utilization = 0.85 if waiting else 0.0
        host.gpus[index].memory_used = (8 << 30) if waiting else (2 << 30)


def record(host: SimulatedHost, recording: Recording, seconds: float, during: Change = Planted({}).during) -> None:
    """Scrapes for so long; a job that answered once stays a target."""
    began = host.now
    for _ in range(round(seconds / recording.interval)):
        during(host, host.now - began)
        scraped = host.scrape()
        recording.add(INSTANCE, scraped)
        for job in {"trainer", "bark"} - set(scraped):
            recording.missing(INSTANCE, job)
        recording.step()
        host.advance(recording.interval)


def observe(kind: Kind, directory: Path, seed: int) -> Outcome:
    """The host before and after a fault of this kind, under the project's rules."""
    dice = random.Random(f"{kind.name} {seed}")
    host = new_host(directory, link=kind.link, seed=seed)
    if kind.training:
        train(host, "steady")
    speak(host, 200)
    recording = Recording(kind.interval)
    record(host, recording, kind.before)
    began = host.now
    planted = kind.plant(host, dice)
    record(host, recording, kind.after, planted.during)
    fired = replay(recording, directory)
    after = sorted(((name_of(each), each.severity, each.first - began) for each in fired), key=lambda each: each[2])
    early = tuple(each.name for each in fired if each.first < began)
    return Outcome(kind, planted.drawn, tuple(each for each in after if each[2] >= 0), early)
