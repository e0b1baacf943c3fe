"""The demo corpus: espeak-ng speaks a list of sentences, so that nothing has to be downloaded."""

from __future__ import annotations

import itertools
import json
import re
import wave
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voxyard.corpus import espeak
from voxyard.corpus.directories import whole_directory
from voxyard.corpus.examples import CorpusError

SUBJECTS = (
    "The old sailor", "My younger sister", "A quiet teacher", "The baker", "Our neighbour", "Every farmer",
    "The tall doctor", "A brown fox", "The village choir", "His cousin",
)  # fmt: skip
ACTIONS = (
    "carries a green lantern", "watches the harbour", "paints the garden wall", "bakes fresh bread",
    "hears the church bell", "follows a narrow path", "opens the heavy door", "sings about the sea",
    "measures the deep water", "draws a large map", "keeps three grey horses", "finds the missing key",
    "writes a short letter", "feeds the hungry birds", "mends a broken chair", "counts the bright stars",
)  # fmt: skip
TIMES = (
    "in the morning",
    "at noon",
    "before the storm",
    "every Thursday",
    "after supper",
    "without a sound",
    "with joy",
)
MARK = "demo.json"
LANGUAGE = "en-us"
SAMPLE_RATE = 22050  # espeak-ng's


@dataclass(frozen=True, slots=True)
class Demo:
    """Demo corpus on disk."""

    path: Path
    clips: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.path}: {self.clips} clips, {self.seconds / 60:.1f} minutes of speech by espeak-ng"


def sentences() -> tuple[str, ...]:
    """All sentences, in an order in which the first few already hold most of the words."""
    made = []
    for number, (subject, action) in enumerate(itertools.product(SUBJECTS, ACTIONS)):
        ending = "" if number % 3 == 0 else " " + TIMES[number % len(TIMES)]
        made.append(f"{subject} {action}{ending}.")
    return tuple(made[(step * 17) % len(made)] for step in range(len(made)))  # 17 and their number share no factor


def make_demo(
    directory: Path, *, clips: int | None = None, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> Demo:
    """Writes an LJSpeech-layout corpus of 22,050 Hz mono recordings. The same arguments give the same bytes.

    `seed` shifts the list and the voice's pitch. Raises CorpusError where the directory holds something else.
    """
    texts = sentences()
    count = len(texts) if clips is None else clips
    if not 1 <= count <= len(texts):
        raise CorpusError(f"the demo has {len(texts)} sentences: ask for at most so many clips, not {count}")
    espeak.restart()
    lines, samples = [], 0
    with whole_directory(directory, "a demo corpus", _only_demo) as unfinished:
        (unfinished / "wavs").mkdir()
        for number in range(count):
            text, name = texts[(number + seed) % len(texts)], f"demo-{number:04d}"
            sound, rate = speak_text(text, seed)
            _write_wav(unfinished / "wavs" / f"{name}.wav", sound, rate)
            lines.append(f"{name}|{text}|{text}")
            samples += len(sound)
            if progress is not None:
                progress(number + 1, count)
        (unfinished / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (unfinished / MARK).write_text(json.dumps({"clips": count, "seed": seed}) + "\n", encoding="utf-8")
    return Demo(directory, count, samples / SAMPLE_RATE)


def speak_text(text: str, seed: int = 0) -> tuple[NDArray[np.int16], int]:
    """A text in the voice of the demo corpus: samples (n,) and their rate. Raises CorpusError without espeak-ng."""
    spoken, rate = espeak.speak(text, pitch=45 + seed % 10)
    return _trimmed(spoken), rate


def _only_demo(directory: Path) -> bool:
    """True where a directory holds a demo corpus and no other files."""
    if {path.name for path in directory.iterdir()} != {MARK, "metadata.csv", "wavs"}:
        return False
    return all(re.fullmatch(r"demo-[0-9]{4}\.wav", path.name) for path in (directory / "wavs").glob("*"))


def _trimmed(sound: NDArray[np.int16], *, margin: int = 1100, floor: int = 200) -> NDArray[np.int16]:
    """The sound with at most 50 ms of silence at either end."""
    loud = np.flatnonzero(np.abs(sound.astype(np.int32)) > floor)
    if len(loud) == 0:
        return sound
    return sound[max(0, loud[0] - margin) : loud[-1] + margin]


def _write_wav(path: Path, sound: NDArray[np.int16], rate: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(sound.astype("<i2").tobytes())
