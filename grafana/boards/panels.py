"""Panel types of the dashboards, each with title, description, unit and queries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TypeVar

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models

SOURCE = common.DataSourceRef(type_val="prometheus", uid="$datasource")
GREEN, AMBER, RED, GREY = "green", "orange", "red", "text"

_OF_EXPORTER = re.compile(r"voxyard_(gpu|exporter)_")
NOT_OF_DCGM = "Only voxyard's exporter tells it: empty with dcgm-exporter alone."

Panel = timeseries.Panel | stat.Panel | statetimeline.Panel | table.Panel
_Kind = TypeVar("_Kind", timeseries.Panel, stat.Panel, statetimeline.Panel, table.Panel)


@dataclass(frozen=True)
class Query:
    """PromQL query with its legend (in a table: its column)."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Level:
    """Threshold: colour of values from `value` on."""

    value: float
    color: str


@dataclass(frozen=True)
class Column:
    """Column of a table: title and display options."""

    name: str
    unit: str = ""
    levels: tuple[Level, ...] = ()
    link: str = ""
    states: Mapping[int, tuple[str, str]] | None = None


@dataclass(frozen=True)
class Row:
    """Row of panels with a title."""

    title: str
    panels: Sequence[Panel]


def time_series(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    width: int = 12,
    height: int = 8,
    top: float | None = None,
    bottom: float | None = 0,
    logarithmic: bool = False,
) -> timeseries.Panel:
    """Time series panel. Missing samples are gaps.

    Never stacked: a gap in one series would shift the series above it.
    """
    panel = _panel(timeseries.Panel(), title, description, unit, queries, (width, height))
    panel.span_nulls(False).line_width(1).fill_opacity(5).show_points(common.VisibilityMode.AUTO)
    panel.legend(_legend())
    panel.tooltip(
        common_builders.VizTooltipOptions()
        .mode(common.TooltipDisplayMode.MULTI)
        .sort(common.SortOrder.DESCENDING)
    )  # fmt: skip
    if bottom is not None and not logarithmic:
        panel.min(bottom)
    if top is not None:
        panel.max(top)
    if logarithmic:
        panel.scale_distribution(common_builders.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(10))
    return panel


def stat_panel(
    title: str,
    description: str,
    unit: str,
    query: Query,
    *levels: Level,
    width: int = 4,
    height: int = 4,
    decimals: int | None = None,
    nan: str = "",
) -> stat.Panel:
    """Stat panel with the current value, or the text `nan` where that is no number.

    An instant query: with a range query Grafana would show the last value, even of a run that ended hours ago.
    """
    panel = _panel(stat.Panel(), title, description, unit, (query,), (width, height), latest=True)
    panel.reduce_options(common_builders.ReduceDataOptions().calcs(["last"]).values(False))
    panel.graph_mode(common.BigValueGraphMode.NONE)
    panel.color_mode(common.BigValueColorMode.VALUE if levels else common.BigValueColorMode.NONE)
    panel.thresholds(_thresholds(levels))
    if decimals is not None:
        panel.decimals(decimals)
    if nan:
        told = models.ValueMappingResult(text=nan, color=GREY, index=0)
        special = models.DashboardSpecialValueMapOptions(match=models.SpecialValueMatch.NA_N, result=told)
        panel.mappings([models.SpecialValueMap(options=special)])
    return panel


def states(
    title: str,
    description: str,
    unit: str,
    query: Query,
    names: Mapping[int, tuple[str, str]],
    *,
    width: int = 12,
    height: int = 8,
) -> statetimeline.Panel:
    """State timeline panel; `names`: value → (name, colour)."""
    panel = _panel(statetimeline.Panel(), title, description, unit, (query,), (width, height))
    panel.mappings([_mapping(names)]).merge_values(True).row_height(0.8).show_value(common.VisibilityMode.NEVER)
    panel.color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
    panel.legend(_legend())
    return panel


