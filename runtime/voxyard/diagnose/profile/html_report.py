"""Profile as one self-contained HTML page: style and script are in it, nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from voxyard.diagnose.errors import DiagnoseError
from voxyard.diagnose.gpu_figures import described
from voxyard.diagnose.profile import svg_charts
from voxyard.diagnose.profile.stages import NAMES, Stage
from voxyard.diagnose.profile.text_report import UNREPORTED, ms

if TYPE_CHECKING:
    from voxyard.diagnose.gpu_figures import GpuUse
    from voxyard.diagnose.profile.advice import Recommendation
    from voxyard.diagnose.profile.result import Profile
    from voxyard.diagnose.profile.verdict import Annotation

HEADLINES: dict[Stage, str] = {
    "load": "Data loading is the bottleneck",
    "features": "Features on the data device are the bottleneck",
    "transfer": "The copy to the model device is the bottleneck",
    "train": "The model waits, although training is the slowest stage",
}
BOUND: dict[Stage, str] = {
    "load": "No bottleneck; bound by data loading",
    "features": "No bottleneck; bound by the features",
    "transfer": "No bottleneck; bound by the copy to the model device",
    "train": "No bottleneck; bound by training",
}


def write_page(profile: Profile, path: Path) -> None:
    """Writes the page, and makes its folder. Raises DiagnoseError where the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(profile), encoding="utf-8")
    except OSError as error:
        raise DiagnoseError(f"--html {path} cannot be written ({error.strerror}): give another path") from error


def render(profile: Profile) -> str:
    """The page: verdict, lanes, timeline, advice, histograms, GPUs, and how it was measured.

    Its policy allows its own style and script by their hashes, and nothing else: the page cannot ask the network.
    """
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'"
    sections = (_verdict, _lanes, _timeline, _advice, _stages, _interruptions, _gpus, _about)
    body = "\n".join("\n".join(section(profile)) for section in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(_headline(profile))} · voxyard profile</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<header class="masthead"><span class="wordmark">voxyard profile</span>'
        f'<span class="soft">{escape(profile.setup.model)} · {escape(profile.setup.corpus)} · '
        f"{escape(profile.setup.strategy)}</span></header>\n<main>\n{body}\n</main>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _headline(profile: Profile) -> str:
    verdict = profile.verdict
    if verdict.withheld:
        return "No verdict: the measurement was disturbed"
    found = BOUND[verdict.bound_by] if verdict.bottleneck is None else HEADLINES[verdict.bottleneck]
    return f"Disturbed measurement: {found[0].lower()}{found[1:]}" if verdict.disturbed else found


def _verdict(profile: Profile) -> Iterator[str]:
    verdict, over = profile.verdict, profile.overlapped
    kind = "disturbed" if verdict.disturbed else verdict.bottleneck or ""
    yield f'<section class="verdict {kind}" aria-labelledby="headline">'
    yield f'<h1 id="headline">{escape(_headline(profile))}</h1>'
    yield f'<p class="said">{_in_words(profile)}</p>'
    for cause in filter(None, (verdict.cause, verdict.also)):
        yield f"<p>{escape(_sentence(f'{cause.title}: {cause.remedy}'))}</p>"
    if verdict.explanation:
        yield f"<p>{escape(_sentence(verdict.explanation))}</p>"
    if verdict.disturbed and not verdict.withheld:
        yield f"<p>{escape(_sentence(f'disturbed, and the figures are rough: {verdict.disturbed}'))}</p>"
    yield '<dl class="figures">'
    for name, value, unit in (
        ("a step, overlapped", ms(over.seconds_per_step), "ms"),
        ("rate", f"{over.samples_per_second:.3g}", "clips/s"),
        ("the model waits for data", f"{over.data_wait_share:.1%}", ""),
        ("reads", profile.reads.pages.state, f"{profile.reads.pages.share:.0%} cached"),
        ("lost against the ideal", f"{over.lost_samples_per_second:.3g}" if over.has_gap else "0", "clips/s"),
    ):
        yield f"<div><dt>{name}</dt><dd>{value} <small>{unit}</small></dd></div>"
    yield "</dl>"
    if verdict.annotations:
        yield '<ul class="marks">'
        yield from (_mark(each) for each in verdict.annotations)
        yield "</ul>"
    yield "</section>"


