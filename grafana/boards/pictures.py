"""SVG charts of the preview: time series with gaps, state timelines."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from boards.units import format_value

COLORS = (
    "#3274d9", "#e0812d", "#299c46", "#b14ad1", "#d44a3a", "#1aa3a3", "#b8960c", "#6f6fd1", "#c2528b", "#5a8a1f",
    "#8a5a2b", "#4b6b8a",
)  # fmt: skip
NAMED = {
    "green": "#299c46", "yellow": "#e0b400", "orange": "#e0812d", "dark-orange": "#a85a14", "light-red": "#f28b82",
    "red": "#d44a3a", "dark-red": "#7f1d1d", "blue": "#3274d9", "purple": "#8f5bd0", "text": "#8a8f98",
}  # fmt: skip
"""Grafana's names of the colors that the dashboards use."""
LEFT, RIGHT, TOP, BOTTOM = 72, 10, 8, 20
MOST_LEGENDS = 12


@dataclass(frozen=True)
class Curve:
    """Named series of (Unix time, value)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Moment:
    """Annotation: a vertical line."""

    at: float
    text: str
    color: str


@dataclass(frozen=True)
class Window:
    """Time range in Unix seconds; points more than 1.5 steps apart have a gap between them."""

    start: float
    end: float
    step: float


def lines(
    curves: Sequence[Curve],
    moments: Sequence[Moment],
    window: Window,
    unit: str,
    *,
    size: tuple[int, int] = (600, 220),
    bottom: float | None = None,
    top: float | None = None,
    logarithmic: bool = False,
) -> str:
    """SVG of all series, with a legend."""
    finite = [value for curve in curves for _, value in curve.points if math.isfinite(value)]
    if not finite:
        return _nothing(size)
    if logarithmic:
        finite = [value for value in finite if value > 0] or [1.0]
    low = min(finite) if bottom is None else min(bottom, *finite)
    high = max(finite) if top is None else max(top, *finite)
    if high <= low:
        low, high = low - (abs(low) or 1) * 0.1 * (bottom is None), high + (abs(high) or 1) * 0.1
    scale = _Scale(window, low, high, size, logarithmic)
    parts = [_grid(scale, unit), _moments(moments, scale)]
    for at, curve in enumerate(curves):
        parts.append(_curve(curve, scale, COLORS[at % len(COLORS)]))
    return _svg(parts, size) + _legend(curves, unit)


def states(
    curves: Sequence[Curve],
    moments: Sequence[Moment],
    window: Window,
    names: Mapping[str, tuple[str, str]],
    *,
    size: tuple[int, int] = (600, 220),
) -> str:
    """SVG bar per series, coloured by state; empty where not measured."""
    if not curves:
        return _nothing(size)
    height = max(12, min(26, (size[1] - TOP - BOTTOM) // len(curves)))
    size = (size[0], TOP + BOTTOM + height * len(curves))
    left = min(280, 12 + 6 * max(len(curve.name) for curve in curves))
    scale = _Scale(window, 0, 1, size, False, left)
    parts = []
    for row, curve in enumerate(curves):
        y = TOP + row * height
        parts.append(f'<text x="{left - 6}" y="{y + height - 4}" text-anchor="end">{escape(curve.name)}</text>')
        for start, end, value in _spans(curve, window.step):
            color = NAMED.get(names.get(f"{value:g}", ("", "text"))[1], "#8a8f98")
            width = max(scale.x(end) - scale.x(start), 1)
            parts.append(
                f'<rect x="{scale.x(start):.1f}" y="{y + 1}" width="{width:.1f}" height="{height - 3}" fill="{color}"/>'
            )
    parts += [_times(scale), _moments(moments, scale)]
    keys = "".join(f"<li>{_dot(NAMED.get(color, '#8a8f98'))}{escape(text)}</li>" for text, color in names.values())
    return _svg(parts, size) + f'<ul class="legend">{keys}</ul>'


class _Scale:
    def __init__(
        self, window: Window, low: float, high: float, size: tuple[int, int], logarithmic: bool,
        left: int = LEFT,
    ) -> None:  # fmt: skip
        self.window, self.low, self.high, self.logarithmic, self.left = window, low, high, logarithmic, left
        self.width = size[0] - left - RIGHT
        self.height = size[1] - TOP - BOTTOM
        self.top = TOP

    def x(self, moment: float) -> float:
        share = (moment - self.window.start) / (self.window.end - self.window.start)
        return self.left + self.width * min(max(share, 0), 1)

    def y(self, value: float) -> float:
        if self.logarithmic:
            low, high = math.log10(self.low), math.log10(self.high)
            share = (math.log10(max(value, self.low)) - low) / ((high - low) or 1)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.top + self.height * (1 - share)

    def ticks(self, unit: str) -> list[float]:
        if self.logarithmic:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            return [10.0**each for each in decades if self.low <= 10.0**each <= self.high]
        raw = (self.high - self.low) / 4
        power = 1024 ** max(0, int(math.log(raw, 1024))) if unit == "bytes" else 1
        step = _round_up(raw / power) * power
        first = math.ceil(self.low / step - 1e-9)
        return [step * each for each in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _round_up(value: float) -> float:
    decade: float = 10 ** math.floor(math.log10(value))
    return next(decade * each for each in (1, 2, 2.5, 5, 10) if decade * each >= value)


def _curve(curve: Curve, scale: _Scale, color: str) -> str:
    parts = []
    for run in _runs(curve.points, scale.window.step):
        if len(run) == 1:
            parts.append(f'<circle cx="{scale.x(run[0][0]):.1f}" cy="{scale.y(run[0][1]):.1f}" r="2" fill="{color}"/>')
        else:
            path = " ".join(f"{scale.x(at):.1f},{scale.y(value):.1f}" for at, value in run)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.4"/>')
    return "".join(parts)


def _runs(points: Sequence[tuple[float, float]], step: float) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = []
    for at, value in points:
        if not math.isfinite(value):
            runs.append([])
        elif runs and runs[-1] and at - runs[-1][-1][0] <= 1.5 * step:
            runs[-1].append((at, value))
        else:
            runs.append([(at, value)])
    return [run for run in runs if run]


def _spans(curve: Curve, step: float) -> list[tuple[float, float, float]]:
    spans: list[tuple[float, float, float]] = []
    for at, value in curve.points:
        if spans and spans[-1][2] == value and at - spans[-1][1] <= 0.5 * step:
            spans[-1] = (spans[-1][0], at + step, value)
        else:
            spans.append((at, at + step, value))
    return spans


def _grid(scale: _Scale, unit: str) -> str:
    parts = []
    for tick in scale.ticks(unit):
        y = scale.y(tick)
        parts.append(
            f'<line x1="{scale.left}" x2="{scale.left + scale.width}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        )
        parts.append(
            f'<text x="{scale.left - 6}" y="{y + 3:.1f}" text-anchor="end">{escape(format_value(tick, unit))}</text>'
        )
    return "".join(parts) + _times(scale)


def _times(scale: _Scale) -> str:
    parts = []
    for number in range(5):
        moment = scale.window.start + (scale.window.end - scale.window.start) * number / 4
        text = time.strftime(
            "%H:%M:%S" if scale.window.end - scale.window.start < 1800 else "%H:%M", time.localtime(moment)
        )
        anchor = ("start", "middle", "middle", "middle", "end")[number]
        y = scale.top + scale.height + 14
        parts.append(f'<text x="{scale.x(moment):.1f}" y="{y}" text-anchor="{anchor}">{text}</text>')
    return "".join(parts)


def _moments(moments: Sequence[Moment], scale: _Scale) -> str:
    return "".join(
        f'<line x1="{scale.x(each.at):.1f}" x2="{scale.x(each.at):.1f}" y1="{scale.top}" '
        f'y2="{scale.top + scale.height}" stroke="{NAMED.get(each.color, each.color)}" stroke-dasharray="3 3">'
        f"<title>{escape(each.text)}</title></line>"
        for each in moments
    )


def _legend(curves: Sequence[Curve], unit: str) -> str:
    keys = [
        f"<li>{_dot(COLORS[at % len(COLORS)])}{escape(curve.name)} "
        f"<b>{escape(format_value(curve.points[-1][1], unit))}</b></li>"
        for at, curve in enumerate(curves[:MOST_LEGENDS])
        if curve.points
    ]
    if len(curves) > MOST_LEGENDS:
        keys.append(f"<li>and {len(curves) - MOST_LEGENDS} more</li>")
    return f'<ul class="legend">{"".join(keys)}</ul>'


def _dot(color: str) -> str:
    return f'<i style="background:{color}"></i>'


def _svg(parts: Sequence[str], size: tuple[int, int]) -> str:
    return f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img">{"".join(parts)}</svg>'


def _nothing(size: tuple[int, int]) -> str:
    return f'<p class="nothing" style="min-height:{size[1] // 3}px">No data</p>'
