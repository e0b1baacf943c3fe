"""Alert benchmark (make bench-alerts): the causes that alerts and profiler tell of drawn faults; false pages."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import paths

paths.add()

from fault_kinds import KINDS
from healthy_weeks import DAY, WEEKS, Week, live
from planted_faults import Kind, Outcome, observe
from profiled_faults import PROFILED, Profiled, profiled, profiled_table
from rule_replay import Fired

OUTPUT = Path(__file__).resolve().parents[2] / "build" / "bench" / "alerts.json"
PAGES = {"critical", "warning"}
SEED = 2026
FAULTS_TOGETHER, WEEKS_TOGETHER = 8, 4
"""Hosts that one promtool has: most of what a rule costs it does not depend on their number, and its memory does."""

T = TypeVar("T")


@dataclass(frozen=True)
class Lived:
    """A healthy week, and what fired in it."""

    week: Week
    days: float
    fired: tuple[Fired, ...]

    @property
    def pages(self) -> tuple[Fired, ...]:
        """Alerts that are sent to somebody."""
        return tuple(each for each in self.fired if each.severity in PAGES)


def main() -> int:
    """Play the faults and the weeks, print each table when it is known, write the file; 1 where a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED, help="of what is drawn (default: %(default)s)")
    parser.add_argument("--each", type=int, default=1, help="faults of each kind (default: %(default)s)")
    parser.add_argument("--days", type=float, default=7.0, help="of each healthy week; 0 leaves them out")
    parser.add_argument("--only", action="append", metavar="KIND", help="only this kind (may be repeated)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    asked = parser.parse_args()
    names = [*(kind.name for kind in KINDS), *(kind.name for kind in PROFILED), *(week.name for week in WEEKS)]
    if unknown := set(asked.only or ()) - set(names):
        parser.error(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    began = time.perf_counter()
    kinds = [kind for kind in KINDS if not asked.only or kind.name in asked.only]
    profiles = [kind for kind in PROFILED if not asked.only or kind.name in asked.only]
    weeks = [week for week in WEEKS if asked.days and (not asked.only or week.name in asked.only)]
    # The profiles come first and one at a time: they measure, and want the machine to themselves.
    each_profile = (profiled(kind, asked.seed + number) for number in range(asked.each) for kind in profiles)
    seen = _told(each_profile, asked.each * len(profiles), "profile")
    print(profiled_table(seen), flush=True)
    courses: dict[tuple[float, float, float], list[tuple[str, int]]] = {}
    for number in range(asked.each):
        for kind in kinds:
            courses.setdefault(kind.course, []).append((kind.name, asked.seed + number))
    faults = [each for those in courses.values() for each in _parts(those, FAULTS_TOGETHER)]
    healthy = _parts([week.name for week in weeks], WEEKS_TOGETHER)
    with ProcessPoolExecutor(asked.jobs) as processes:
        observed = processes.map(_observe, faults)
        lives = processes.map(partial(_live, days=asked.days, seed=asked.seed), healthy)
        outcomes = _told(chain.from_iterable(observed), sum(map(len, faults)), "fault")
        print("", fault_table(outcomes), sep="\n", flush=True)
        lived = _told(chain.from_iterable(lives), len(weeks), "week")
        print("", week_table(lived), sep="\n")
    result = _result(outcomes, lived, seen, asked, time.perf_counter() - began)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=2, default=str) + "\n", encoding="utf-8")
    return int(not result["goals_met"])


def _parts(those: Sequence[T], size: int) -> list[Sequence[T]]:
    return [those[begin : begin + size] for begin in range(0, len(those), size)]


def _observe(asked: Sequence[tuple[str, int]]) -> list[Outcome]:
    kinds = {kind.name: kind for kind in KINDS}
    with tempfile.TemporaryDirectory() as scratch:
        return observe([(kinds[name], seed) for name, seed in asked], Path(scratch))


def _live(names: Sequence[str], days: float, seed: int) -> list[Lived]:
    weeks = [week for week in WEEKS if week.name in names]
    with tempfile.TemporaryDirectory() as scratch:
        fired = live(weeks, Path(scratch), days=days, seed=seed)
    return [Lived(week, days, tuple(those)) for week, those in zip(weeks, fired, strict=True)]


