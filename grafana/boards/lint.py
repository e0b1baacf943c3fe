"""Dashboard lint: the rules of Grafana's dashboard-linter and our own, one function per rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from boards.document import Document, Panel, Target, label_values, query_of
from boards.layout import ALL
from boards.promql import Selector, selectors, variables

UNITS = frozenset({
    "none", "short", "percentunit", "celsius", "hertz", "watt", "bytes", "Bps", "s", "ops", "cps", "reqps", "sci",
    "dateTimeAsLocal", "kwatth", "h", "joule",
})  # fmt: skip
"""Grafana units for our metrics: base units, ratios from 0 to 1."""

_RATES = {"rate", "irate", "increase"}
_KNOWN = {"datasource", "__rate_interval", "__interval", "__range"}


@dataclass(frozen=True)
class Finding:
    """Violation of a rule."""

    rule: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.where}: {self.what}"


@dataclass(frozen=True)
class Exclusion:
    """Exception from a rule for a metric (or a panel title), with the reason."""

    rule: str
    of: str
    reason: str


EXCLUSIONS = (
    Exclusion("target-job-rule", "ALERTS", "an alert about several jobs has no job: an empty one is let through"),
    Exclusion("target-instance-rule", "ALERTS", "an alert about no one host has none: an empty one is let through"),
    Exclusion(
        "target-job-rule", "voxyard:workload_answering:count",
        "it counts what a workload tells under several jobs, and has no job itself",
    ),
    *(
        Exclusion(
            "target-job-rule", f"voxyard:{rule}",
            "it joins what the exporter tells of a GPU with what a workload tells, and is of neither's job",
        )
        for rule in ("gpu_energy:kwh7d", "gpu_paid:hours7d", "gpu_idle:hours7d")
    ),
    Exclusion("target-job-rule", "voxyard:cause:rank", "a cause follows from what several jobs tell of a GPU"),
    Exclusion(
        "target-job-rule", "voxyard:configuration_drift:bool",
        "it compares what a workload tells with what the exporter tells, and is of neither's job",
    ),
    Exclusion(
        "target-counter-agg-rule", "voxyard_gpu_xid_errors_total",
        "a table of how many there were: the counter is born with its first error, so that a rate would not see that",
    ),
    Exclusion(
        "target-counter-agg-rule", "voxyard_gpu_ecc_errors_total",
        "a table of how many there are since the driver was loaded, or in the card's life; a graph has the rate",
    ),
    Exclusion(
        "target-counter-agg-rule", "voxyard_bark_chunk_failures_total",
        "a reason is born with its first failure, so that a rate would not see that; a graph beside it has the rate",
    ),
)  # fmt: skip

UNUSED: dict[str, str] = {
    "voxyard_train_host_index": "for queries by hand: which host of a run a target is",
    "voxyard_train_reads_in_flight": "for queries by hand, beside the age of the oldest read, which rules look at",
}
"""Exported metrics that no panel and no alert uses on purpose, with the reason."""

Rule = Callable[[Document], Iterator[tuple[str, str]]]
"""Yields (where, what) for each violation; `where` of a selector is its metric."""


def findings(board: Document) -> tuple[Finding, ...]:
    """Violations in a dashboard, without excluded ones."""
    excluded = {(each.rule, each.of) for each in EXCLUSIONS}
    return tuple(
        Finding(rule, f"{board.title}, {where}", what)
        for rule, check in RULES.items()
        for where, what in check(board)
        if (rule, where.rpartition(": ")[2]) not in excluded
    )


def used_exclusions(board: Document) -> set[tuple[str, str]]:
    """(rule, metric) of the exclusions that suppress a finding."""
    excluded = {(each.rule, each.of) for each in EXCLUSIONS}
    found = {(rule, where.rpartition(": ")[2]) for rule, check in RULES.items() for where, _ in check(board)}
    return excluded & found


def _template(name: str, label: str) -> Rule:
    def check(board: Document) -> Iterator[tuple[str, str]]:
        found = [each for each in board.variables if each["name"] == name]
        if len(found) != 1:
            yield name, f"expected one variable {name}, found {len(found)}"
            return
        wanted = {"type": "query", "label": label, "multi": True, "includeAll": True, "allValue": ALL.get(name, ".+")}
        for key, value in wanted.items():
            if found[0].get(key) != value:
                yield name, f"{key}: expected {value!r}, found {found[0].get(key)!r}"
        if found[0].get("datasource", {}).get("uid") != "$datasource":
            yield name, "does not ask $datasource"

    return check


def _template_datasource(board: Document) -> Iterator[tuple[str, str]]:
    found = [each for each in board.variables if each["type"] == "datasource"]
    if [(each["name"], each.get("label"), each.get("query")) for each in found] != [
        ("datasource", "Data source", "prometheus")
    ]:
        yield "datasource", "expected one variable `datasource`, labelled `Data source`, of the type prometheus"


def _template_label_promql(board: Document) -> Iterator[tuple[str, str]]:
    for variable in board.variables:
        if variable["type"] == "query":
            try:
                selector, _ = label_values(query_of(variable))
                if len(selectors(selector)) != 1:
                    yield variable["name"], f"expected one selector, found {selector}"
            except ValueError as error:
                yield variable["name"], str(error)


def _template_on_time_change(board: Document) -> Iterator[tuple[str, str]]:
    for variable in board.variables:
        if variable["type"] == "query" and variable.get("refresh") != 2:
            yield variable["name"], "is not asked again when the time range changes (refresh: 2)"


def _template_used(board: Document) -> Iterator[tuple[str, str]]:
    texts = [target.expr for _, target in _targets(board)]
    texts += [each["expr"] for each in board.annotations]
    texts += [query_of(each) for each in board.variables if each["type"] == "query"]
    used = set().union(*(variables(text) for text in texts))
    defined = {each["name"] for each in board.variables}
    for name in sorted(defined - used - {"datasource"}):
        yield name, "no query uses this variable"
    for name in sorted(used - defined - _KNOWN):
        yield name, "a query uses a variable that is not there"


def _panel_datasource(board: Document) -> Iterator[tuple[str, str]]:
    for panel in board.panels:
        for each in (panel.body, *panel.body.get("targets", ())):
            if each.get("datasource", {}).get("uid") != "$datasource":
                yield f"panel {panel.title}", "does not ask $datasource"


def _panel_title_description(board: Document) -> Iterator[tuple[str, str]]:
    for panel in board.panels:
        if not panel.title.strip():
            yield f"panel {panel.body.get('id')}", "has no title"
        if len(panel.body.get("description", "").split()) < 2:
            yield f"panel {panel.title}", "has no description"


def _panel_units(board: Document) -> Iterator[tuple[str, str]]:
    for panel in board.panels:
        if panel.unit not in UNITS:
            yield f"panel {panel.title}", f"unit {panel.unit!r} is none of {', '.join(sorted(UNITS))}"
        for override in panel.body["fieldConfig"].get("overrides", ()):
            for each in override["properties"]:
                if each["id"] == "unit" and each["value"] not in UNITS:
                    yield f"panel {panel.title}", f"unit {each['value']!r} of a column"


def _panel_no_targets(board: Document) -> Iterator[tuple[str, str]]:
    for panel in board.panels:
        if not panel.targets:
            yield f"panel {panel.title}", "asks nothing"


def _panel_gaps(board: Document) -> Iterator[tuple[str, str]]:
    for panel in board.panels:
        if panel.body["fieldConfig"]["defaults"].get("custom", {}).get("spanNulls", False) is not False:
            yield f"panel {panel.title}", "draws lines over gaps (spanNulls)"
        if panel.body["fieldConfig"]["defaults"].get("noValue") is not None:
            yield f"panel {panel.title}", "shows something where there is no value (noValue)"


def _panel_now(board: Document) -> Iterator[tuple[str, str]]:
    for panel, target in _targets(board):
        if panel.kind in ("stat", "table") and not target.instant:
            yield f"panel {panel.title}", "shows the last value that there was as if it were of now (range query)"


def _target_promql(board: Document) -> Iterator[tuple[str, str]]:
    for panel, target in _targets(board):
        try:
            if not selectors(target.expr):
                yield f"panel {panel.title}", f"reads no metric: {target.expr!r}"
        except ValueError as error:
            yield f"panel {panel.title}", str(error)


def _target_truth(board: Document) -> Iterator[tuple[str, str]]:
    for panel, target in _targets(board):
        for selector in _readable(target):
            if "vector" in selector.calls or selector.metric in ("vector", "absent"):
                yield f"panel {panel.title}", "makes up values with vector()"
        if "vector(" in target.expr.replace(" ", "") or "absent(" in target.expr.replace(" ", ""):
            yield f"panel {panel.title}", "makes up values"


def _target_rate_interval(board: Document) -> Iterator[tuple[str, str]]:
    for panel, selector in _selectors(board):
        rated = selector.range is not None and selector.calls[:1] and selector.calls[0] in _RATES
        if rated and selector.range != "$__rate_interval":
            yield f"panel {panel.title}: {selector.metric}", f"a rate over [{selector.range}], not $__rate_interval"


def _target_matcher(label: str) -> Rule:
    def check(board: Document) -> Iterator[tuple[str, str]]:
        for panel, selector in _selectors(board):
            if (label, "=~", f"${label}") not in selector.matchers:
                yield f"panel {panel.title}: {selector.metric}", f'has no {label}=~"${label}"'

    return check


def _target_counter_agg(board: Document) -> Iterator[tuple[str, str]]:
    for panel, selector in _selectors(board):
        counts = selector.metric.endswith(("_total", "_sum", "_count", "_bucket")) and ":" not in selector.metric
        if counts and (selector.range is None or selector.calls[:1] == () or selector.calls[0] not in _RATES):
            yield f"panel {panel.title}: {selector.metric}", "a counter without rate, irate or increase"


def _target_histogram(board: Document) -> Iterator[tuple[str, str]]:
    for panel, selector in _selectors(board):
        if selector.metric.endswith("_bucket") and "histogram_quantile" not in selector.calls:
            yield f"panel {panel.title}: {selector.metric}", "buckets outside histogram_quantile"


def _target_optional(board: Document) -> Iterator[tuple[str, str]]:
    # An optional matcher must still use the variable.
    for panel, selector in _selectors(board):
        if selector.metric == "ALERTS":
            for label in ("job", "instance"):
                if (label, "=~", f"(${label})?") not in selector.matchers:
                    yield f"panel {panel.title}: {selector.metric}", f'has no {label}=~"(${label})?"'


def _uneditable(board: Document) -> Iterator[tuple[str, str]]:
    if board.body.get("editable") is not False:
        yield "dashboard", "can be edited in Grafana, where the change would be lost"


def _identity(board: Document) -> Iterator[tuple[str, str]]:
    if not str(board.body.get("uid", "")).startswith("voxyard-"):
        yield "dashboard", "has no uid of its own: links would break"
    numbers = [panel.body.get("id") for panel in board.panels]
    if len(set(numbers)) != len(numbers) or not all(numbers):
        yield "dashboard", "panels share an id"
    titles = [(row, panel.title) for row, panels in board.rows for panel in panels]
    for row, title in sorted({each for each in titles if titles.count(each) > 1}):
        yield f"panel {title}", f"there are several in the row {row}"


def _targets(board: Document) -> Iterator[tuple[Panel, Target]]:
    return ((panel, target) for panel in board.panels for target in panel.targets)


def _readable(target: Target) -> tuple[Selector, ...]:
    try:
        return selectors(target.expr)
    except ValueError:
        return ()  # reported by target-promql-rule


def _selectors(board: Document) -> Iterator[tuple[Panel, Selector]]:
    return ((panel, selector) for panel, target in _targets(board) for selector in _readable(target))


RULES: dict[str, Rule] = {
    "template-datasource-rule": _template_datasource,
    "template-cluster-rule": _template("cluster", "Cluster"),
    "template-job-rule": _template("job", "Job"),
    "template-instance-rule": _template("instance", "Instance"),
    "template-label-promql-rule": _template_label_promql,
    "template-on-time-change-reload-rule": _template_on_time_change,
    "template-used-rule": _template_used,
    "panel-datasource-rule": _panel_datasource,
    "panel-title-description-rule": _panel_title_description,
    "panel-units-rule": _panel_units,
    "panel-no-targets-rule": _panel_no_targets,
    "panel-gaps-rule": _panel_gaps,
    "panel-now-rule": _panel_now,
    "target-promql-rule": _target_promql,
    "target-truth-rule": _target_truth,
    "target-rate-interval-rule": _target_rate_interval,
    "target-cluster-rule": _target_matcher("cluster"),
    "target-job-rule": _target_matcher("job"),
    "target-instance-rule": _target_matcher("instance"),
    "target-optional-matcher-rule": _target_optional,
    "target-counter-agg-rule": _target_counter_agg,
    "target-histogram-rule": _target_histogram,
    "uneditable-dashboard-rule": _uneditable,
    "identity-rule": _identity,
}
