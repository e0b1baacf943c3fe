"""Charts of the profile's page: SVG as text, coloured by classes of its style sheet. No script, no network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from voxyard.diagnose.profile.stages import StageTimes, percentile
from voxyard.diagnose.profile.text_report import ms
from voxyard.diagnose.profile.timeline import Span, StepSpan, Timeline

WIDTH = 960
TYPICAL_STEPS = 10
"""Steps of the detailed timeline."""
_LEFT = 132  # of the plots with labelled lanes
_BINS = 24


def svg(name: str, title: str, description: str, height: float, parts: Iterable[str], *, width: float = WIDTH) -> str:
    """An SVG element with a title and a description for screen readers."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="{name}-t {name}-d" id="{name}">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def lanes(rows: Sequence[tuple[str, Sequence[tuple[str, str, float]]]], step: float, ideal: float) -> str:
    """Chart of parallel lanes: a row a lane, its parts (class, name, seconds) end to end; a line at the step.

    The lane that reaches furthest is what the run is bound by.
    """
    longest = max([step, *(sum(seconds for _, _, seconds in parts) for _, parts in rows)])
    ticks = nice_ticks(longest)
    scale = (WIDTH - _LEFT - 96) / max(longest, ticks[-1])
    bottom = 26 + 46 * len(rows)
    drawn = [_grid(ticks, scale, _LEFT, 14, bottom)]
    at = _LEFT + step * scale
    for number, (name, parts) in enumerate(rows):
        y, x = 22 + 46 * number, float(_LEFT)
        drawn.append(f'<text class="lane" x="{_LEFT - 12}" y="{y + 20}" text-anchor="end">{escape(name)}</text>')
        for css, what, seconds in parts:
            wide = max(seconds * scale, 0.75)
            drawn.append(
                f'<rect class="{css}" x="{x:.2f}" y="{y}" width="{wide:.2f}" height="30" rx="2">'
                f"<title>{escape(what)}: {ms(seconds)} ms a batch</title></rect>"
            )
            x += wide
        total = sum(seconds for _, _, seconds in parts)
        x = max(x, at) if x - 4 < at < x + 72 else x  # not across the line of the step
        drawn.append(f'<text class="value halo" x="{x + 8:.2f}" y="{y + 20}">{ms(total)} ms</text>')
    said = f"a step takes {ms(step)} ms"
    anchor = "end" if at > WIDTH - 160 else "middle"
    drawn.append(
        f'<line class="now" x1="{at:.2f}" y1="12" x2="{at:.2f}" y2="{bottom}"/>'
        f'<text class="now halo" x="{at:.2f}" y="{bottom + 36}" text-anchor="{anchor}">{said}</text>'
    )
    described = "; ".join(f"{name}: {ms(sum(one[2] for one in parts))} ms" for name, parts in rows)
    return svg(
        "lanes", "What works beside one another, in milliseconds a batch",
        f"{described}. Overlapped, {said}; ideal would be {ms(ideal)} ms.", bottom + 44, drawn,
    )  # fmt: skip


def typical_steps(timeline: Timeline, workers: int, *, split: bool) -> str:
    """The timeline of some typical steps: reading threads, data device, model device."""
    steps = typical(timeline.steps, TYPICAL_STEPS)
    begin, end = steps[0].asked, steps[-1].done
    scale = (WIDTH - _LEFT - 8) / (end - begin)

    def bar(css: str, one: Span, y: float, height: float, said: str) -> str:
        left, right = max(one[0], begin), min(one[1], end)
        wide = max((right - left) * scale, 0.6)
        x = _LEFT + (left - begin) * scale
        return (
            f'<rect class="{css}" x="{x:.2f}" y="{y}" width="{wide:.2f}" height="{height}">'
            f"<title>{escape(said)}</title></rect>"
        )

    drawn = [
        _grid(nice_ticks(end - begin), scale, _LEFT, 14, 196),
        *_lane_names((("reading", f"{workers} thread{'s' if workers > 1 else ''}"),
                      ("data device", "features, copy") if split else ("features", "on the one device"),
                      ("model device", "training"))),
        _reading(timeline.reads, workers, begin, end, scale),
    ]  # fmt: skip
    drawn += [
        bar("features", one, 88, 40, f"features and copy: {ms(one[1] - one[0])} ms")
        for one in timeline.data
        if one[1] > begin and one[0] < end
    ]
    for step in steps:
        if step.wait * scale > 1:
            drawn.append(bar("wait", (step.asked, step.got), 148, 40, f"waits for data: {ms(step.wait)} ms"))
        drawn.append(bar("train", (step.got, step.done), 148, 40, f"training: {ms(step.done - step.got)} ms"))
    waits = sum(step.wait for step in steps) / (end - begin)
    return svg(
        "timeline", f"The timeline of {len(steps)} typical steps",
        f"Three lanes over {ms(end - begin)} ms: reading threads, data device, model device. In this window the model "
        f"device waits for data {waits:.0%} of the time.", 222, drawn,
    )  # fmt: skip


