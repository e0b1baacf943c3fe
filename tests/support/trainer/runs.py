"""Shared parts of tests of whole runs: a corpus of tones, command lines, environments."""

from __future__ import annotations

import os
import sys
import wave
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
RATE = 22050
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def write_tones(directory: Path, clips: int, *, seed: int = 0) -> Path:
    """An LJSpeech-layout corpus of `clips` tones of 0.4 to 1.2 s, each with a few words."""
    draw = np.random.default_rng(seed)
    (directory / "wavs").mkdir(parents=True)
    lines = []
    for number in range(clips):
        samples = int(RATE * draw.uniform(0.4, 1.2))
        tone = np.sin(2 * np.pi * draw.uniform(100, 800) * np.arange(samples) / RATE) * draw.uniform(0.05, 0.9)
        with wave.open(str(directory / "wavs" / f"tone-{number:03d}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes((tone * 32767).astype("<i2").tobytes())
        text = " ".join(draw.choice(WORDS, int(draw.integers(1, 5))))
        lines.append(f"tone-{number:03d}|{text}|{text}")
    (directory / "metadata.csv").write_text("\n".join(lines) + "\n")
    return directory


def command(*arguments: object) -> list[str]:
    """`voxyard …` as a command line."""
    return [sys.executable, "-m", "voxyard", *(str(argument) for argument in arguments)]


def environment(**more: str) -> dict[str, str]:
    """The environment of a run in a test: the toy model can be imported."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])} | more
