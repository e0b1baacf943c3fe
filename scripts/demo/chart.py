"""Line charts of the demo's page: SVG as text, coloured by the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 14, 34

Points = Sequence[tuple[float, float]]


def lines(name: str, title: str, curves: Sequence[tuple[str, Points]], unit: str) -> str:
    """Curves (name, points) over the steps of a run, with their title above and a legend below.

    A curve without points is left out; of one with a single point the legend gives its value.
    """
    heading = f'<h3 id="{name}-t">{escape(title)}</h3>'
    drawn = [(label, [point for point in points if all(map(math.isfinite, point))]) for label, points in curves]
    drawn = [(label, points) for label, points in drawn if points]
    if not drawn:
        return f'{heading}<p class="none">No figures yet: the training was too short for its first ones.</p>'
    if all(len(points) == 1 for _, points in drawn):
        values = "; ".join(f"{escape(label)}: {_value(points[0])}" for label, points in drawn)
        return f'{heading}<p class="none">One value, too few for a curve: {values}.</p>'
    right = max(x for _, points in drawn for x, _ in points)
    x_ticks, y_ticks = ticks(right), ticks(max(y for _, points in drawn for _, y in points))
    x_scale = (WIDTH - _LEFT - _RIGHT) / max(right, 1e-9)
    y_scale = (HEIGHT - _TOP - _BOTTOM) / y_ticks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + x * x_scale, HEIGHT - _BOTTOM - y * y_scale

    parts = []
    for y in y_ticks:
        _, at = place(0, y)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{at:.1f}" x2="{WIDTH - _RIGHT}" y2="{at:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in (tick for tick in x_ticks if tick <= right):
        at, _ = place(x, 0)
        parts.append(f'<text class="tick" x="{at:.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{x:g}</text>')
    parts.append(f'<text class="tick" x="{WIDTH - _RIGHT}" y="{HEIGHT - 2}" text-anchor="end">{escape(unit)}</text>')
    legend = []
    for number, (label, points) in enumerate(drawn):
        if len(points) == 1:
            legend.append(f"<li>{escape(label)}: one value, {_value(points[0])}, too few for a curve</li>")
            continue
        places = [place(x, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline class="curve c{number}" points="{path}"/>')
        parts += [
            f'<circle class="dot c{number}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(label)} at step {step:g}: '
            f"{value:.4g}</title></circle>"
            for (x, y), (step, value) in zip(places, points, strict=True)
        ]
        legend.append(f'<li class="c{number}">{escape(label)}: {_value(points[-1])}</li>')
    return (
        f'{heading}<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{name}-t"><title>{escape(title)}'
        f'</title>{"".join(parts)}</svg><ul class="legend">{"".join(legend)}</ul>'
    )  # fmt: skip


def _value(point: tuple[float, float]) -> str:
    return f"{point[1]:.3g} at step {point[0]:g}"


def ticks(top: float) -> list[float]:
    """Round numbers from 0 to the first one at or above `top`, about five of them."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / 4
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(each * magnitude for each in (1, 2, 2.5, 5, 10) if each * magnitude >= rough * 0.999)
    return [step * number for number in range(math.ceil(top / step - 1e-9) + 1)]
