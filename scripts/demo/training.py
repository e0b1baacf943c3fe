"""The trainer's part of the demo: corpus, profile, training, and a sentence that the trained model speaks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from demo.processes import ChildCommand, DemoError, command
from demo.sound import Mel, Sound, distance, read
from voxyard.corpus.demo import speak_text

OTHERS = 5  # recordings of other sentences that give the distance its scale

_STEP = re.compile(r"^step (\d+)/.*\bloss ([0-9.e+-]+)(?: at step (\d+))?", re.MULTILINE)
_VALIDATION = re.compile(r"^Validation at step (\d+): .*\btotal ([0-9.e+-]+).*\brefined_mel ([0-9.e+-]+)", re.MULTILINE)


@dataclass(frozen=True)
class Settings:
    """Settings of the demo that are passed on to the trainer."""

    minutes: float
    steps: int
    metrics_port: int


class Places:
    """Files and folders of the demo below its folder."""

    def __init__(self, folder: Path) -> None:
        self.corpus = folder / "corpus"  # the demo's own
        self.shards = folder / "shards"  # the corpus as the trainer reads it
        self.run = folder / "run"  # checkpoints and report of the training
        self.profile = folder / "profile.html"
        self.spoken = folder / "spoken.wav"  # by the trained model
        self.spoken_mel = folder / "spoken.npy"  # as it predicts it


@dataclass(frozen=True)
class Curve:
    """A loss over the steps of a run."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Reading:
    """The sentence that the trained model spoke, beside the voice of its corpus where that can be asked."""

    text: str
    held_out: bool
    spoken: Sound
    reference: Sound | None = None
    distance: float | None = None  # nepers, from the predicted mel to the reference's
    others: tuple[float, ...] = ()  # the reference to recordings of other sentences
    again: float | None = None  # two readings of one sentence by the voice of the corpus


def shared_flags(places: Places) -> list[object]:
    """Flags of the training that the profile takes as well."""
    return [
        "--device", "cpu", "--data-gpu", 0, "--model-gpu", 1, "--train-data", places.shards, "--model-size", "tiny",
        "--batch-size", 8, "--buckets", 2,
    ]  # fmt: skip


def make_corpus(voxyard: str, places: Places, clips: int | None) -> ChildCommand:
    """The command that makes the demo corpus."""
    some = [] if clips is None else ["--clips", clips]
    return command(voxyard, "corpus", "demo", places.corpus, *some)


def prepare(voxyard: str, places: Places, corpus: Path) -> ChildCommand:
    """The command that writes the shards."""
    return command(voxyard, "corpus", "prepare", corpus, places.shards)


def profile(voxyard: str, places: Places, steps: int) -> ChildCommand:
    """The command that measures the stages."""
    flags = [*shared_flags(places), "--num-steps", steps, "--html", places.profile, "--json"]
    return command(voxyard, "profile", *flags, stdout=places.profile.with_suffix(".json"))


def train(voxyard: str, places: Places, settings: Settings, sentence: str) -> ChildCommand:
    """The command that trains."""
    return command(
        voxyard, "train", *shared_flags(places),
        "--learning-rate", "2e-3", "--warmup-steps", 30,
        "--max-steps", settings.steps, "--max-minutes", f"{settings.minutes:g}",
        "--validate-every", max(5, settings.steps // 8), "--image-every", 100, "--sample-text", sentence,
        "--metrics-port", settings.metrics_port, "--checkpoint-dir", places.run,
    )  # fmt: skip


def synthesize(voxyard: str, places: Places, sentence: str) -> ChildCommand:
    """The command that lets the trained model speak."""
    out = ["--out", places.spoken, "--mel", places.spoken_mel]
    return command(voxyard, "synthesize", "--checkpoint", places.run, "--text", sentence, *out)


def curves(log: str, report: Mapping[str, Any]) -> tuple[Curve, ...]:
    """Training loss, validation loss, and the validation's mel error, from the lines of a run and its report."""
    losses = list({float(of or step): float(loss) for step, loss, of in _STEP.findall(log)}.items())
    if (last := report.get("losses", {}).get("total")) is not None:
        losses = [(step, loss) for step, loss in losses if step < report["last_step"]] + [(report["last_step"], last)]
    validations = [tuple(map(float, found)) for found in _VALIDATION.findall(log)]
    return (
        Curve("training loss", tuple(losses)),
        Curve("validation loss", tuple((step, total) for step, total, _ in validations)),
        Curve("mel error on held-out clips", tuple((step, mel) for step, _, mel in validations)),
    )


def report(places: Places) -> Mapping[str, Any]:
    """The report of the run. Raises DemoError where there is none."""
    return _json(places.run / "report.json")


def profiled(places: Places) -> Mapping[str, Any]:
    """The result of the profile. Raises DemoError where there is none."""
    return _json(places.profile.with_suffix(".json"))


def texts(corpus: Path) -> dict[str, str]:
    """Clip ids to texts. Raises DemoError for a corpus that is not in LJSpeech's layout."""
    try:
        lines = (corpus / "metadata.csv").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DemoError(f"{corpus}: {error.strerror}: expected metadata.csv and wavs/, as LJSpeech has them") from error
    return {(cells := line.split("|"))[0]: cells[1] for line in lines if "|" in line}


def first_recording(corpus: Path) -> tuple[str, Sound]:
    """Text and sound of the first clip. Raises DemoError where it cannot be read."""
    known = texts(corpus)
    if not known:
        raise DemoError(f"{corpus}/metadata.csv has no line id|text: expected one for each clip")
    clip, text = next(iter(known.items()))
    return text, recording(corpus, clip)


def recording(corpus: Path, clip: str) -> Sound:
    """Sound of a clip. Raises DemoError where it cannot be read."""
    path = corpus / "wavs" / f"{clip}.wav"
    try:
        return read(path)
    except (OSError, RuntimeError) as error:  # soundfile's own is a RuntimeError
        raise DemoError(f"{path} cannot be read: {error}") from error


def is_held_out(sentence: str, trained: Iterable[str]) -> bool:
    """True where no text of the corpus is this sentence, whatever its case, spaces and punctuation."""
    return _plain(sentence) not in {_plain(text) for text in trained}


def reading(places: Places, corpus: Path, sentence: str, *, own_voice: bool) -> Reading:
    """The sentence that was spoken; with `own_voice` it is compared with espeak-ng's reading of it."""
    known = texts(corpus)
    held_out, spoken = is_held_out(sentence, known.values()), read(places.spoken)
    if not own_voice:
        return Reading(sentence, held_out, spoken)
    reference, mel = _read_aloud(sentence), _mel(places.spoken_mel)
    clips = [clip for clip, text in known.items() if _plain(text) != _plain(sentence)][:OTHERS]
    others = tuple(distance(recording(corpus, clip).mel(), reference.mel()) for clip in clips)
    first, again = next(iter(known)), next(iter(known.values()))
    return Reading(
        sentence, held_out, spoken, reference, distance(mel, reference.mel()), others,
        distance(_read_aloud(again).mel(), recording(corpus, first).mel()),
    )  # fmt: skip


def _read_aloud(text: str) -> Sound:
    samples, rate = speak_text(text)
    return Sound(samples / 32768.0, rate)


def _mel(path: Path) -> Mel:
    return np.asarray(np.load(path), np.float64)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DemoError(f"{path} cannot be read: {error}") from error
    return found
