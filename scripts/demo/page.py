"""The demo's page: one HTML file with its sounds and pictures, which needs no network."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from demo import chart
from demo.monitoring import INTERVAL_SECONDS, SCRIPT, Gpu, Seen
from demo.processes import Record
from demo.sound import Mel, Sound, picture
from demo.style import STYLE
from demo.training import Curve, Reading
from voxyard.host.durable_files import write_file

REAL, SCRIPTED, RANDOM, SYNTHETIC = (
    '<span class="badge real">real</span>',
    '<span class="badge scripted">scripted GPUs</span>',
    '<span class="badge random">random weights</span>',
    '<span class="badge synthetic">synthetic voice (espeak-ng)</span>',
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"

_SCRIPT = re.compile(r"<script>.*?</script>", re.DOTALL)


@dataclass
class Results:
    """All that the parts of the demo made; what was left out is None or empty, with a sentence in `left_out`."""

    corpus: str = ""  # as the command line names it
    own_corpus: bool = False
    recording: tuple[str, Sound] | None = None  # text and sound of a clip
    reading: Reading | None = None
    report: Mapping[str, Any] = field(default_factory=dict)
    curves: Sequence[Curve] = ()
    profile: Mapping[str, Any] = field(default_factory=dict)
    profile_page: str | None = None
    bark: tuple[str, Sound] | None = None  # text and sound
    served: tuple[str, Sound] | None = None
    scripted: bool = False
    monitored: bool = False  # by a Prometheus
    dashboards: str | None = None  # file name beside the page
    seen: Seen = field(default_factory=Seen)
    left_out: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # messages, with the last lines of what failed
    records: Sequence[Record] = ()
    seconds: float = 0.0
    finished: float = 0.0  # Unix time


def page(results: Results) -> str:
    """The whole page."""
    sections = (
        _speech(results), _training(results), _profile(results), _monitoring(results), _commands(results),
    )  # fmt: skip
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>voxyard: the demo</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body><main>'
        f"{_opening(results)}{''.join(sections)}</main></body></html>\n"
    )


def _opening(results: Results) -> str:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(results.finished))
    failed = "".join(f"<pre>{escape(each)}</pre>" for each in results.failures)
    if failed:
        failed = f'<div class="note failed"><b>Failed; the page has what was made without it</b>{failed}</div>'
    synthetic = ""
    if not results.own_corpus:
        synthetic = f"<dt>{SYNTHETIC}</dt><dd>no person speaks: a speech synthesiser made the recordings</dd>"
    left_out = ""
    if results.left_out:
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in results.left_out)
        left_out = f'<div class="note"><b>Left out on this machine</b><ul>{items}</ul></div>'
    return (
        "<header><h1>voxyard: what the demo made</h1>"
        "<p>voxyard runs speech models on a company's own GPU hosts: it trains them, serves them over HTTP and "
        "monitors the GPUs.</p>"
        f"<p>{escape(_length(results.seconds))} on this machine, without a GPU, finished {when}. Every command is at "
        "the end of the page, as it was run.</p></header>"
        f"<dl class='key'><dt>{REAL}</dt><dd>the program that users run, on this machine: corpus, training, profile, "
        "service, OpenAI's client, exporter, Prometheus, rules</dd>"
        f"<dt>{SCRIPTED}</dt><dd>the exporter is real, the GPUs are not: a driver library of the tests plays four of "
        f"them by a script</dd><dt>{RANDOM}</dt><dd>the Bark model is tiny and untrained: what it speaks is noise</dd>"
        f"{synthetic}</dl>{failed}{left_out}"
    )


def _section(name: str, title: str, badges: str, body: str) -> str:
    return f'<section id="{name}"><h2>{escape(title)} {badges}</h2>{body}</section>'


def _speech(results: Results) -> str:
    figures = []
    if results.recording is not None:
        text, sound = results.recording
        voice = "a recording of your corpus" if results.own_corpus else "a recording of the corpus: espeak-ng's voice"
        badge = REAL if results.own_corpus else SYNTHETIC
        figures.append(_sound("A recording", badge, text, voice, sound, sound.mel()))
    reading = results.reading
    if reading is not None:
        seen = "not among the training texts" if reading.held_out else "one of the training texts"
        step = results.report.get("last_step", "?")
        said = f"the model that was just trained, after {step} steps; the sentence is {seen}"
        figures.append(_sound("The trained model", REAL, reading.text, said, reading.spoken, reading.spoken.mel()))
        if reading.reference is not None:
            said = "espeak-ng reads the same sentence: what the model should come near to"
            figures.append(
                _sound(
                    "The same, by espeak-ng", SYNTHETIC, reading.text, said, reading.reference, reading.reference.mel()
                )
            )
    if results.bark is not None:
        text, sound = results.bark
        said = "noise: the Bark model is random. Service, worker, HTTP and OpenAI's client are real"
        figures.append(_sound("Bark over HTTP", RANDOM, text, said, sound, sound.mel()))
    if results.served is not None:
        text, sound = results.served
        said = "the trained voice, exported as one directory and served: service, worker and OpenAI's client are real"
        figures.append(_sound("The trained voice over HTTP", REAL, text, said, sound, sound.mel()))
    words = "" if reading is None else f"<p>{escape(_distance(reading, results.report))}</p>"
    words += (
        "<p class='small'>Spectrograms: time to the right, 80 mel bands upwards, loud is bright. The trained model "
        "speaks through <code>voxyard synthesize</code>, its export through <code>voxyard serve --engine voxyard</code>"
        ".</p>"
    )
    return _section("speech", "Speech", "", f'<div class="sounds">{"".join(figures)}</div>{words}')


def _sound(title: str, badge: str, text: str, said: str, sound: Sound, mel: Mel) -> str:
    name = escape(title)
    return (
        f'<figure class="sound"><h3>{name} {badge}</h3><blockquote>{escape(text)}</blockquote>'
        f'<img src="{picture(mel)}" alt="Mel spectrogram: {name}">'
        f'<audio controls preload="none" src="{sound.data_url()}" aria-label="{name}"></audio>'
        f"<figcaption>{escape(said)}. {sound.seconds:.1f} s at {sound.sample_rate} Hz.</figcaption></figure>"
    )


def _distance(reading: Reading, report: Mapping[str, Any]) -> str:
    """Quality of the sentence: its distance to espeak-ng's reading, else the validation's error."""
    if reading.distance is None:
        error = _validation(report)
        if error is None:
            return "No figure for how near the model is: the training ended before its first validation."
        return f"Mel error on clips that were held out of the training: {error:.2f} nepers (0 is the recording itself)."
    words = f"Mel distance of the model's sentence to espeak-ng's reading: {reading.distance:.2f} nepers"
    if reading.others:
        mean = sum(reading.others) / len(reading.others)
        words += f"; recordings of {len(reading.others)} other sentences are {mean:.2f} away"
    if reading.again is not None:
        words += f", two readings of one sentence by espeak-ng {reading.again:.2f}"
    return words + ". Mean absolute difference of the log-mel bands, after the two were aligned in time."


def _validation(report: Mapping[str, Any]) -> float | None:
    losses = report.get("validation") or {}
    return losses.get("refined_mel")


def _training(results: Results) -> str:
    report = results.report
    if not report:
        return ""
    loss = [(curve.name, curve.points) for curve in results.curves if "loss" in curve.name]
    mel = [(curve.name, curve.points) for curve in results.curves if "loss" not in curve.name]
    charts = (
        f'<div class="charts"><figure>{chart.lines("loss", "Losses over the steps", loss, "steps")}</figure>'
        f'<figure>{chart.lines("mel", "Mel error over the steps, nepers", mel, "steps")}</figure></div>'
    )  # fmt: skip
    use = report.get("device_use") or {}
    rows = [
        ("corpus", results.corpus),
        ("devices", " · ".join(map(str, report.get("devices") or []))),
        ("steps", f"{report.get('first_step', 0)} → {report.get('last_step', '?')} ({report.get('ended', '')})"),
        ("speed", _figure(report.get("steps_per_second"), "{:.2f} steps a second")),
        ("waiting for data", _figure(report.get("data_wait_share"), "{:.1%} of the steps' time")),
        ("devices at work", " · ".join(f"{name} {share:.0%}" for name, share in use.items() if share is not None)),
        ("mel error on held-out clips", _figure(_validation(report), "{:.3f} nepers")),
    ]
    words = (
        "<p>One CPU device prepares the batches while another learns: the same program and the same split as on two "
        "GPUs. After about 400 steps sentences of words that the corpus has can be understood; after fewer the voice "
        "is blurred, and other words come out wrong.</p>"
    )
    return _section("training", "Training on two devices", REAL, words + charts + _pairs(rows))


def _profile(results: Results) -> str:
    found = results.profile
    if not found:
        return ""
    over = found.get("overlapped") or {}
    rows = [(f"{each['stage']}, alone", f"{1000 * each['mean']:.1f} ms a batch") for each in found.get("stages") or []]
    rows += [
        ("all of them overlapped", _milliseconds(over.get("seconds_per_step"))),
        ("the model waits for data", _figure(over.get("data_wait_share"), "{:.1%} of its time")),
    ]
    framed = ""
    if results.profile_page is not None:
        page = _SCRIPT.sub("", results.profile_page)  # it only copies commands, and here nothing runs
        framed = (
            "<details><summary>The profile's own page: timeline, histograms, what to change</summary>"
            f'<iframe title="Profile of the training" sandbox srcdoc="{escape(page)}"></iframe>'
            '</details><p class="small">The same as a file: <a href="profile.html">profile.html</a></p>'
        )
    words = "<p>Each stage of the training alone, then all of them together, measured before the training began.</p>"
    return _section("profile", "Profile", REAL, words + _pairs(rows) + framed)


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.1f} ms a step"


def _monitoring(results: Results) -> str:
    seen, parts = results.seen, []
    if seen.gpus:
        words = f"Four GPUs that a script plays: {SCRIPT}. {seen.series} series in a scrape."
        rows = [_gpu(each) for each in seen.gpus]
        heads = ("GPU", "name", "answers", "busy", "memory", "power", "temperature")
        parts.append(f"<h3>Exporter {SCRIPTED}</h3><p>{escape(words)}</p>{_table(heads, rows)}")
    if results.monitored:
        parts.append(_prometheus(results))
    if not parts:
        return ""
    return _section("monitoring", "Monitoring", "", "".join(parts))


def _gpu(gpu: Gpu) -> tuple[str, ...]:
    gib = None if gpu.memory is None else gpu.memory / 2**30
    return (
        gpu.number, gpu.name, "yes" if gpu.up else "no: lost", _figure(gpu.busy, "{:.0%}"), _figure(gib, "{:.0f} GiB"),
        _figure(gpu.power, "{:.0f} W"), _figure(gpu.temperature, "{:.0f} °C"),
    )  # fmt: skip


def _prometheus(results: Results) -> str:
    seen = results.seen
    if not seen.at:
        return "<h3>Prometheus</h3><p>The training ended before Prometheus had scraped it.</p>"
    at = time.strftime("%H:%M:%S UTC", time.gmtime(seen.at))
    targets = [(each.job, each.address, each.health, f"{1000 * each.seconds:.0f} ms") for each in seen.targets]
    firing = [
        (each.name, each.severity, each.state, _clock(each.since), each.summary, each.runbook) for each in seen.alerts
    ]
    quiet = sorted(set(seen.rules) - {each.name for each in seen.alerts})
    badge = SCRIPTED if results.scripted else REAL
    dashboards = ""
    if results.dashboards is not None:
        dashboards = (
            f'<p><a href="{escape(results.dashboards)}">The four dashboards</a>, drawn from this Prometheus without '
            "Grafana (a file beside this page).</p>"
        )
    return (
        f"<h3>Prometheus {REAL}</h3><p>The Prometheus of this machine with the project's own rules, unchanged, and "
        f"a scrape every {INTERVAL_SECONDS} s instead of every 15. State at {at}, while the training ran.</p>"
        f"{_table(('job', 'address', 'health', 'scrape took'), targets)}"
        f"<h3>Alerts {badge}</h3>"
        f"{_table(('alert', 'severity', 'state', 'since', 'what it says', 'runbook'), firing)}"
        f'<p class="small">{len(quiet)} further alerts are defined and are quiet: {escape(", ".join(quiet))}. '
        "Watchdog always fires: it shows that alerts arrive. Many rules wait longer than this demo runs. A "
        "runbook is a file of the repository and a heading in it.</p>"
        f"{dashboards}"
    )


def _commands(results: Results) -> str:
    rows = []
    for record in results.records:
        took = "" if record.seconds is None else f"{record.seconds:.1f} s"
        took += ", beside the others" if record.served else ""
        took = f'{escape(took)} <b class="firing">failed</b>' if record.failed else escape(took)
        log = f"{record.log.parent.name}/{record.log.name}"
        rows.append(
            f"<tr><td>{escape(record.purpose)}<pre>{escape(record.command)}</pre></td><td>{took}</td>"
            f'<td><a href="{escape(log)}">{escape(record.log.name)}</a></td></tr>'
        )
    head = "<thead><tr><th>command</th><th>time</th><th>output</th></tr></thead>"
    body = f"<tbody>{''.join(rows)}</tbody>"
    table = f'<div class="wide"><table class="commands">{head}{body}</table></div>'
    return _section("commands", "Commands", REAL, "<p>Run from the top of the repository.</p>" + table)


def _pairs(rows: Iterable[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows if value)
    return f'<dl class="pairs">{items}</dl>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(each)}</td>' for each in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    marked = {"firing": "firing", "pending": "pending", "down": "firing", "no: lost": "firing"}.get(text)
    return escape(text) if marked is None else f'<b class="{marked}">{escape(text)}</b>'


def _figure(value: Any, form: str) -> str:
    return form.format(value) if isinstance(value, int | float) else ""


def _clock(moment: str) -> str:
    """Time of day of a moment in RFC 3339, to the second; as it is where it is no such moment."""
    return moment.partition("T")[2][:8] + " UTC" if "T" in moment else moment


def _length(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def write(results: Results, path: Path) -> None:
    """Writes the page, whole or not at all."""
    write_file(path, page(results))
