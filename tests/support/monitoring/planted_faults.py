"""Faults planted on a simulated host, and the alerts that they raise under the project's rules."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rule_replay import Fired, Recording, replay
from simulated_host import SimulatedHost

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

UNCHANGED: Change = lambda _host, _seconds: None  # noqa: E731


@dataclass(frozen=True)
class Planted:
    """A fault as it was drawn: what was drawn, and what it does as time goes by."""

    drawn: Drawn
    during: Change = UNCHANGED


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

    @property
    def course(self) -> tuple[float, float, float]:
        """Seconds before and after the fault, and between scrapes."""
        return self.before, self.after, self.interval


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


def new_host(directory: Path, place: int = 1, *, link: str = "NV18", seed: int = 0) -> SimulatedHost:
    """A host of eight GPUs with a Bark pool on four of them; `place` is its own among those replayed together."""
    plan = directory / "plan.yaml"
    plan.write_text(PLAN, encoding="utf-8")
    host = SimulatedHost(plan, name=f"gpu-{place:02}", link=link, seed=seed)
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


def record(recording: Recording, seconds: float, hosts: Sequence[tuple[SimulatedHost, Change]]) -> None:
    """Scrapes of hosts for so long, and what changes on each; a job that answered once stays a target."""
    for number in range(round(seconds / recording.interval)):
        for host, during in hosts:
            during(host, number * recording.interval)
            scraped = host.scrape()
            recording.add(host.name, scraped)
            for job in {"trainer", "bark"} - set(scraped):
                recording.missing(host.name, job)
            host.advance(recording.interval)
        recording.step()


def alerts_of(host: SimulatedHost, fired: Sequence[Fired]) -> list[Fired]:
    """Those of a host among several; one that names no host is everyone's."""
    return [each for each in fired if each.labels.get("instance", host.name) == host.name]


def observe(faults: Sequence[tuple[Kind, int]], directory: Path) -> list[Outcome]:
    """A host for each fault (kind and seed) before and after it, all under the project's rules at once.

    They are of one `course`.
    """
    ((before, after, interval),) = {kind.course for kind, _ in faults}
    recording, hosts = Recording(interval), []
    for place, (kind, seed) in enumerate(faults, 1):
        host = new_host(directory, place, link=kind.link, seed=seed)
        if kind.training:
            train(host, "steady")
        speak(host, 200)
        hosts.append(host)
    record(recording, before, [(host, UNCHANGED) for host in hosts])
    planted = [
        kind.plant(host, random.Random(f"{kind.name} {seed}")) for host, (kind, seed) in zip(hosts, faults, strict=True)
    ]
    record(recording, after, [(host, each.during) for host, each in zip(hosts, planted, strict=True)])
    fired = replay(recording, directory)
    return [
        _outcome(kind, each.drawn, alerts_of(host, fired), before)
        for host, (kind, _), each in zip(hosts, faults, planted, strict=True)
    ]


def _outcome(kind: Kind, drawn: Drawn, fired: Sequence[Fired], began: float) -> Outcome:
    after = sorted(((name_of(each), each.severity, each.first - began) for each in fired), key=lambda each: each[2])
    early = tuple(each.name for each in fired if each.first < began)
    return Outcome(kind, drawn, tuple(each for each in after if each[2] >= 0), early)
