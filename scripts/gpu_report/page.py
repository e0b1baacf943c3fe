"""Page of a GPU report: one HTML file that needs no network and runs no script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from demo.style import STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
BADGE = '<span class="badge scripted">stand-in</span>'
MORE_STYLE = """
.met { color: var(--real); } .missed, .failed { color: var(--bad); } .open { color: var(--soft); }
.done { color: var(--real); } td.number, th.number { text-align: right; }
"""
Report = Mapping[str, Any]


def page(report: Report) -> str:
    """The whole page."""
    title = "voxyard: GPU report" + (" (stand-in)" if report["stand_in"] else "")
    sections = (_opening(report), _targets(report), _steps(report), _host(report), _others(report), _logs(report))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}{MORE_STYLE}</style></head><body><main>'
        f"{''.join(sections)}</main></body></html>\n"
    )


def _opening(report: Report) -> str:
    if report["stand_in"]:
        what = (
            f'<div class="note">{BADGE} <b>No GPU was used.</b> The same commands as on a GPU host ran with tiny '
            "models on CPU devices, and with a scripted driver library in the place of NVIDIA's: the figures show "
            "that every step works and measure nothing. No target is judged. Tests marked <code>gpu</code> were "
            "left out.</div>"
        )
    else:
        what = f"<p>{len(report['host']['cards'])} × {escape(_cards(report))}, on {escape(report['host']['name'])}.</p>"
    judged = [each for each in report["figures"] if each["met"] is not None]
    failed = [each["name"] for each in report["steps"] if not each["ok"]]
    words = f"{len(report['steps']) - len(failed)} of {len(report['steps'])} steps done"
    if judged:
        words += f", {sum(each['met'] for each in judged)} of {len(judged)} targets met"
    if failed:
        words += f"; failed: {', '.join(failed)}"
    return (
        f"<header><h1>GPU report{f' {BADGE}' if report['stand_in'] else ''}</h1>"
        f"<p><b>{escape(words)}.</b> {escape(report['date'])}</p>{what}</header>"
    )


def _cards(report: Report) -> str:
    return ", ".join(dict.fromkeys(str(card["name"]) for card in report["host"]["cards"])) or "no GPU"


def _targets(report: Report) -> str:
    rows = [
        (escape(each["text"]), f"<code>{escape(each['figure'])}</code>", _number(each["value"]), escape(each["target"]),
         _judgement(each))
        for each in report["figures"]
        if each["target"]
    ]  # fmt: skip
    badge = f" {BADGE}" if report["stand_in"] else ""
    return f"<h2>Figures beside their targets{badge}</h2>" + _table(
        ("what", "figure", "measured", "target", "verdict"), rows, numbers=(2, 3)
    )


def _judgement(figure: Mapping[str, Any]) -> str:
    if figure["met"] is None:
        return f'<span class="open">{escape(figure["why"])}</span>'
    return '<span class="met">met</span>' if figure["met"] else '<span class="missed">missed</span>'


def _steps(report: Report) -> str:
    rows = []
    for step in report["steps"]:
        result = step["result"]
        said = ""
        if "tests" in result:
            said = f"{result['passed']} of {result['tests']} tests passed"
            said += f", {len(result['not_run'])} not run" if result["not_run"] else ""
        elif "ratios" in result:
            said = f"figures: {len(result['ratios'])}"
        state = '<span class="done">done</span>'
        if not step["ok"]:
            state = f'<span class="failed">failed, exit code {step["exit_code"]}</span>'
        place = f"{step['place']}/" if step.get("place") else ""
        rows.append(
            (f"<code>{escape(step['name'])}</code>", state, escape(said), f"{step['seconds']:.0f} s",
             f"<code>{escape(place + step['log'])}</code>")
        )  # fmt: skip
    left_out = "".join(f"<li>{escape(each)}</li>" for each in report.get("left_out", ()))
    if left_out:
        left_out = f'<div class="note"><b>Left out</b><ul>{left_out}</ul></div>'
    return "<h2>Steps</h2>" + _table(("step", "state", "result", "time", "log"), rows, numbers=(3,)) + left_out


def _host(report: Report) -> str:
    cards = [tuple(escape(str(card.get(name, ""))) for name in _CARD.values()) for card in report["host"]["cards"]] or [
        ("none used", *[""] * (len(_CARD) - 1))
    ]
    body = "<h2>Cards and driver</h2>" + _table(tuple(_CARD), cards)
    names = list(dict.fromkeys(name for each in report["environments"] for name in each["versions"]))
    rows = [
        (escape(name), *(escape(each["versions"].get(name, "–")) for each in report["environments"])) for name in names
    ]
    heads = ("package", *(escape(each["name"]) for each in report["environments"]))
    return f"{body}<h2>Versions</h2><p class='small'>{escape(report['host']['system'])}</p>{_table(heads, rows)}"


_CARD = {
    "card": "name", "UUID": "uuid", "driver": "driver_version", "memory": "memory.total",
    "compute capability": "compute_cap", "MIG": "mig.mode.current",
}  # fmt: skip


def _others(report: Report) -> str:
    rows = [
        (f"<code>{escape(each['step'])}</code>", f"<code>{escape(each['figure'])}</code>", _number(each["value"]))
        for each in report["figures"]
        if not each["target"]
    ]
    if not rows:
        return ""
    badge = f" {BADGE}" if report["stand_in"] else ""
    return f"<h2>Other figures{badge}</h2>" + _table(("step", "figure", "measured"), rows, numbers=(2,))


def _logs(report: Report) -> str:
    failed = [step for step in report["steps"] if not step["ok"]]
    parts = [
        f"<details open><summary>{escape(step['name'])}: last lines of {escape(step['log'])}</summary>"
        f"{_failed_tests(step['result'])}<pre>{escape(step['tail']) or 'it wrote nothing'}</pre></details>"
        for step in failed
    ]
    waiting = [
        f"<details><summary>{escape(step['name'])}: tests not run: {len(step['result']['not_run'])}</summary><ul>"
        + "".join(f"<li><code>{escape(each)}</code></li>" for each in step["result"]["not_run"])
        + "</ul></details>"
        for step in report["steps"]
        if step["result"].get("not_run")
    ]
    logs = f"<h2>Logs of what failed</h2>{''.join(parts)}" if parts else ""
    return logs + (f"<h2>Not run</h2>{''.join(waiting)}" if waiting else "")


def _failed_tests(result: Mapping[str, Any]) -> str:
    failed = result.get("failed") or ()
    return "".join(f"<p class='failed'><code>{escape(each)}</code></p>" for each in failed)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if place in numbers else ''}>{text}</{tag}>" for place, text in enumerate(texts)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{cells("th", heads)}</tr>{body}</table></div>'
