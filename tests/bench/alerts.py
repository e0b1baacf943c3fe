"""Alert benchmark (make bench-alerts): detection time of injected faults, and a healthy day without alerts."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = map(str, (Path(__file__).resolve().parents[1] / "support").glob("*/"))

import yaml
from rule_replay import Fired, Recording, replay
from simulated_host import INSTANCE, SimulatedHost

from voxyard.telemetry.sampler import Xid

OUTPUT = Path(__file__).resolve().parents[2] / "build" / "bench" / "alerts.json"
PROMETHEUS = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "prometheus.yml"
INTERVAL = float(yaml.safe_load(PROMETHEUS.read_text(encoding="utf-8"))["global"]["scrape_interval"].removesuffix("s"))
BEFORE, AFTER = 40 * 60.0, 45 * 60.0  # seconds of health before the fault, and of fault
DAY_INTERVAL = 30.0
HOUR = 3600.0
PAGES = {"critical", "warning"}
PLAN = """
gpus: 8
workloads:
  - {workload: trainer, role: data}
  - {workload: trainer, role: model}
  - {workload: bark, role: bark}
"""
DATA, MODEL = 0, 1
BARK = (2, 3, 4, 5)

Plant = Callable[[SimulatedHost], Callable[[SimulatedHost], None] | None]
"""Makes the fault; may give back what happens one scrape later."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, and the alert that is to name it."""

    name: str
    alert: str
    plant: Plant
    training: bool = True  # whether a run is there before


@dataclass(frozen=True)
class Outcome:
    """Alert that fired after a fault; times are seconds since it."""

    fault: Fault
    found: Fired | None
    after: float | None
    others: tuple[tuple[str, float], ...]
    before: tuple[str, ...]  # what fired while all was well


def starved_input(host: SimulatedHost) -> None:
    """The disk gives a third of what the model could learn."""
    assert host.run is not None
    host.run.step_seconds, host.run.wait_seconds = 1.5, 1.1
    host.gpus[DATA].utilization, host.gpus[MODEL].utilization = 0.10, 0.27


def stalled_run(host: SimulatedHost) -> None:
    """The process lives and serves its metrics; no step ends any more."""
    assert host.run is not None
    host.run.learning = False
    host.gpus[DATA].utilization = host.gpus[MODEL].utilization = 0.0


def dead_run(host: SimulatedHost) -> None:
    """The kernel kills the process: it says nothing more."""
    host.end_run()
    host.gpus[DATA].utilization = host.gpus[MODEL].utilization = 0.0


def dead_bark_worker(host: SimulatedHost) -> None:
    """One of four does not come back; the others go on with the queue."""
    assert host.pool is not None
    host.pool.running = len(BARK) - 1
    host.gpus[BARK[-1]].utilization = 0.0


def nan_loss(host: SimulatedHost) -> Callable[[SimulatedHost], None]:
    """One scrape sees it; then the trainer has ended, as it does with such a loss."""
    assert host.run is not None
    host.run.metrics.losses({"total": float("nan")})
    return dead_run


def unseen_nan_loss(host: SimulatedHost) -> None:
    """The trainer has ended before anyone scraped the loss: all that can be told is that a run is gone."""
    dead_run(host)


def lost_gpu(host: SimulatedHost) -> None:
    """An idle GPU falls off the bus, without an Xid."""
    host.gpus[6].up = False


def missing_gpu(host: SimulatedHost) -> None:
    """The host was restarted and an idle GPU did not come back: nothing tells of it any more."""
    del host.gpus[6]


def xid(host: SimulatedHost) -> None:
    """A double-bit memory error of a GPU that goes on answering."""
    host.gpus[BARK[0]].xids[48] = Xid(1, host.now, host.now)


def thermal_slowdown(host: SimulatedHost) -> None:
    """The cooling fails: the clocks fall, the utilization does not."""
    host.gpus[MODEL].temperature = 84.0
    host.gpus[MODEL].clock_events.add("hw_thermal_slowdown")