def _in_words(profile: Profile) -> str:
    over, train = profile.overlapped, profile.costs.train
    if profile.verdict.withheld:
        return (
            f"Measured beside other work: {escape(profile.verdict.withheld)}. As measured, a step takes "
            f"{ms(over.seconds_per_step)} ms, and the model waits {over.data_wait_share:.1%} of its time."
        )
    if profile.verdict.bottleneck is None:
        return (
            "The model device has its next batch ready nearly always: it waits "
            f"{over.data_wait_share:.1%} of its time. A step takes {ms(over.seconds_per_step)} ms, its slowest part "
            f"alone {ms(over.ideal_seconds)} ms."
        )
    return (
        f"The model device stands still {over.data_wait_share:.0%} of its time. A step takes "
        f"{ms(over.seconds_per_step)} ms; training alone would take {ms(train)} ms."
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _interruptions(profile: Profile) -> Iterator[str]:
    yield "<h2>Checkpoints and validation</h2>"
    yield from (f"<p>{escape(_sentence(line))}</p>" for line in profile.interruptions.lines())


def _mark(each: Annotation) -> str:
    sign = "&lt;" if each.value < each.threshold else "&gt;"
    return f"<li><b>{each.value:.0%} {sign} {each.threshold:.0%}</b> <span>{escape(each.sentence)}</span></li>"


def _lanes(profile: Profile) -> Iterator[str]:
    costs = profile.costs
    load = ("reading", [("load", "reading and decoding", costs.load)])
    copy = ("transfer", "copy to the model device", costs.transfer)
    train = ("train", "training", costs.train)
    features = ("features", "features", costs.features)
    rows = [load, ("data device", [features, copy]), ("model device", [train])]
    if costs.layout == "single" or costs.slots == 1:
        rows = [load, ("by turns", [features, copy, train])]
    elif costs.layout == "mirrored":
        rows = [load, ("copy", [copy]), ("all devices", [train])]
    yield "<h2>What a batch costs</h2>"
    yield (
        '<p class="soft">Each stage measured alone. The lanes work at the same time, so that the longest one should '
        "set the pace.</p>"
    )
    yield '<figure><ul class="legend">'
    names = {"load": "reading", "features": "features", "transfer": "transfer", "train": "training"}
    yield from (f'<li class="{each.stage}">{names[each.stage]}</li>' for each in profile.stages)
    yield "</ul>"
    over = profile.overlapped
    yield '<div class="wide" role="region" aria-label="Lanes" tabindex="0">'
    yield svg_charts.lanes(rows, over.seconds_per_step, over.ideal_seconds)
    yield f"</div><figcaption>{escape(_gap_words(profile))}</figcaption></figure>"


def _gap_words(profile: Profile) -> str:
    over = profile.overlapped
    if not over.has_gap:
        return f"Overlapped it is as fast as {over.ideal_bound_by} alone ({ms(over.ideal_seconds)} ms)."
    return (
        f"Ideal is {ms(over.ideal_seconds)} ms, the time of {over.ideal_bound_by}. Overlapped it takes "
        f"{ms(over.lost_seconds)} ms more a step, {over.lost_samples_per_second:.3g} clips/s."
    )


def _timeline(profile: Profile) -> Iterator[str]:
    over, found = profile.overlapped, profile.overlapped.gaps
    split = profile.costs.layout == "split"
    yield "<h2>The two devices, overlapped</h2>"
    yield '<figure><ul class="legend"><li class="load">threads that read</li>'
    yield '<li class="features">features and copy</li>'
    yield '<li class="train">training</li><li class="wait">waits for data</li></ul>'
    yield '<div class="wide" role="region" aria-label="Timeline" tabindex="0">'
    yield svg_charts.typical_steps(over.timeline, profile.setup.workers, split=split)
    count = min(svg_charts.TYPICAL_STEPS, len(over.timeline.steps))
    yield f"</div><figcaption>{count} typical steps in a row. {escape(_idle_words(profile))}</figcaption></figure>"
    yield '<figure><div class="wide" role="region" aria-label="All steps" tabindex="0">'
    yield svg_charts.all_steps(over.timeline.steps)
    waits = found.model_waits
    said = (
        f"{waits.count} waits longer than 1 ms, mean {ms(waits.mean)} ms, longest {ms(waits.max)} ms."
        if waits.count
        else "No wait longer than 1 ms."
    )
    yield (
        f"</div><figcaption>All {len(over.timeline.steps)} measured steps. {said} Standard deviation ÷ mean "
        f"{over.variation:.2f}, within a length bucket {over.variation_within_buckets:.2f}.</figcaption></figure>"
    )


def _idle_words(profile: Profile) -> str:
    found = profile.overlapped.gaps
    readers = f"{found.readers_busy:.1f} of {profile.setup.workers} reading threads are at work on average."
    if profile.costs.layout != "split":
        return readers
    return (
        f"The data device is busy {found.data_busy_share:.0%} of the time, waits for the host "
        f"{found.data_starved_share:.0%}, and for a free slot of the ring {found.data_blocked_share:.0%}. {readers}"
    )


def _advice(profile: Profile) -> Iterator[str]:
    yield "<h2>What to change</h2>"
    if profile.verdict.withheld:
        yield "<p>Nothing is advised from a disturbed measurement.</p>"
        return
    if withheld := profile.reads.withheld:
        yield f'<p class="soft">{escape(_sentence(withheld))}</p>'
    if profile.verdict.disturbed:
        yield (
            "<p>Other programs took cores or GPUs: no gain is predicted that depends on these. Measure again alone.</p>"
        )
    elif not profile.recommendations:
        name = NAMES[profile.verdict.bound_by]
        yield f"<p>Nothing that the measured times would reward: {escape(name)} is what the work takes.</p>"
    if not profile.recommendations:
        return
    yield (
        '<p class="soft">The gain follows from the stage times above: the longest lane before, divided by the longest '
        "lane after the change.</p>"
    )
    yield '<ol class="advice">'
    for each in profile.recommendations:
        yield from _recommendation(each)
    yield "</ol>"


def _recommendation(each: Recommendation) -> Iterator[str]:
    gain, said = ("?", "not predicted") if each.gain is None else (f"{each.gain:.2f}×", "predicted")
    if each.bound and each.gain is not None:
        said = "at most"
    yield f'<li><div class="gain"><b>{gain}</b><span>{said}</span></div><div class="what">'
    yield f"<h3>{escape(each.title[:1].upper() + each.title[1:])}</h3><p>{escape(_sentence(each.why))}</p>"
    if each.seconds_per_step is not None:
        yield f'<p class="soft">Then {ms(each.seconds_per_step)} ms a step, bound by {escape(each.then)}.</p>'
    label = escape(f"Copy the command: {each.title}", quote=True)
    yield f'<div class="command"><pre>{_command(each.command)}</pre>'
    yield f'<button type="button" data-copy hidden aria-label="{label}">Copy</button></div></div></li>'


def _stages(profile: Profile) -> Iterator[str]:
    yield "<h2>Each stage alone</h2>"
    yield '<div class="hists">'
    for each in profile.stages:
        yield (
            f"<figure><header><h3>{escape(NAMES[each.stage])}</h3><span>{ms(each.mean)} ms · {each.share:.0%}</span>"
            f"</header>{svg_charts.histogram(each)}"
        )
        yield f"<figcaption>{escape(each.note)}</figcaption></figure>" if each.note else "</figure>"
    yield "</div>"
    names = ("mean", "std", "min", "p50", "p95", "max")
    rows = [
        (each.stage, *(ms(getattr(each.figures, name)) for name in names), f"{each.share:.0%}")
        for each in profile.stages
    ]
    yield f"<figure>{_table('Stage times', ('milliseconds a batch', *names, 'share'), rows)}</figure>"


def _gpus(profile: Profile) -> Iterator[str]:
    yield "<h2>Devices</h2>"
    rows = []
    for role, use in profile.use.items():
        gpus = [gpu for gpu in profile.gpus.gpus if gpu.role == role]
        busy = "not measured" if use.value is None else f"{use.value:.0%}"
        if role == "data" and profile.data_device_ceiling is not None:
            busy += f" of at most {profile.data_device_ceiling:.0%}"
        utilization = "; ".join(map(_utilization, gpus)) or (profile.gpus.missing or "")
        memory = "; ".join(map(_memory, gpus)) or (profile.gpus.missing or "")
        rows.append((role, busy, utilization, memory))
    yield f"<figure>{_table('Devices', ('device', 'busy', 'GPU utilization', 'GPU memory'), rows)}"
    source = next(iter(profile.use.values())).source
    most = " The most that the data device can be busy is D ÷ max(D, M) of the stages alone." * (
        profile.data_device_ceiling is not None
    )
    yield f"<figcaption>Busy: {escape(source)}.{most}</figcaption></figure>"


def _utilization(gpu: GpuUse) -> str:
    activity = f" ({described(gpu.activity)})" if gpu.activity else ""
    return f"GPU {gpu.index}: mean {gpu.utilization.mean:.0%}{activity}" if gpu.utilization.count else UNREPORTED


def _memory(gpu: GpuUse) -> str:
    if gpu.memory_used is None or not gpu.memory_size:
        return UNREPORTED
    return f"GPU {gpu.index}: {gpu.memory_used / 2**20:.0f} of {gpu.memory_size / 2**20:.0f} MiB"


def _about(profile: Profile) -> Iterator[str]:
    import shlex

    setup, over = profile.setup, profile.overlapped
    yield "<footer><h2>How this was measured</h2>"
    yield (
        f"<p>The trainer's own pipeline: {setup.batch} clips a step, {setup.buckets} length buckets, {setup.workers} "
        f"reading threads, host buffer {setup.buffer}, ring {setup.slots}, {escape(setup.precision)}, XLA "
        f"{'on' if setup.xla else 'off'}; {'; '.join(escape(line) for line in setup.devices)}.</p>"
    )
    yield (
        f'<p class="soft">Left out: tracing and compiling ({setup.left_out_seconds:.1f} s), and {over.settled} steps '
        f"in which the buffers settle{f'; {over.traced} traced steps' if over.traced else ''}.</p>"
    )
    yield from (f'<p class="soft">{escape(_sentence(note))}</p>' for note in (*profile.reads.lines(), *setup.notes))
    yield f"<pre>{_command([shlex.join(setup.command)])}</pre></footer>"


def _table(label: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of rows whose first cell is a heading."""
    head = "".join(f"<th scope=col>{each}</th>" for each in heads)
    body = "".join(
        f"<tr><th scope=row>{name}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in rows
    )
    wide = f'<div class="wide" role="region" aria-label="{label}" tabindex="0">'
    return f"{wide}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _command(lines: Sequence[str]) -> str:
    """Lines to copy, whose words do not break at their hyphens."""
    return "\n".join(" ".join(f"<span>{escape(word)}</span>" for word in line.split(" ")) for line in lines)
