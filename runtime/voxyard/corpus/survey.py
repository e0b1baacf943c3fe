"""`voxyard corpus check`: reads a whole corpus and says what is in it and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from voxyard.corpus.audio import read_pcm
from voxyard.corpus.examples import CorpusError
from voxyard.corpus.ljspeech import BadClip, Contents, Line, read_contents, wav_path
from voxyard.corpus.text import Tokenizer


@dataclass(frozen=True)
class Survey:
    """What a corpus holds."""

    path: str
    clips: int
    seconds: float
    rates: Mapping[int, int]  # sample rate → clips
    channels: Mapping[int, int]
    speakers: Mapping[str, int]
    seconds_percentiles: Mapping[int, float]
    tokens_percentiles: Mapping[int, float]
    unknown_symbols: Mapping[str, int]
    bad: tuple[BadClip, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self)

    def render(self) -> str:
        """Everything as text."""
        lines = [
            f"{self.path}: {self.clips} clips, {self.seconds / 60:.1f} minutes",
            f"sample rates  {_counted(self.rates, ' Hz')}",
            f"channels      {_counted(self.channels)}",
            f"speakers      {_counted({name or 'one, unnamed': n for name, n in self.speakers.items()})}",
            f"seconds       {_percentiles(self.seconds_percentiles)}",
            f"tokens        {_percentiles(self.tokens_percentiles)}",
        ]
        if self.unknown_symbols:
            unknown = {repr(symbol): count for symbol, count in self.unknown_symbols.items()}
            lines.append(f"left out      {_counted(unknown)}: symbols that the model does not know")
        lines += [f"bad clips     {len(self.bad)}", *(f"  {one}" for one in self.bad[:20])]
        if len(self.bad) > 20:
            lines.append(f"  … and {len(self.bad) - 20} more")
        return "\n".join(lines)


def check(directory: Path, *, workers: int = 8) -> Survey:
    """Decodes every clip of an LJSpeech directory. Raises CorpusError where there is none."""
    contents = read_contents(directory, "all", Tokenizer())
    with ThreadPoolExecutor(workers) as pool:
        broken = tuple(one for one in pool.map(lambda line: _broken(directory, line), contents.lines) if one)
    return _survey(contents, broken)


def _broken(directory: Path, line: Line) -> BadClip | None:
    try:
        read_pcm(wav_path(directory, line.clip), 22050)
    except CorpusError as error:
        return BadClip(line.clip, str(error))
    return None


def _survey(contents: Contents, broken: tuple[BadClip, ...]) -> Survey:
    seconds = np.array([header.frames / header.sample_rate for header in contents.headers])
    tokens = np.array([len(one) for one in contents.tokens])
    return Survey(
        path=str(contents.directory),
        clips=len(contents.lines) - len(broken),
        seconds=float(seconds.sum()),
        rates=dict(Counter(header.sample_rate for header in contents.headers)),
        channels=dict(Counter(header.channels for header in contents.headers)),
        speakers=dict(Counter(line.speaker for line in contents.lines)),
        seconds_percentiles=_at(seconds),
        tokens_percentiles=_at(tokens),
        unknown_symbols=contents.unknown,
        bad=contents.bad + broken,
    )


def _at(values: np.ndarray[Any, Any]) -> dict[int, float]:
    return {p: round(float(np.percentile(values, p)), 2) for p in (0, 5, 50, 95, 100)} if len(values) else {}


def _counted(counts: Mapping[Any, int], unit: str = "") -> str:
    return ", ".join(f"{name}{unit} ×{count}" for name, count in counts.items()) or "none"


def _percentiles(at: Mapping[int, float]) -> str:
    names = {0: "least", 5: "5%", 50: "median", 95: "95%", 100: "most"}
    return ", ".join(f"{names[p]} {value:g}" for p, value in at.items()) or "none"