def sys_pair(host: SimulatedHost) -> None:
    """A run starts on two GPUs of different sockets."""
    train(host, "far")


def exporter_down(host: SimulatedHost) -> None:
    """Its container is gone; the workloads go on."""
    host.exporter_answers = False


FAULTS = (
    Fault("starved input", "TrainingInputBound", starved_input),
    Fault("stalled run", "TrainingStalled", stalled_run),
    Fault("dead run", "WorkloadDown", dead_run),
    Fault("dead Bark worker", "BarkWorkersDown", dead_bark_worker),
    Fault("NaN loss", "TrainingLossNotFinite", nan_loss),
    Fault("NaN loss between two scrapes", "WorkloadDown", unseen_nan_loss),
    Fault("lost GPU", "GpuLost", lost_gpu),
    Fault("GPU gone after a restart", "GpuMissing", missing_gpu),
    Fault("Xid 48", "GpuXidCritical", xid),
    Fault("thermal slowdown", "GpuThermalSlowdown", thermal_slowdown),
    Fault("SYS pair", "TrainingPairLinkSlow", sys_pair, training=False),
    Fault("exporter down", "ExporterDown", exporter_down),
)


def train(host: SimulatedHost, name: str) -> None:
    """A healthy run; its data GPU has little to do, which is well."""
    host.start_run(name, DATA, MODEL)
    host.gpus[DATA].utilization, host.gpus[MODEL].utilization = 0.15, 0.92


def speak(host: SimulatedHost, waiting: int) -> None:
    """The pool's queue holds so many chunks."""
    assert host.pool is not None
    host.pool.waiting = waiting
    for index in BARK:
        host.gpus[index].utilization = 0.85 if waiting else 0.0
        host.gpus[index].memory_used = (8 << 30) if waiting else (2 << 30)


def observe(fault: Fault, directory: Path) -> Outcome:
    """The host before and after the fault, under the project's rules."""
    host = _host(directory, link="SYS" if fault.plant is sys_pair else "NV18")
    if fault.training:
        train(host, "steady")
    speak(host, 200)
    recording = Recording(INTERVAL)
    _record(host, recording, BEFORE)
    planted = host.now
    then = fault.plant(host)
    if then is not None:
        _record(host, recording, INTERVAL)
        then(host)
    _record(host, recording, AFTER)
    fired = replay(recording, directory)
    before = tuple(each.name for each in fired if each.first < planted)
    named = next((each for each in fired if each.name == fault.alert and each.first >= planted), None)
    others = {each.name: each.first - planted for each in reversed(fired) if each.name != fault.alert}
    return Outcome(
        fault,
        named,
        None if named is None else named.first - planted,
        tuple(sorted(others.items(), key=lambda pair: pair[1])),
        before,
    )


def healthy_day(directory: Path, hours: float) -> list[Fired]:
    """A mixed host from midnight on: two runs, Bark by day, two idle GPUs, an exporter that is updated at 15:00."""
    host = _host(directory, link="NV18")
    train(host, "first")
    speak(host, 0)
    recording = Recording(DAY_INTERVAL)
    while host.now < hours * HOUR:
        _hour_of_the_day(host)
        _record(host, recording, DAY_INTERVAL)
    return replay(recording, directory)


def _hour_of_the_day(host: SimulatedHost) -> None:
    """Applies the changes of this moment of the healthy day."""
    hour = host.now / HOUR
    if host.run is not None:
        saving = host.now % HOUR < 60  # a checkpoint each hour
        slow_start = 10.0 <= hour < 10.08  # the second run fills its caches
        host.gpus[MODEL].utilization = 0.05 if saving or slow_start else host.dice.choice([0.95, 0.9, 0.75])
        host.run.wait_seconds = 0.4 if slow_start else 0.01
        host.run.loss = 0.4 + 2 / (1 + hour)
    if _at(hour, 9.0):
        assert host.run is not None
        host.run.metrics.finish()
    if _at(hour, 9.02):
        dead_run(host)
    if _at(hour, 10.0):
        train(host, "second")
    day = 8 <= hour < 20
    queued = host.dice.randint(5, 400) if day and host.now % (2 * HOUR) < 5400 else 0
    speak(host, queued)
    if _at(hour, 11.0) and host.pool is not None:
        host.pool.metrics.failure("2", "out of memory")
    if _at(hour, 13.0):
        host.gpus[7].ecc_corrected += 3
    host.gpus[MODEL].temperature = 62 + 18 * host.gpus[MODEL].utilization
    host.exporter_answers = not 15.0 <= hour < 15.02
    host.disk_free = 0.5 - 0.01 * (host.now % (6 * HOUR)) / HOUR


