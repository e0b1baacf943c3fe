"""Common layout of all dashboards: variables, links, annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from boards import queries
from boards.panels import SOURCE, Row

FLEET, GPU, TRAINING, BARK = "voxyard-fleet", "voxyard-gpu", "voxyard-training", "voxyard-bark"
TITLES = {FLEET: "Fleet", GPU: "GPU detail", TRAINING: "Training", BARK: "Bark"}
TAG = "voxyard"
ALL = {"cluster": ".*"}
"""What `All` stands for where a series may lack the label."""

NO_NUMBERS: Mapping[str, str] = MappingProxyType({})
_LABELS = {"cluster": "Cluster", "job": "Job", "instance": "Instance", "gpu": "GPU", "run": "Run"}


def build_dashboard(
    uid: str, description: str, rows: Sequence[Row], values: dict[str, str], numbers: Mapping[str, str] = NO_NUMBERS
) -> models.Dashboard:
    """Build a dashboard of panels in rows; `values` are the queries of its variables by name.

    `numbers` are labels of variables that its reader types in, 0 at first.
    """
    board = dashboard.Dashboard(f"voxyard / {TITLES[uid]}").uid(uid).description(description).tags([TAG]).readonly()
    board.time("now-3h", "now").refresh("30s").timezone("browser").tooltip(models.DashboardCursorSync.CROSSHAIR)
    board.with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    for name, query in {"cluster": queries.CLUSTERS, **values}.items():
        board.with_variable(_variable(name, query))
    for name, label in numbers.items():
        board.with_variable(dashboard.TextBoxVariable(name).label(label).default_value("0"))
    for other in TITLES:
        if other != uid:
            board.link(_link(other, values))
    for annotation in _annotations("run" in values):
        board.annotation(annotation)
    number = 0
    for row in rows:
        number += 1
        board.with_row(dashboard.Row(row.title).id(number))
        for panel in row.panels:
            number += 1
            board.with_panel(panel.id(number))
    return board.build()


def _variable(name: str, query: str) -> dashboard.QueryVariable:
    variable = dashboard.QueryVariable(name).label(_LABELS[name]).datasource(SOURCE)
    variable.query({"query": query, "refId": f"variable-{name}"}).definition(query)
    variable.multi(True).include_all(True).all_value(ALL.get(name, ".+")).sort(models.VariableSort.NATURAL_ASC)
    variable.current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    return variable.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)


def _link(uid: str, values: dict[str, str]) -> dashboard.DashboardLink:
    # Without the job: exporter and trainer of one host are different jobs.
    kept = [
        name
        for name in ("datasource", "cluster", "instance", "gpu", "run")
        if name in ("datasource", "cluster") or name in values
    ]
    query = "&".join(f"${{{name}:queryparam}}" for name in kept)
    link = dashboard.DashboardLink(TITLES[uid]).type(models.DashboardLinkType.LINK).url(f"/d/{uid}?{query}")
    return link.icon("dashboard").tooltip(f"{TITLES[uid]}, of the same hosts and the same time").keep_time(True)


def _annotations(by_run: bool) -> list[dashboard.AnnotationQuery]:
    active = queries.run("train_active") if by_run else queries.host("train_active")
    before = f"{active} offset $__interval"
    return [
        _annotation(
            "Runs started", "green", f"({active} == 1) unless ({before} == 1)",
            "Training started", "{{run}} on {{instance}}", "run",
        ),
        # The series of a killed run disappears: both ways to end show as no longer 1.
        _annotation(
            "Runs ended", "blue", f"({before} == 1) unless ({active} == 1)",
            "Training ended", "{{run}} on {{instance}}", "run",
        ),
        _annotation(
            "Alerts", "red", queries.alerts('alertname!="Watchdog"'),
            "{{alertname}}", "{{severity}}: {{instance}} {{gpu}} {{run}}", "severity",
        ),
    ]  # fmt: skip


def _annotation(name: str, color: str, expr: str, title: str, text: str, tags: str) -> dashboard.AnnotationQuery:
    annotation = dashboard.AnnotationQuery().name(name).datasource(SOURCE).enable(True).icon_color(color)
    return annotation.expr(expr).title_format(title).text_format(text).tag_keys(tags).step("15s")
