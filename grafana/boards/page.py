"""Self-contained HTML page of dashboard panels, with data of a Prometheus."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from boards import pictures
from boards.document import Document, Panel, Target
from boards.pictures import Curve, Moment, Window
from boards.prometheus import Prometheus, Series
from boards.promql import expanded
from boards.units import format_value

STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 0 auto; max-width: 1500px; padding: 0 16px 48px; color: #1f2328;
  background: #f4f5f7; }
nav { position: sticky; top: 0; background: #f4f5f7; padding: 10px 0; z-index: 1; }
nav a { margin-right: 16px; }
h1 { font-size: 24px; margin: 32px 0 0; } h2 { font-size: 16px; margin: 24px 0 8px; }
.grid24 { display: grid; grid-template-columns: repeat(24, 1fr); gap: 8px; }
figure { margin: 0; background: #fff; border: 1px solid #d8dbe0; border-radius: 4px; padding: 8px 10px; min-width: 0;
  overflow-x: auto; }
figcaption b { display: block; } figcaption span { color: #5b626c; font-size: 12px; }
svg { width: 100%; height: auto; display: block; } svg text { font-size: 10px; fill: #5b626c; }
svg .grid { stroke: #e6e8eb; }
.legend { list-style: none; margin: 4px 0 0; padding: 0; font-size: 11px; columns: 260px auto; }
.legend i { display: inline-block; width: 9px; height: 9px; margin-right: 5px; border-radius: 2px; }
.number { font-size: 30px; font-weight: 600; } .nothing { color: #8a8f98; }
table { border-collapse: collapse; width: 100%; font-size: 12px; }
th, td { text-align: left; padding: 3px 8px; border-bottom: 1px solid #e6e8eb; white-space: nowrap; }
@media (max-width: 800px) { figure { grid-column: 1 / -1 !important; } }
"""


@dataclass(frozen=True)
class View:
    """Data source, time range and variable values of a page."""

    prometheus: Prometheus
    window: Window
    values: Mapping[str, str]

    def between(self, expr: str) -> tuple[Series, ...]:
        """Result of a range query over the window."""
        return self.prometheus.between(
            expanded(expr, self.values), self.window.start, self.window.end, self.window.step
        )

    def latest(self, expr: str) -> tuple[Series, ...]:
        """Result of an instant query at the end of the window."""
        return self.prometheus.instant(expanded(expr, self.values), self.window.end)


@dataclass(frozen=True)
class _Sketch:
    panel: Panel
    moments: tuple[Moment, ...]
    view: View
    size: tuple[int, int]


def page(boards: Sequence[Document], view: View) -> str:
    """HTML of the page. Raises PrometheusError where a query fails."""
    times = [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) for at in (view.window.start, view.window.end)]
    links = "".join(f'<a href="#{escape(board.body["uid"])}">{escape(board.title)}</a>' for board in boards)
    sections = "".join(_section(board, view) for board in boards)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>voxyard dashboards</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><nav>{links}<small>{times[0]} – {times[1]}</small></nav>{sections}</body></html>\n"
    )


def _section(board: Document, view: View) -> str:
    moments = tuple(moment for annotation in board.annotations for moment in _moments(annotation, view))
    rows = "".join(
        f'<h2>{escape(title)}</h2><div class="grid24">{"".join(_figure(each, moments, view) for each in panels)}</div>'
        for title, panels in board.rows
    )
    description = escape(str(board.body.get("description", "")))
    return f'<section id="{board.body["uid"]}"><h1>{escape(board.title)}</h1><p>{description}</p>{rows}</section>'


def _figure(panel: Panel, moments: Sequence[Moment], view: View) -> str:
    place = panel.body["gridPos"]
    size = (int(place["w"] * 58), max(60, int(place["h"] * 27)))
    drawn = _DRAWN[panel.kind](_Sketch(panel, tuple(moments), view, size))
    caption = f"<b>{escape(panel.title)}</b><span>{escape(panel.body['description'])}</span>"
    return f'<figure style="grid-column: span {place["w"]}"><figcaption>{caption}</figcaption>{drawn}</figure>'


def _moments(annotation: Mapping[str, Any], view: View) -> list[Moment]:
    found = []
    for series in view.between(annotation["expr"]):
        text = f"{_named(annotation['titleFormat'], series.labels)}: {_named(annotation['textFormat'], series.labels)}"
        before = -math.inf
        for at, _ in series.points:
            if at - before > 1.5 * view.window.step:
                found.append(Moment(at, text, annotation["iconColor"]))
            before = at
    return found