def all_steps(steps: Sequence[StepSpan]) -> str:
    """Every measured step as a bar: training, and on top of it the wait for data."""
    longest = max(step.seconds for step in steps)
    ticks = nice_ticks(longest, about=4)
    scale = 130 / max(longest, ticks[-1])
    left, wide = 64.0, (WIDTH - 72) / len(steps)
    drawn = []
    for tick in ticks:
        y = 150 - tick * scale
        drawn.append(f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{WIDTH - 8}" y2="{y:.1f}"/>')
        drawn.append(f'<text class="tick" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tick * 1e3:g} ms</text>')
    gap = min(2.0, wide * 0.2)
    for number, step in enumerate(steps):
        x, trained = left + number * wide, (step.done - step.got) * scale
        waited = step.wait * scale
        css = "traced" if step.traced else "train"
        drawn.append(
            f"<g><title>step {number + 1}: training {ms(step.done - step.got)} ms, wait {ms(step.wait)} ms</title>"
            f'<rect class="{css}" x="{x:.2f}" y="{150 - trained:.2f}" width="{wide - gap:.2f}" height="{trained:.2f}"/>'
            + _waited(x, 150 - trained, wide - gap, waited)
            + "</g>"
        )
    drawn.append(f'<text class="tick" x="{left}" y="170">step 1</text>')
    drawn.append(f'<text class="tick" x="{WIDTH - 8}" y="170" text-anchor="end">step {len(steps)}</text>')
    mean = sum(step.seconds for step in steps) / len(steps)
    return svg(
        "steps", f"The {len(steps)} measured steps, training and wait",
        f"A bar a step: mean {ms(mean)} ms, longest {ms(longest)} ms.", 178, drawn,
    )  # fmt: skip


def _waited(x: float, bottom: float, width: float, height: float) -> str:
    if height < 1:
        return ""
    return f'<rect class="wait" x="{x:.2f}" y="{bottom - height:.2f}" width="{width:.2f}" height="{height:.2f}"/>'


def histogram(stage: StageTimes) -> str:
    """Histogram of the batches' times in one stage alone, with lines at p50 and p95; the last bar holds all beyond."""
    ordered = sorted(stage.seconds)
    low = ordered[0]
    high = min(ordered[-1], low + 1.6 * (percentile(ordered, 0.95) - low) + 1e-9)
    if high - low < 1e-9:
        low, high = low * 0.9, high * 1.1 + 1e-9
    counts = [0] * _BINS
    for value in ordered:
        counts[min(_BINS - 1, int((value - low) / (high - low) * _BINS))] += 1
    width, most = 440, max(counts)
    wide = (width - 16) / _BINS

    def at(value: float) -> float:
        return 8 + (value - low) / (high - low) * (width - 16)

    drawn = [f'<line class="axis" x1="8" y1="112" x2="{width - 8}" y2="112"/>']
    for number, count in enumerate(counts):
        if count:
            height = 86 * count / most
            begin, end = (low + (high - low) * k / _BINS for k in (number, number + 1))
            drawn.append(
                f'<rect class="{stage.stage}" x="{8 + number * wide:.2f}" y="{112 - height:.2f}" '
                f'width="{wide - 1:.2f}" height="{height:.2f}"><title>{count} batches of {ms(begin)} to {ms(end)} ms'
                "</title></rect>"
            )
    for share, name in ((0.5, "p50"), (0.95, "p95")):
        x = at(percentile(ordered, share))
        anchor = "start" if x < width / 2 else "end"
        away = 4 if anchor == "start" else -4
        drawn.append(f'<line class="mark" x1="{x:.2f}" y1="6" x2="{x:.2f}" y2="112"/>')
        y = 16 if share == 0.5 else 32
        drawn.append(f'<text class="tick halo" x="{x + away:.2f}" y="{y}" text-anchor="{anchor}">{name}</text>')
    drawn.append(f'<text class="tick" x="8" y="130">{ms(ordered[0])} ms</text>')
    last = f"{ms(high)} ms" + ("" if high >= ordered[-1] else f" and more, up to {ms(ordered[-1])} ms")
    drawn.append(f'<text class="tick" x="{width - 8}" y="130" text-anchor="end">{last}</text>')
    one = stage.figures
    return svg(
        f"hist-{stage.stage}", f"Batches of the stage {stage.stage} by their time",
        f"{one.count} batches from {ms(one.min)} to {ms(one.max)} ms; half of them under {ms(one.p50)} ms, "
        f"95% under {ms(one.p95)} ms.", 138, drawn, width=width,
    )  # fmt: skip


def typical(steps: Sequence[StepSpan], count: int) -> Sequence[StepSpan]:
    """`count` steps in a row whose time is nearest to that of any such row on average."""
    count = min(count, len(steps))
    spans = [steps[at + count - 1].done - steps[at].asked for at in range(len(steps) - count + 1)]
    mean = sum(spans) / len(spans)
    at = min(range(len(spans)), key=lambda number: abs(spans[number] - mean))
    return steps[at : at + count]


def nice_ticks(most: float, *, about: int = 6) -> list[float]:
    """Round numbers of seconds from 0 on, the last one not beyond `most`, some `about` of them."""
    rough = most / about
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return [step * number for number in range(int(most / step) + 1)]


def _grid(ticks: Sequence[float], scale: float, left: float, top: float, bottom: float) -> str:
    drawn = []
    for tick in ticks:
        x = left + tick * scale
        drawn.append(f'<line class="grid" x1="{x:.2f}" y1="{top}" x2="{x:.2f}" y2="{bottom}"/>')
        unit = " ms" if tick == ticks[-1] else ""
        drawn.append(
            f'<text class="tick" x="{x:.2f}" y="{bottom + 16}" text-anchor="middle">{tick * 1e3:g}{unit}</text>'
        )
    return "".join(drawn)


def _lane_names(names: Sequence[tuple[str, str]]) -> Iterator[str]:
    for number, (name, what) in enumerate(names):
        y = 46 + 60 * number
        yield f'<text class="lane" x="{_LEFT - 12}" y="{y}" text-anchor="end">{escape(name)}</text>'
        yield f'<text class="tick" x="{_LEFT - 12}" y="{y + 16}" text-anchor="end">{escape(what)}</text>'


def _reading(reads: Sequence[Span], workers: int, begin: float, end: float, scale: float) -> str:
    """Number of reading threads at work, as an area."""
    changes = sorted(
        [(max(one[0], begin), 1) for one in reads if one[1] > begin and one[0] < end]
        + [(one[1], -1) for one in reads if begin < one[1] < end]
    )
    height, y, busy = 40 / workers, 68.0, 0
    points = [f"{_LEFT},{y:.2f}"]
    for when, change in changes:
        x = _LEFT + (when - begin) * scale
        points.append(f"{x:.2f},{y - busy * height:.2f}")
        busy += change
        points.append(f"{x:.2f},{y - busy * height:.2f}")
    right = _LEFT + (end - begin) * scale
    points += [f"{right:.2f},{y - busy * height:.2f}", f"{right:.2f},{y:.2f}"]
    return (
        f'<rect class="lane-back" x="{_LEFT}" y="28" width="{right - _LEFT:.2f}" height="40"/>'
        f'<polygon class="load" points="{" ".join(points)}"/>'
        f'<rect class="lane-back" x="{_LEFT}" y="88" width="{right - _LEFT:.2f}" height="40"/>'
        f'<rect class="lane-back" x="{_LEFT}" y="148" width="{right - _LEFT:.2f}" height="40"/>'
    )