def table_panel(
    title: str,
    description: str,
    unit: str,
    queries: Sequence[Query],
    columns: Mapping[str, Column],
    *,
    width: int = 24,
    height: int = 8,
    sort: str = "",
) -> table.Panel:
    """Table panel of current values: a row per label set, a column per label or query.

    `columns` in order, by label name or, for values, by the legend of the query.
    """
    panel = _panel(table.Panel(), title, description, unit, queries, (width, height), latest=True)
    letters = {query.legend: ascii_uppercase[at] for at, query in enumerate(queries)}
    fields = [f"Value #{letters[name]}" if name in letters else name for name in columns]
    if len(queries) == 1:
        fields = ["Value" if field == "Value #A" else field for field in fields]
    renamed = {field: column.name for field, column in zip(fields, columns.values(), strict=True)}
    order = {field: at for at, field in enumerate(fields)}
    if len(queries) > 1:
        panel.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    # Named columns only: a new label does not add a column.
    panel.with_transformation(
        models.DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"names": fields}})
    )
    panel.with_transformation(
        models.DataTransformerConfig(
            id_val="organize", options={"excludeByName": {}, "indexByName": order, "renameByName": renamed}
        )
    )
    for column in columns.values():
        properties = _properties(column)
        if properties:
            panel.override_by_name(column.name, properties)
    if sort:
        panel.sort_by([common_builders.TableSortByFieldState().display_name(sort).desc(True)])
    return panel


def _panel(
    panel: _Kind,
    title: str,
    description: str,
    unit: str,
    queries: Sequence[Query],
    size: tuple[int, int],
    *,
    latest: bool = False,
) -> _Kind:
    if only_of_exporter(*(query.expr for query in queries)):
        description = f"{description} {NOT_OF_DCGM}"
    panel.title(title).description(description).unit(unit).datasource(SOURCE).span(size[0]).height(size[1])
    for letter, query in zip(ascii_uppercase, queries, strict=False):
        target = prometheus.Dataquery().datasource(SOURCE).ref_id(letter).expr(query.expr).legend_format(query.legend)
        if latest:
            target.instant()
        else:
            target.range()
        if isinstance(panel, table.Panel):
            target.format(prometheus_models.PromQueryFormat.TABLE)
        panel.with_target(target)
    return panel


def only_of_exporter(*queries: str) -> bool:
    """True where each query reads a metric of our exporter that no rule makes from dcgm-exporter's."""
    return all(_OF_EXPORTER.search(query) for query in queries)


def _legend() -> common_builders.VizLegendOptions:
    legend = common_builders.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST)
    return legend.placement(common.LegendPlacement.BOTTOM).show_legend(True)


def _properties(column: Column) -> list[models.DynamicConfigValue]:
    found = []
    if column.unit:
        found.append(models.DynamicConfigValue(id_val="unit", value=column.unit))
    if column.levels:
        thresholds = _thresholds(column.levels).build()
        found.append(models.DynamicConfigValue(id_val="thresholds", value=thresholds))
    if column.states:
        found.append(models.DynamicConfigValue(id_val="mappings", value=[_mapping(column.states)]))
    if column.levels or column.states:
        kind = {"type": "color-text"}
        found.append(models.DynamicConfigValue(id_val="custom.cellOptions", value=kind))
    if column.link:
        link = {"title": "GPU detail", "url": column.link}
        found.append(models.DynamicConfigValue(id_val="links", value=[link]))
    return found


def _thresholds(levels: Sequence[Level]) -> dashboard.ThresholdsConfig:
    steps = [models.Threshold(value=None, color=GREEN if levels else GREY)]
    for level in levels:
        if level.value == float("-inf"):
            steps[0] = models.Threshold(value=None, color=level.color)
        else:
            steps.append(models.Threshold(value=level.value, color=level.color))
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _mapping(names: Mapping[int, tuple[str, str]]) -> models.ValueMap:
    return models.ValueMap(
        options={
            str(value): models.ValueMappingResult(text=text, color=color, index=at)
            for at, (value, (text, color)) in enumerate(names.items())
        }
    )
