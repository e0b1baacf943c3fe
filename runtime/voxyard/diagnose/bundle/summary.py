"""The summary page of an archive: one HTML file without scripts or network, from which the verdict can be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from voxyard.diagnose.bundle.archive import Part
from voxyard.trainer.reporting.figures import share

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.verdict { font-size: 1.2rem; padding: .8rem 1rem; border-left: .4rem solid #b45309; }
.verdict.well { border-color: #15803d; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .2rem 1.2rem .2rem 0; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; } .missing { color: #b45309; }
code { overflow-wrap: anywhere; }
"""


def page(verdict: str, head: Mapping[str, str], documents: Mapping[str, Any], parts: Sequence[Part]) -> str:
    """The page. `documents` are the archive's JSON files by name, with secrets removed already."""
    profile, training = documents.get("profile.json"), documents.get("training.json")
    judged = None if profile is None else profile["verdict"]
    well = judged is not None and judged["bottleneck"] is None and not judged["disturbed"]
    title = f"voxyard diagnosis of {head['host']}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>voxyard {escape(head['voxyard'])}, {escape(head['made'])}, {escape(head['corpus'])}; "
        "secrets were removed</p>",
        f'<p class="verdict{" well" if well else ""}">{escape(verdict)}</p>',
        *(_profile(profile) if profile is not None else []),
        *(_training(training) if training is not None else []),
        "<h2>What is in this archive</h2>",
        _table(("part", "files", "seconds"), (_part(part) for part in parts)),
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
            *body,
            "</body></html>",
            "",
        ]
    )


def _profile(profile: Mapping[str, Any]) -> Iterable[str]:
    verdict, over = profile["verdict"], profile["overlapped"]
    if verdict["explanation"]:
        yield f"<p>{escape(verdict['explanation'])}</p>"
    yield (
        f"<p>The model waits for data {verdict['data_wait_share']:.1%} of the time; "
        f"{over['seconds_per_step'] * 1e3:.3g} ms a step, {over['samples_per_second']:.3g} clips/s.</p>"
    )
    if verdict["annotations"]:
        yield "<ul>" + "".join(f"<li>{escape(each['sentence'])}</li>" for each in verdict["annotations"]) + "</ul>"
    yield "<h2>Stages, each alone (milliseconds a batch)</h2>"
    figures = ("mean", "std", "min", "p50", "p95", "max")
    rows = (
        (each["stage"], *(_number(each[name]) for name in figures), f"{each['share']:.0%}")
        for each in profile["stages"]
    )
    yield _table(("stage", *figures, "share"), rows, numbers=True)
    reads = profile["reads"]
    why = f": {'; '.join(reads['why'])}" if reads["why"] else ""
    yield f"<p>Reads: {reads['state']}, {reads['share_cached']:.0%} of their pages were cached{escape(why)}</p>"
    if profile["recommendations"]:
        yield "<h2>What to change</h2><ol>"
        yield from (f"<li>{_recommendation(each)}</li>" for each in profile["recommendations"])
        yield "</ol>"
    yield "<h2>What was profiled</h2>"
    setup = profile["setup"]
    names = ("strategy", "model", "corpus", "batch", "workers", "slots", "buffer", "precision", "xla", "buckets")
    rows = ((name, str(setup[name])) for name in names)
    yield _table(("setting", "value"), [("devices", "; ".join(setup["devices"])), *rows])
    yield f"<p>GPU figures: {escape(profile['gpus']['missing'] or 'in profile.json')}</p>"


def _recommendation(each: Mapping[str, Any]) -> str:
    gain = f" (gain {'at most ' if each['bound'] else ''}{each['gain']:.2f}×)" if each.get("gain") else ""
    commands = "".join(f"<br><code>{escape(command)}</code>" for command in each["command"])
    return f"<strong>{escape(each['title'])}</strong>{escape(gain)}: {escape(each['why'])}{commands}"


def _training(report: Mapping[str, Any]) -> Iterable[str]:
    yield "<h2>Training steps</h2>"
    yield (f"<p>{report['last_step'] - report['first_step']} steps, {_rate(report)}; {escape(report['ended'])}</p>")
    rows = ((name, share(each["value"]), each["verdict"]) for name, each in report["targets"].items())
    yield _table(("target", "measured", "verdict"), rows)


def _rate(report: Mapping[str, Any]) -> str:
    """Rate and wait of a run, or why there are none."""
    if report["steps_per_second"] is None:
        return escape(f"rate: {report['too_few']['M']}")
    return f"{report['steps_per_second']:.3g} steps/s, waiting for data {report['data_wait_share']:.1%}"


def _part(part: Part) -> tuple[str, str, str]:
    missing = "" if part.missing is None else f"missing: {part.missing}"
    return part.name, "; ".join(filter(None, (", ".join(part.files), missing))), f"{part.seconds:.1f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = False) -> str:
    kind = ' class="number"' if numbers else ""

    def line(tag: str, cells: Sequence[str]) -> str:
        told = (f"<{tag}{kind if place else ''}>{escape(cell)}</{tag}>" for place, cell in enumerate(cells))
        return f"<tr>{''.join(told)}</tr>"

    return f"<table>{line('th', head)}{''.join(line('td', row) for row in rows)}</table>"


def _number(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"
