"""Corpora on disk, made in a moment: tones instead of speech."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus import CorpusSettings, Prepared, open_source, prepare
from voxyard.corpus.layouts.lines import Split
from voxyard.corpus.recordings import Recordings
from voxyard.corpus.shard_writer import Features, Progress
from voxyard.corpus.shards import Shards

RATE = 22050


def tone(seconds: float = 1.0, rate: int = RATE, hertz: float = 440.0, level: float = 0.5) -> NDArray[np.float64]:
    """A sine (samples,)."""
    return level * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def write_wav(path: Path, sound: NDArray[Any], rate: int = RATE) -> None:
    """16 bit; `sound` is (samples,) or (samples, channels), from −1 to 1."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if sound.ndim == 1 else sound.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.rint(sound * 32767).astype("<i2").tobytes())


class Corpus:
    """A directory in LJSpeech layout that grows clip by clip."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "wavs").mkdir(parents=True)
        self.lines: list[str] = []

    def wav(self, clip: str) -> Path:
        return self.directory / "wavs" / f"{clip}.wav"

    def add(self, clip: str, text: str = "hello there", seconds: float = 0.4, speaker: str | None = None) -> Corpus:
        write_wav(self.wav(clip), tone(seconds, hertz=200 + 7 * len(self.lines)))
        self.lines.append(f"{clip}|{text}|{text}" + ("" if speaker is None else f"|{speaker}"))
        return self.write()

    def write(self, lines: list[str] | None = None, name: str = "metadata.csv") -> Corpus:
        text = "".join(f"{line}\n" for line in (self.lines if lines is None else lines))
        (self.directory / name).write_text(text, encoding="utf-8")
        return self

    def open(self, max_bad_share: float = 0.0, **settings: Any) -> Recordings | Shards:
        return open_corpus(self.directory, max_bad_share=max_bad_share, **settings)


def open_corpus(
    path: Path, split: Split = "train", speakers: tuple[str, ...] | None = None, **settings: Any
) -> Recordings | Shards:
    """With the model's defaults, and no clip allowed to be broken."""
    return open_source(path, strict(**settings), split=split, speakers=speakers)


def as_shards(
    source: Path, destination: Path, *, features: Features | None = None, progress: Progress | None = None, **more: Any
) -> Prepared:
    """Likewise."""
    return prepare(source, destination, strict(**more), features=features, progress=progress)


def strict(**settings: Any) -> CorpusSettings:
    return CorpusSettings(**({"max_bad_share": 0.0} | settings))
