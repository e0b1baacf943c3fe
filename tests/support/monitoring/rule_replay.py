"""Replays scrapes of simulated hosts against the rules with promtool: alerts, and their times."""

from __future__ import annotations

import math
import os
import re
import subprocess
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import yaml
from needed_rules import groups_of, needed

RULES = Path(__file__).resolve().parents[3] / "deploy" / "prometheus" / "rules"
PATIENT = {"GOGC": "800", "GOMAXPROCS": "1"}
"""Environment of promtool: collecting its few megabytes of garbage all the time takes a third of its time, and its
threads, of which one works at a time, a quarter."""
_FIRED = re.compile(r'\{(alertname="[^}]*)\} ([0-9.E+-]+)')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Fired:
    """An alert's first moment and how long it fired, in seconds of simulated time."""

    name: str
    severity: str
    labels: Mapping[str, str]
    first: float
    seconds: float


WINDOW = 300  # moments of one host that a question covers: promtool takes at most 10,000 samples into memory for one


class Recording:
    """Samples of all series, in even steps."""

    def __init__(self, interval: float) -> None:
        """`interval` is that of scrapes and of rules, in seconds."""
        self.interval = interval
        self.steps = 0
        self.instances: set[str] = set()
        self._values: dict[str, tuple[array[int], array[float]]] = {}  # steps and values
        rules = "\n".join(file.read_text(encoding="utf-8") for file in RULES.glob("*.yaml"))
        self._read = set(re.findall(r"[a-zA-Z_:]\w*", rules))

    def add(self, instance: str, scraped: Mapping[str, Mapping[str, float] | None]) -> None:
        """One scrape of every job of a host, and what Prometheus adds: `up`."""
        self.instances.add(instance)
        for job, series in scraped.items():
            target = f'instance="{instance}",job="{job}"'
            self._put(f"up{{{target}}}", 0.0 if series is None else 1.0)
            for name, value in (series or {}).items():
                bare = name.removesuffix("}")
                self._put(f"{bare}{'' if bare.endswith('{') else ','}{target}}}", value)

    def missing(self, instance: str, job: str) -> None:
        """A target that is known and does not answer."""
        self._put(f'up{{instance="{instance}",job="{job}"}}', 0.0)

    @property
    def window(self) -> int:
        """Moments that a question covers."""
        return max(1, WINDOW // max(1, len(self.instances)))

    def step(self) -> None:
        """On to the next moment."""
        self.steps += 1

    def _put(self, series: str, value: float) -> None:
        if series.partition("{")[0] in self._read:  # the rest no rule reads
            if series not in self._values:
                self._values[series] = array("l"), array("d")
            steps, values = self._values[series]
            steps.append(self.steps)
            values.append(value)

    def document(self, directory: Path) -> Path:
        """A test of promtool that reports every alert that ever fired (it expects none)."""
        firing = 'ALERTS{alertstate="firing"}'
        every = [group for file in sorted(RULES.glob("*.yaml")) for group in groups_of(file)]
        rules = directory / "replayed-rules.yaml"
        rules.write_text(yaml.dump({"groups": needed(every, [firing], self._values)}, Dumper=yaml.CSafeDumper), "utf-8")
        lines = [
            f"rule_files: [{rules}]",
            f"evaluation_interval: {self.interval:g}s",
            "tests:",
            f"  - interval: {self.interval:g}s",
            "    input_series:",
        ]
        for series, samples in sorted(self._values.items()):
            words = " ".join(_words(zip(*samples, strict=True), self.steps))
            lines += [f"      - series: '{series}'", f"        values: '{words}'"]
        lines.append("    promql_expr_test:")
        for begin in range(0, self.steps, self.window):
            last = min(begin + self.window, self.steps) - 1
            moments = f"[{int((last - begin) * self.interval) + 1}s:{self.interval:g}s]"
            for expression in (f"min_over_time(timestamp({firing}){moments})", f"count_over_time({firing}{moments})"):
                at = int(last * self.interval)
                lines += [f"      - expr: {expression}", f"        eval_time: {at}s", "        exp_samples: []"]
        path = directory / "replay.yaml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path


def replay(recording: Recording, directory: Path, *, promtool: str = "promtool") -> list[Fired]:
    """Every alert that fired but the Watchdog, by its first moment. Raises RuntimeError where promtool fails."""
    done = subprocess.run(
        [promtool, "test", "rules", str(recording.document(directory))],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | PATIENT,
    )
    text = done.stdout + done.stderr
    parts = re.findall(r'expr: "(min_over_time|count_over_time).*?got: ?(.*?)(?=\n\s*expr: |\Z)', text, re.DOTALL)
    windows = -(-recording.steps // recording.window)
    if len(parts) != 2 * windows:
        raise RuntimeError(f"promtool did not tell what fired (it is to say `got:` {2 * windows} times): {text[:2000]}")
    firsts: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for what, part in parts:
        for alert, value in _fired(part):
            if what == "min_over_time":
                firsts[alert] = min(value, firsts.get(alert, value))
            else:
                counts[alert] += int(value)
    if not any('alertname="Watchdog"' in labels for labels in firsts):
        raise RuntimeError(f"the Watchdog does not fire: the rules were not evaluated: {text[:2000]}")
    found = []
    for text_of_labels, first in firsts.items():
        labels = dict(_LABEL.findall(text_of_labels))
        seconds = counts[text_of_labels] * recording.interval
        if labels["alertname"] != "Watchdog":
            found.append(Fired(labels["alertname"], labels["severity"], labels, first, seconds))
    return sorted(found, key=lambda each: (each.first, each.name))


def _fired(text: str) -> Iterator[tuple[str, float]]:
    for labels, value in _FIRED.findall(text):
        yield labels, float(value)


def _words(samples: Iterable[tuple[int, float]], steps: int) -> Iterator[str]:
    """Runs in promtool's notation; where a series vanishes from a scrape it is stale, as in Prometheus."""
    expected = 0
    for (value, offset), run in groupby(_numbered(samples), key=lambda each: (each[1], each[2])):
        steps_of_run = [step for step, _, _ in run]
        start, length = steps_of_run[0], len(steps_of_run)
        if start > expected:
            yield from _gap(start - expected, was_there=expected > 0)
        if offset is None:
            yield from [_number(float(value))] * length
        else:
            yield _number(float(value)) + (f"+0x{length - 1}" if length > 1 else "")
        expected = start + length
    if expected < steps:
        yield from _gap(steps - expected, was_there=True)


def _numbered(samples: Iterable[tuple[int, float]]) -> Iterator[tuple[int, str, int | None]]:
    """(step, value as text, which unbroken stretch); None for what cannot be in a run: NaN, infinity."""
    for place, (step, value) in enumerate(samples):
        yield step, repr(value), step - place if math.isfinite(value) else None


def _gap(length: int, *, was_there: bool) -> Iterator[str]:
    if was_there:
        yield "stale"
        length -= 1
    if length:
        yield f"_x{length}"


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else ("NaN" if math.isnan(value) else f"{value:+}".replace("inf", "Inf"))
