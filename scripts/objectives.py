"""Write deploy/prometheus/rules/objectives.yaml, the rules of the objectives in deploy/prometheus/objectives.yaml.

The windows and burn rates are those of Google's SRE workbook for an objective of 30 days (chapter "Alerting on SLOs",
multiwindow, multi-burn-rate alerts): 2 % of the budget in an hour or 5 % in 6 hours page, 10 % in a day or three are
told. The short window of a pair ends an alert soon after its cause has ended.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

PROMETHEUS = Path(__file__).resolve().parent.parent / "deploy/prometheus"
TABLE, RULES = PROMETHEUS / "objectives.yaml", PROMETHEUS / "rules/objectives.yaml"
LEAST = 3
"""Bad events in the long window below which nothing is told: one of two is half of all, and may be chance."""
_DIRECT = ("5m", "30m", "1h", "2h", "6h")  # windows that are read from the counters
_SUMMED = ("1d", "3d")  # longer ones, from what five minutes had
_PERIOD, _PART = "30d", "5m"


@dataclass(frozen=True)
class Objective:
    """A share of events that is to be good; `all` and `good` are selectors of counters."""

    name: str
    alert: str
    title: str
    bad: str
    target: float
    all: str
    good: str

    @property
    def budget(self) -> str:
        """Share of events that may be bad, in the shortest form."""
        return f"{1 - self.target:.6g}"


@dataclass(frozen=True)
class Burning:
    """Alert on the rate at which a budget goes; `pairs` are (times that rate, long window, short window)."""

    suffix: str
    severity: str
    pairs: tuple[tuple[float, str, str], ...]
    says: str


BURNING = (
    Burning("BudgetBurns", "critical", ((14.4, "1h", "5m"), (6, "6h", "30m")), "is gone within five days"),
    Burning("BudgetErodes", "warning", ((3, "1d", "2h"), (1, "3d", "6h")), "does not last for its 30 days"),
)


def main(arguments: list[str] | None = None, *, table: Path = TABLE, rules: Path = RULES) -> int:
    """Write the file; with --check only compare, exit code 1 for a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where the file differs from the table"
    )
    chosen = parser.parse_args(arguments)
    made = rules_of(read(table))
    if rules.exists() and rules.read_text(encoding="utf-8") == made:
        return 0
    if chosen.check:
        sys.stderr.write(f"{rules} differs from {table.name}: make objectives\n")
        return 1
    rules.write_text(made, encoding="utf-8")
    return 0


def read(table: Path) -> tuple[Objective, ...]:
    """The objectives of the table. Raises ValueError for a target at which an alert could never fire."""
    found = tuple(
        Objective(name, **fields) for name, fields in yaml.safe_load(table.read_text(encoding="utf-8")).items()
    )
    fastest = max(rate for each in BURNING for rate, _, _ in each.pairs)
    for each in found:
        if not 1 - 1 / fastest < each.target < 1:
            raise ValueError(
                f"{table.name}: {each.name}: target: found {each.target}, expected above {1 - 1 / fastest:.3f} and "
                f"below 1: {fastest} times the budget is more than all events else"
            )
    return found


def rules_of(objectives: tuple[Objective, ...]) -> str:
    """The rules as text."""
    lines = [
        "# Objectives of listening: how fast their budgets of errors go. From ../objectives.yaml, by make objectives.",
        "groups:",
        "  - name: voxyard-layer-objectives",
        "    rules:",
        *(line for each in objectives for line in _recorded(each)),
        "",
        "  - name: voxyard-layer-budgets",
        "    interval: 2m",
        "    rules:",
        "      # What is left of the budgets of 30 days, from 1 to less than nothing.",
        *(line for each in objectives for line in _left(each)),
        "",
        "  - name: voxyard-alerts-objectives",
        "    rules:",
        *(line for each in objectives for burning in BURNING for line in _alert(each, burning)),
    ]
    return "\n".join(lines).replace("rules:\n\n", "rules:\n") + "\n"


def _recorded(objective: Objective) -> Iterator[str]:
    """How many times as fast as allowed the budget went in each window, by service; nothing where nothing happened."""
    yield f"      # {objective.title[0].upper()}{objective.title[1:]}: {objective.budget} of all may be bad."
    yield from _record(objective, "events", _PART, _increase(objective.all, _PART))
    for window in dict.fromkeys([_PART, *(long for each in BURNING for _, long, _ in each.pairs)]):
        direct = f"{_increase(objective.all, window)} - {_increase(objective.good, window)}"
        yield from _record(objective, "bad", window, _sum(objective, "bad", window) if window in _SUMMED else direct)
    for window in _DIRECT:
        share = f"1 - {_increase(objective.good, window)} / ({_increase(objective.all, window)} > 0)"
        yield from _record(objective, "burn", window, f"({share}) / {objective.budget}")
    for window in _SUMMED:
        yield from _record(objective, "burn", window, _share_of_sums(objective, window))


def _left(objective: Objective) -> Iterator[str]:
    """What is left of the budget of the whole period."""
    yield "      - record: voxyard:objective_budget_left:ratio30d"
    yield f"        labels: {{objective: {objective.name}}}"
    yield f"        expr: 1 - {_share_of_sums(objective, _PERIOD)}"


def _share_of_sums(objective: Objective, window: str) -> str:
    bad, events = (_sum(objective, what, window) for what in ("bad", "events"))
    return f"{bad} / ({events} > 0) / {objective.budget}"


def _increase(selector: str, window: str) -> str:
    return f"sum by (job, instance) (increase({selector}[{window}]))"


def _sum(objective: Objective, what: str, window: str) -> str:
    return f"sum_over_time({_series(objective, what, _PART)}[{window}:{_PART}])"


def _series(objective: Objective, what: str, window: str) -> str:
    return f'{_name(what, window)}{{objective="{objective.name}"}}'


def _name(what: str, window: str) -> str:
    return f"voxyard:objective_{what}:{'rate' if what == 'burn' else 'increase'}{window}"


def _record(objective: Objective, what: str, window: str, expr: str) -> Iterator[str]:
    yield f"      - record: {_name(what, window)}"
    yield f"        labels: {{objective: {objective.name}}}"
    yield f"        expr: {expr}"


def _alert(objective: Objective, burning: Burning) -> Iterator[str]:
    name = f"{objective.alert}{burning.suffix}"
    yield ""
    yield f"      - alert: {name}"
    yield "        expr: |"
    for number, (rate, long, short) in enumerate(burning.pairs):
        if number:
            yield "            or"
        yield f"          {_series(objective, 'burn', long)} > {rate:g}"
        yield f"            and {_series(objective, 'burn', short)} > {rate:g}"
        yield f"            and {_series(objective, 'bad', long)} > {LEAST - 0.5:g}"
    yield "        labels:"
    yield f"          severity: {burning.severity}"
    yield f"          family: objective-{objective.name.replace('_', '-')}"
    yield "        annotations:"
    yield f"          summary: '{objective.title[0].upper()}{objective.title[1:]} on {{{{ $labels.instance }}}}'"
    yield (
        f'          description: \'The share of {objective.bad} is {{{{ $value | printf "%.1f" }}}} times what '
        f"{objective.target:.6g} allows: the budget {burning.says}.'"
    )
    yield f"          runbook_url: deploy/prometheus/runbook.md#{name.lower()}"


if __name__ == "__main__":
    sys.exit(main())
