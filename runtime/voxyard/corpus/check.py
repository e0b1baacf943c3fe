"""`voxyard corpus check`: reads a whole corpus, summarizes it and lists its faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from voxyard.corpus.audio import Header, read_pcm, too_long, unlearnable
from voxyard.corpus.coverage import Coverage, corpus_advice, refusal
from voxyard.corpus.examples import CorpusError
from voxyard.corpus.layouts.lines import BadClip, MetadataLine
from voxyard.corpus.recordings import WORKERS, Contents, read_contents
from voxyard.corpus.remarks import Heard, hear, remarks
from voxyard.corpus.settings import CorpusSettings
from voxyard.corpus.shards import EVAL, Shards, altered_files, is_shards, read_index

PLAIN = CorpusSettings()


@dataclass(frozen=True)
class CorpusReport:
    """Summary of a corpus."""

    path: str
    layout: str
    clips: int
    seconds: float
    rates: Mapping[int, int]  # sample rate → clips
    channels: Mapping[int, int]
    speakers: Mapping[str, int]
    seconds_percentiles: Mapping[int, float]
    tokens_percentiles: Mapping[int, float]
    texts: Coverage | None  # of all texts, also those too little of which is left; None in shards that do not say
    bad: tuple[BadClip, ...]
    refused: tuple[str, ...]  # lines: why it has no clips or its texts are refused, and what to do
    remarks: tuple[str, ...] = ()  # on good clips of recordings

    @property
    def passes(self) -> bool:
        """True where there are clips, none of them is bad, and the texts are not refused."""
        return not (self.bad or self.refused)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {**asdict(self), "texts": self.texts.to_json() if self.texts else None}

    def render(self) -> str:
        """Everything as text."""
        lines = [
            f"{self.path}: {self.clips} clips, {self.seconds / 60:.1f} minutes",
            f"layout        {self.layout}",
            f"sample rates  {_counted(self.rates, ' Hz')}",
            f"channels      {_counted(self.channels)}",
            f"speakers      {_counted({name or 'one, unnamed': n for name, n in self.speakers.items()})}",
            f"seconds       {_percentiles(self.seconds_percentiles)}",
            f"tokens        {_percentiles(self.tokens_percentiles)}",
        ]
        lines += [f"texts         {said}" for said in (self.texts.sentences() if self.texts else ["not counted"])]
        lines += [f"remarks       {said}" for said in self.remarks]
        lines += [f"bad clips     {len(self.bad)}", *(f"  {one}" for one in self.bad[:20])]
        if len(self.bad) > 20:
            lines.append(f"  … and {len(self.bad) - 20} more")
        return "\n".join([*lines, *self.refused])


def check(directory: Path, settings: CorpusSettings = PLAIN) -> CorpusReport:
    """Decodes every clip of recordings, or compares shards with their checksums.

    The evaluation split of recordings is read too. The texts are read as a model with these units would read them;
    shards say themselves how theirs were. Raises CorpusError where there is no corpus, or no whole shards.
    """
    if is_shards(directory):
        return _shards_report(directory, settings.max_dropped_text)
    contents = read_contents(directory, "all", settings)
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(partial(_heard, rate=settings.sample_rate), contents.lines, contents.headers))
    empty = [] if contents.lines or contents.bad else [f"{directory} holds no clip: expected {contents.layout.looks}"]
    return _report(contents, found, empty + refusal(contents.texts, settings.max_dropped_text, settings.advice))


def _shards_report(directory: Path, limit: float) -> CorpusReport:
    index = read_index(directory)
    shards, advice = Shards(directory, None), corpus_advice(index["text_units"], index.get("language"))
    seconds = shards.samples / shards.sample_rate
    bad = [BadClip(name, "it does not hold what was written") for name in altered_files(directory, index)]
    speakers: Counter[str] = Counter()
    for i, clip in enumerate(shards.ids):
        example = shards.read(i)
        speakers[shards.speakers[example.speaker]] += 1
        if fault := unlearnable(example.pcm, shards.sample_rate):
            bad.append(BadClip(clip, fault))
    if is_shards(directory / EVAL):
        bad += [BadClip(f"{EVAL}/{one.clip}", one.reason) for one in _shards_report(directory / EVAL, 1.0).bad]
    return CorpusReport(
        path=str(directory),
        layout="shards",
        clips=len(shards),
        seconds=float(seconds.sum()),
        rates={shards.sample_rate: len(shards)},
        channels={1: len(shards)},
        speakers=dict(speakers),
        seconds_percentiles=_at(seconds),
        tokens_percentiles=_at(shards.token_lengths),
        texts=shards.coverage,
        bad=tuple(bad),
        refused=tuple(refusal(shards.coverage or Coverage(), limit, advice)),
    )


def _heard(line: MetadataLine, header: Header, rate: int) -> BadClip | Heard:
    if fault := too_long(header.frames / header.sample_rate):
        return BadClip(line.clip, fault)
    try:
        pcm = read_pcm(line.path, rate)
    except CorpusError as error:
        return BadClip(line.clip, str(error))
    fault = unlearnable(pcm, rate)
    return BadClip(line.clip, fault) if fault else hear(pcm, rate)


def _report(contents: Contents, found: list[BadClip | Heard], refused: list[str]) -> CorpusReport:
    good = [i for i, one in enumerate(found) if isinstance(one, Heard)]
    headers = [contents.headers[i] for i in good]
    seconds = np.array([header.frames / header.sample_rate for header in headers])
    return CorpusReport(
        path=str(contents.directory),
        layout=contents.layout.name,
        clips=len(good),
        seconds=float(seconds.sum()),
        rates=dict(Counter(header.sample_rate for header in headers)),
        channels=dict(Counter(header.channels for header in headers)),
        speakers=dict(Counter(contents.lines[i].speaker for i in good)),
        seconds_percentiles=_at(seconds),
        tokens_percentiles=_at(np.array([len(contents.tokens[i]) for i in good])),
        texts=contents.texts,
        bad=contents.bad + tuple(one for one in found if isinstance(one, BadClip)),
        refused=tuple(refused),
        remarks=remarks(
            [contents.lines[i] for i in good],
            [len(contents.tokens[i]) for i in good],
            [one for one in found if isinstance(one, Heard)],
        ),
    )


def _at(values: np.ndarray[Any, Any]) -> dict[int, float]:
    return {p: round(float(np.percentile(values, p)), 2) for p in (0, 5, 50, 95, 100)} if len(values) else {}


def _counted(counts: Mapping[Any, int], unit: str = "") -> str:
    said = [f"{name}{unit} ×{count}" for name, count in list(counts.items())[:20]]
    return ", ".join(said + [f"… and {len(counts) - 20} more"] * (len(counts) > 20)) or "none"


def _percentiles(at: Mapping[int, float]) -> str:
    names = {0: "least", 5: "5%", 50: "median", 95: "95%", 100: "most"}
    return ", ".join(f"{names[p]} {value:g}" for p, value in at.items()) or "none"