def _told(made: Iterable[T], count: int, what: str) -> list[T]:
    """All of them, with a line of progress on standard error."""
    found = []
    for each in made:
        found.append(each)
        print(f"{what} {len(found)} of {count}", end="\r", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def fault_table(outcomes: Sequence[Outcome]) -> str:
    """What told each kind of fault, as README.md beside this file has it."""
    lines = ["| planted fault | told by | after | also fired |", "|---|---|---|---|"]
    for kind, those in _by_kind(outcomes):
        told = [each.told for each in those if each.told is not None]
        named = min(kind.told_by) + ("" if len(told) == len(those) else f" ({len(told)} of {len(those)})")
        times = [each[2] for each in told]
        after = " – ".join(dict.fromkeys(map(_clock, (min(times), max(times))))) if told else "never"
        others = {name for each in those for name, _, _ in each.fired} - kind.told_by
        lines.append(f"| {kind.name} | {named} | {after} | {', '.join(sorted(others))} |")
    return "\n".join(lines)


def week_table(lived: Sequence[Lived]) -> str:
    """What fired in each healthy week, as README.md beside this file has it."""
    lines = ["| healthy week | pages | told on dashboards |", "|---|---|---|"]
    for week in lived:
        pages = ", ".join(f"{each.name} ({each.first / DAY:.1f} d)" for each in week.pages) or "none"
        hints = ", ".join(sorted({each.name for each in week.fired} - {each.name for each in week.pages}))
        lines.append(f"| {week.week.name} | {pages} | {hints} |")
    return "\n".join(lines)


def _by_kind(outcomes: Sequence[Outcome]) -> Iterable[tuple[Kind, list[Outcome]]]:
    for kind in KINDS:
        if those := [each for each in outcomes if each.kind.name == kind.name]:
            yield kind, those


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min"


def _result(
    outcomes: Sequence[Outcome], lived: Sequence[Lived], seen: Sequence[Profiled], asked: Any, seconds: float
) -> dict[str, Any]:
    delays = [each.told[2] for each in outcomes if each.told is not None]
    pages, weeks = [page for each in lived for page in each.pages], sum(each.days for each in lived) / 7
    confusion: dict[str, Counter[str]] = {}
    for each in outcomes:
        confusion.setdefault(each.kind.name, Counter())[each.first_page or "no page"] += 1
    ratios: dict[str, float] = {}
    if outcomes:
        ratios["named_by_cause"] = len(delays) / len(outcomes)
        ratios["wrong_causes"] = sum(each.misleads for each in outcomes)
    if both := [each for each in outcomes if each.kind.also is not None]:
        ratios["two_causes_named"] = sum(each.told is not None for each in both) / len(both)
    if seen:
        ratios["named_by_profiler"] = sum(each.named for each in seen) / len(seen)
    if lived:
        ratios["pages_per_healthy_week"] = len(pages) / weeks
        ratios["critical_pages_healthy"] = sum(each.severity == "critical" for each in pages)
    early = {each.kind.name: each.before for each in outcomes if each.before}
    met = (
        ratios.get("named_by_cause", 1) >= 0.95
        and not ratios.get("wrong_causes")
        and ratios.get("two_causes_named", 1) >= 0.9
        and ratios.get("named_by_profiler", 1) >= 0.9
        and ratios.get("pages_per_healthy_week", 0) <= 0.05
        and not ratios.get("critical_pages_healthy")
        and not early
    )
    return {
        "name": "alerts",
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "seed": asked.seed,
        "ratios": ratios,
        "goals_met": met,
        "seconds_to_alert": {"median": statistics.median(delays), "worst": max(delays)} if delays else {},
        "first_page": {name: dict(counts) for name, counts in confusion.items()},
        "before_the_fault": early,
        "faults": [
            {"kind": each.kind.name, "drawn": each.drawn, "told": each.told, "fired": each.fired} for each in outcomes
        ],
        "profiles": [
            {"kind": each.kind.name, "drawn": asdict(each.drawn), "cause": each.cause, "sentence": each.sentence}
            for each in seen
        ],
        "weeks": [
            {"kind": each.week.name, "days": each.days, "fired": [(f.name, f.severity, f.first) for f in each.fired]}
            for each in lived
        ],
        "seconds": round(seconds, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