def _lines(sketch: _Sketch) -> str:
    defaults = sketch.panel.body["fieldConfig"]["defaults"]
    custom = defaults.get("custom", {})
    curves = _curves(sketch.panel.targets, sketch.view)
    return pictures.lines(
        curves, sketch.moments, sketch.view.window, sketch.panel.unit, size=sketch.size,
        bottom=defaults.get("min"), top=defaults.get("max"),
        logarithmic=custom.get("scaleDistribution", {}).get("type") == "log",
    )  # fmt: skip


def _states(sketch: _Sketch) -> str:
    return pictures.states(
        _curves(sketch.panel.targets, sketch.view),
        sketch.moments,
        sketch.view.window,
        _states_of(sketch.panel.body),
        size=sketch.size,
    )


def _number(sketch: _Sketch) -> str:
    found = [series for target in sketch.panel.targets for series in sketch.view.latest(target.expr)]
    if not found:
        return '<p class="nothing">No data</p>'
    value = found[0].points[0][1]
    defaults = sketch.panel.body["fieldConfig"]["defaults"]
    color = _color(value, defaults.get("thresholds", {}).get("steps", ()))
    text = next((each["options"]["result"]["text"] for each in defaults.get("mappings", ()) if math.isnan(value)), None)
    text = escape(text or format_value(value, sketch.panel.unit, defaults.get("decimals")))
    return f'<div class="number" style="color:{color}">{text}</div>'


def _table(sketch: _Sketch) -> str:
    rows = _merged(sketch.panel.targets, sketch.view)
    renamed = next(each for each in sketch.panel.body["transformations"] if each["id"] == "organize")["options"]
    fields = sorted(renamed["renameByName"], key=lambda field: renamed["indexByName"][field])
    if not rows:
        return '<p class="nothing">No data</p>'
    names = [renamed["renameByName"][field] for field in fields]
    overrides = {
        each["matcher"]["options"]: {one["id"]: one["value"] for one in each["properties"]}
        for each in sketch.panel.body["fieldConfig"].get("overrides", ())
    }
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = []
    rows = sorted(rows, key=lambda row: [str(row.get(field, "")) for field in fields])
    for by in sketch.panel.body["options"].get("sortBy", ()):  # as Grafana sorts: rows without a value are last
        (field,) = (field for field in fields if renamed["renameByName"][field] == by["displayName"])
        rows.sort(key=lambda row: float(row.get(field, "-inf")), reverse=by["desc"])
    for row in rows:
        cells = (
            _cell(row.get(field), sketch.panel.unit, overrides.get(name, {}))
            for field, name in zip(fields, names, strict=True)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _cell(value: str | float | None, unit: str, override: Mapping[str, Any]) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    names = _names_of(override.get("mappings", ()))
    if f"{value:g}" in names:
        text, color = names[f"{value:g}"]
        return f'<td style="color:{pictures.NAMED.get(color, color)}">{escape(text)}</td>'
    color = _color(value, override.get("thresholds", {}).get("steps", ()))
    return f'<td style="color:{color}">{escape(format_value(value, override.get("unit", unit)))}</td>'


def _merged(targets: Sequence[Target], view: View) -> list[dict[str, str | float]]:
    """Rows as in Grafana's transformation `merge`: rows that agree in all shared labels are joined."""
    rows: list[dict[str, str | float]] = []
    for target in targets:
        field = "Value" if len(targets) == 1 else f"Value #{target.letter}"
        fresh = []
        for series in view.latest(target.expr):
            fits = [row for row in rows if all(row.get(name, text) == text for name, text in series.labels.items())]
            mine: dict[str, str | float] = {**series.labels, field: series.points[0][1]}
            if fits and field not in fits[0]:
                for row in fits:
                    row.update(mine)
            else:
                fresh.append(mine)
        rows += fresh
    return rows


def _curves(targets: Sequence[Target], view: View) -> list[Curve]:
    return [
        Curve(_named(target.legend, series.labels), series.points)
        for target in targets
        for series in view.between(target.expr)
        if series.points
    ]


def _named(pattern: str, labels: Mapping[str, str]) -> str:
    return " ".join(re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: labels.get(found[1], ""), pattern).split())


def _states_of(body: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return _names_of(body["fieldConfig"]["defaults"].get("mappings", ()))


def _names_of(mappings: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    return {value: (each["text"], each["color"]) for mapping in mappings for value, each in mapping["options"].items()}


def _color(value: float, steps: Sequence[Mapping[str, Any]]) -> str:
    passed = [step["color"] for step in steps if step.get("value") is None or value >= step["value"]]
    return pictures.NAMED.get(passed[-1], passed[-1]) if passed and passed[-1] != "text" else "inherit"


_DRAWN = {"timeseries": _lines, "state-timeline": _states, "stat": _number, "table": _table}
