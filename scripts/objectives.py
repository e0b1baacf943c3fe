"""Write deploy/prometheus/rules/objectives.yaml, the rules of the objectives in deploy/prometheus/objectives.yaml.

The windows and burn rates are those of Google's SRE workbook for an objective of 30 days (chapter "Alerting on SLOs",
multiwindow, multi-burn-rate alerts): 2 % of the budget in an hour or 5 % in 6 hours page, 10 % in a day or three are
told. The short window of a pair ends an alert soon after its cause has ended.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from voxyard.settings.errors import SettingsError
from voxyard.settings.yaml_reader import YamlValue
from voxyard.settings.yaml_reader import read as read_yaml

PROMETHEUS = Path(__file__).resolve().parent.parent / "deploy/prometheus"
TABLE, RULES = PROMETHEUS / "objectives.yaml", PROMETHEUS / "rules/objectives.yaml"
LEAST = 3
"""Bad events in the long window below which nothing is told: one of two is half of all, and may be chance."""
CHANCE = 2
"""Standard deviations by which they are to exceed what is allowed: of few events, one too many is no rate."""
LOWEST, HIGHEST = 0.01, 0.9999
"""Bounds of a target; above, the `LEAST` bad events of an alert are more than a month's budget of 30 000 events."""
_TEXT = (r"(?!\s*$)[^'{}\\]+", "words without quote, brace or backslash")
_COUNTER = (
    r"[a-zA-Z_:][\w:]*(\{(?!.*(: | #))[^{}]*\})?",
    'a counter, or one with labels like documents_total{outcome="failed"}',
)
_SHAPES = {  # field of an objective, `name` for its key → (pattern of the whole, what that is)
    "name": (r"[a-z][a-z0-9_]*", "a name of small letters, digits and _"),
    "alert": (r"[A-Z][A-Za-z0-9]*", "a name like FirstSound"),
    "title": _TEXT,
    "bad": _TEXT,
    "all": _COUNTER,
    "good": _COUNTER,
}
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

    def pairs(self, burning: Burning) -> tuple[tuple[float, str, str], ...]:
        """Those pairs that can come true: no rate takes more of the budget than all events do."""
        return tuple(pair for pair in burning.pairs if pair[0] * float(self.budget) < 1)


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
    """Write the file; with --check only compare, exit code 1 for a difference, 2 for a table that cannot be used."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where the file differs from the table"
    )
    chosen = parser.parse_args(arguments)
    try:
        objectives = read(table)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    made = rules_of(objectives)
    if rules.exists() and rules.read_text(encoding="utf-8") == made:
        return 0
    if chosen.check:
        sys.stderr.write(f"{rules} differs from {table.name}: make objectives\n")
        return 1
    rules.write_text(made, encoding="utf-8")
    sys.stdout.writelines(f"{told}\n" for each in objectives for told in _silent(each))
    return 0


def read(table: Path) -> tuple[Objective, ...]:
    """The objectives of the table. Raises SettingsError with a sentence for each fault of it."""
    document = read_yaml(table)
    faults = [(each.line, each.text) for each in document.problems]
    entries = document.root.value
    if not isinstance(entries, dict) or not entries:
        faults.append((document.root.line, f"found {_found(document.root)}, expected objectives by their names"))
        entries = {}
    for name, entry in entries.items():
        faults += ((line, f"{name}{text}") for line, text in _faults(name, entry))
    alerts: dict[str, str] = {}
    for name, entry in entries.items():
        alert = entry.value.get("alert") if isinstance(entry.value, dict) else None
        if alert and isinstance(alert.value, str) and alerts.setdefault(alert.text, name) != name:
            said = f"{name}.alert: found {alert.text}, which {alerts[alert.text]} has; expected a name of its own"
            faults.append((alert.line, said))
    if faults:
        raise SettingsError(
            f"{table}:{line}: {text if text.isprintable() else ascii(text)}" for line, text in sorted(faults)
        )
    return tuple(Objective(name, **entry.plain()) for name, entry in entries.items())


def _faults(name: str, entry: YamlValue) -> Iterator[tuple[int, str]]:
    """Lines and faults of one objective; a fault begins with what follows the objective's name."""
    expected = [each.name for each in fields(Objective) if each.name != "name"]
    if not re.fullmatch(_SHAPES["name"][0], name):
        yield entry.line, f": found this key, expected {_SHAPES['name'][1]}"
    if not isinstance(entry.value, dict):
        yield entry.line, f": found {_found(entry)}, expected {', '.join(expected)}"
        return
    for key in expected:
        if key not in entry.value:
            yield entry.line, f".{key}: found nothing, expected {_expected(key)}"
    for key, value in entry.value.items():
        if key not in expected:
            yield value.line, f".{key}: found this key, expected {', '.join(expected)}"
        elif not _fits(key, value.value):
            yield value.line, f".{key}: found {_found(value)}, expected {_expected(key)}"


def _fits(key: str, value: object) -> bool:
    if key == "target":
        return isinstance(value, float) and LOWEST <= value <= HIGHEST  # an integer is beyond them
    return isinstance(value, str) and value.isprintable() and bool(re.fullmatch(_SHAPES[key][0], value))


def _expected(key: str) -> str:
    return f"a share from {LOWEST} to {HIGHEST}" if key == "target" else _SHAPES[key][1]


def _found(value: YamlValue) -> str:
    if isinstance(value.value, list | dict) and value.value:
        return value.kind()
    if isinstance(value.value, str):
        return f"the text {value.value!a}"
    return value.text or "nothing"


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
        *(f"      # {told}" for each in objectives for told in _silent(each)),
        *(line for each in objectives for burning in BURNING if each.pairs(burning) for line in _alert(each, burning)),
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


def _silent(objective: Objective) -> Iterator[str]:
    """A sentence for each alert that has no pair left."""
    for burning in BURNING:
        if not objective.pairs(burning):
            rate = min(rate for rate, _, _ in burning.pairs)
            what = f"{rate:g} times what {objective.target:.6g} allows is more than all events"
            yield f"{objective.alert}{burning.suffix} is left out: {what}."


def _record(objective: Objective, what: str, window: str, expr: str) -> Iterator[str]:
    yield f"      - record: {_name(what, window)}"
    yield f"        labels: {{objective: {objective.name}}}"
    yield f"        expr: {expr}"


def _alert(objective: Objective, burning: Burning) -> Iterator[str]:
    name = f"{objective.alert}{burning.suffix}"
    yield ""
    yield f"      - alert: {name}"
    yield "        expr: |"
    for number, (rate, long, short) in enumerate(objective.pairs(burning)):
        if number:
            yield "            or"
        yield f"          {_series(objective, 'burn', long)} > {rate:g}"
        yield f"            and {_series(objective, 'burn', short)} > {rate:g}"
        yield f"            and {_series(objective, 'bad', long)} > {LEAST - 0.5:g}"
        # allowed = bad * rate / burn, and bad - allowed > CHANCE * sqrt(allowed)
        excess = f"{_series(objective, 'bad', long)} * ({_series(objective, 'burn', long)} / {rate:g} - 1) ^ 2"
        yield f"            and {excess}"
        yield f"              > {CHANCE**2} / {rate:g} * {_series(objective, 'burn', long)}"
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