def _at(hour: float, wanted: float) -> bool:
    return wanted <= hour < wanted + DAY_INTERVAL / HOUR


def _host(directory: Path, *, link: str) -> SimulatedHost:
    plan = directory / "plan.yaml"
    plan.write_text(PLAN, encoding="utf-8")
    host = SimulatedHost(plan, link=link)
    host.start_pool(BARK)
    return host


def _record(host: SimulatedHost, recording: Recording, seconds: float) -> None:
    """Scrapes for so long; a job that answered once stays a target."""
    for _ in range(round(seconds / recording.interval)):
        scraped = host.scrape()
        recording.add(INSTANCE, scraped)
        for job in {"trainer", "bark"} - set(scraped):
            recording.missing(INSTANCE, job)
        recording.step()
        host.advance(recording.interval)


def table(outcomes: Sequence[Outcome], pages: Sequence[Fired], hours: float) -> str:
    """The table of README.md beside this file."""
    lines = ["| planted fault | alert that named it | severity | after | also fired |", "|---|---|---|---|---|"]
    for each in outcomes:
        severity = each.found.severity if each.found else ""
        alert = each.found.name if each.found else f"**none** ({each.fault.alert} was expected)"
        after = "" if each.after is None else _clock(each.after)
        others = ", ".join(f"{name} ({_clock(seconds)})" for name, seconds in each.others)
        lines.append(f"| {each.fault.name} | {alert} | {severity} | {after} | {others} |")
    told = ", ".join(f"{page.name} after {_clock(page.first)}" for page in pages) or "no page"
    lines.append(f"| none: {hours:g} h of a healthy mixed host | {told} | | | |")
    return "\n".join(lines)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min"


def main() -> int:
    """Play all faults and the day, print the table, write the file; 1 where a fault was missed or health paged."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0, help="length of the healthy day")
    parser.add_argument("--fault", action="append", help="only this fault (may be repeated)")
    asked = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        chosen = [fault for fault in FAULTS if not asked.fault or fault.name in asked.fault]
        outcomes = [observe(fault, directory) for fault in chosen]
        fired = healthy_day(directory, asked.hours) if asked.hours else []
    pages = [each for each in fired if each.severity in PAGES]
    print(table(outcomes, pages, asked.hours))
    early = {each.fault.name: each.before for each in outcomes if each.before}
    for name, alerts in early.items():
        print(f"before the fault {name!r}, while all was well: {', '.join(alerts)}", file=sys.stderr)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(_result(outcomes, fired, asked.hours, began), indent=2) + "\n", encoding="utf-8")
    return int(bool(early or pages or any(each.found is None for each in outcomes)))


def _result(outcomes: Sequence[Outcome], fired: Sequence[Fired], hours: float, began: float) -> dict[str, Any]:
    return {
        "name": "alerts",
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "simulated": {"scrape_seconds": INTERVAL, "day_scrape_seconds": DAY_INTERVAL},
        "faults": [
            {
                "fault": each.fault.name,
                "expected": each.fault.alert,
                "severity": each.found.severity if each.found else None,
                "after_seconds": each.after,
                "others": dict(each.others),
                "before": list(each.before),
            }
            for each in outcomes
        ],
        "healthy": {
            "hours": hours,
            "pages": [f"{each.name} {dict(each.labels)}" for each in fired if each.severity in PAGES],
            "information": [each.name for each in fired if each.severity not in PAGES],
        },
        "seconds": round(time.perf_counter() - began, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
