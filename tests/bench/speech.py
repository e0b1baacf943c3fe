"""Speech benchmark (make bench-speech): a trained voice, Griffin-Lim and recordings by judges that others made.

One judge is pocketsphinx with a closed grammar: is a sound taken for the sentence that it is, among all that are
judged? The other is DNSMOS P.808, a model of what listeners say. The voice is trained on the corpus without the
sentences that are held out; each of their words is spoken in others. Its vocoder is trained beside it and heard alone
too: the mels of recordings made into sound again. Sounds, and pictures of the best checkpoint, lie in
build/bench/speech/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import paths

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices are small: a second thread would mostly wait
ROOT = Path(__file__).resolve().parents[2]
paths.add()

from bench_closed_grammar import ClosedGrammar
from bench_sentences import Sentence, held_out, one_clip_each, sentence, split, spread, write_corpus
from bench_speech_table import CONTROL, COPY, RECORDINGS, Judgement, best, figures, mos_gap, ratios, table
from bench_voices import Clips, MeanMel, Trained, Voice

from voxyard.corpus import CorpusError, make_demo
from voxyard.corpus.layouts.lines import MetadataLine
from voxyard.corpus.recordings import Recordings, read_contents
from voxyard.corpus.settings import CorpusSettings
from voxyard.corpus.text import Units
from voxyard.speech.verification.mean_opinion import P808
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.model.griffin_lim import wav_of

CORPUS = ROOT.parent / "shared" / "data" / "speech"
BUILD = ROOT / "build" / "bench"
UNITS: Units = "characters"  # of all figures in the guide
CHECKPOINTS = (5.0, 15.0, 30.0)  # minutes of training after which the voice is judged
SETTINGS = (
    "--learning-rate",
    "2e-3",
    "--warmup-steps",
    "50",
    "--batch-size",
    "8",
    "--max-steps",
    "1000000",
    "--networks",
    "acoustic,vocoder",
    "--text-units",
    UNITS,
)


class Panel:
    """Both judges, who hear all contestants speak the same sentences; the sounds are kept as files."""

    def __init__(self, grammar: ClosedGrammar, sentences: Sequence[Sentence], folder: Path) -> None:
        grammar.listen_for({each.words for each in sentences})
        self.found: dict[str, list[Judgement]] = {}
        self._grammar, self._mos, self._sentences, self._folder = grammar, P808(), sentences, folder

    def hear(self, name: str, voice: Voice) -> None:
        """Let a contestant speak every sentence."""
        judged = self.found[name] = []
        place = self._folder / name.replace(" ", "-")
        place.mkdir(parents=True)
        for number, each in enumerate(self._sentences, 1):
            sound = voice(each)
            (place / f"{each.clip}.wav").write_bytes(wav_of(sound.samples, sound.rate))
            identified = self._grammar.identify(sound.samples, sound.rate) == each.words
            judged.append(Judgement(each.clip, each.unseen, identified, self._mos.score(sound.samples, sound.rate)))
            print(f"  {name}: {number} of {len(self._sentences)}", end="\r", file=sys.stderr, flush=True)
        print(file=sys.stderr)


def main() -> None:
    """Let the contestants speak, judge them, print the tables and write the file."""
    asked = arguments()
    folder = BUILD / "speech"
    shutil.rmtree(folder, ignore_errors=True)
    corpus = asked.corpus or default_corpus(folder)
    try:
        result = measured(corpus, asked, folder)
    except CorpusError as error:
        raise SystemExit(f"--corpus {corpus}: {error}") from error
    (BUILD / "speech.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(table(result))


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--corpus", type=Path, metavar="DIR", help="recordings of an English speaker in LJSpeech layout"
    )
    parser.add_argument("--minutes", type=float, default=CHECKPOINTS[-1], help="of training; 0 leaves the voice out")
    parser.add_argument("--sentences", type=int, default=100, help="most that are judged (default: %(default)s)")
    return parser.parse_args()


def default_corpus(folder: Path) -> Path:
    """The recordings beside the repository, else the demo corpus, which espeak-ng speaks."""
    if CORPUS.is_dir():
        return CORPUS
    print(f"{CORPUS} is not there: the demo corpus (espeak-ng) is judged; --corpus DIR takes yours", file=sys.stderr)
    return make_demo(folder / "demo-corpus").path


def measured(corpus: Path, asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The whole result."""
    lines, source = opened(corpus)
    grammar = ClosedGrammar()
    every = [sentence(line.clip, line.text) for line in lines]
    can_judge = one_clip_each(every, grammar.known({word for each in every for word in each.words}))
    unseen = held_out(can_judge)
    judged = chosen(split(can_judge, unseen), asked.sentences)
    clips = Clips(source)
    panel = Panel(grammar, judged, folder)
    panel.hear(RECORDINGS, clips.recording)
    panel.hear(COPY, clips.copy)
    panel.hear(CONTROL, MeanMel(clips, judged))
    voices: dict[str, Trained] = {}
    if asked.minutes > 0:
        write_corpus(corpus, lines, unseen, folder / "corpus")
        voices = trained(panel, clips, folder, asked.minutes)
        draw(clips, voices[best(panel.found, list(voices)) or ""], judged, folder)
    facts = {
        "corpus": corpus.name,
        "clips": len(lines),
        "sentences": len(judged),
        "unseen_sentences": sum(each.unseen for each in judged),
        "left_out": len({each.words for each in every}) - len(can_judge),
        "minutes": asked.minutes,
    }
    return report(panel.found, voices, facts)


def opened(corpus: Path) -> tuple[tuple[MetadataLine, ...], Recordings]:
    """The corpus' metadata, and its clips as the trainer reads them. Raises CorpusError."""
    settings = CorpusSettings(text_units=UNITS, max_bad_share=TrainConfig().data.max_bad_share)
    return read_contents(corpus, "all", settings).lines, Recordings(corpus, "all", settings)


def chosen(sentences: Sequence[Sentence], most: int) -> list[Sentence]:
    """Sentences to judge, all of the unseen ones among them where a quarter of `most` is enough."""
    new = spread([each for each in sentences if each.unseen], most // 4)
    return [*spread([each for each in sentences if not each.unseen], most - len(new)), *new]


def checkpoints(minutes: float) -> list[float]:
    """Minutes of training after which the voice is judged, the last of them `minutes`."""
    return [*(each for each in CHECKPOINTS if each < minutes), minutes]


def trained(panel: Panel, clips: Clips, folder: Path, minutes: float) -> dict[str, Trained]:
    """The voice at each checkpoint, judged, by name of the contestant; one run that is cut and resumed."""
    voices, before = {}, 0.0
    for until in checkpoints(minutes):
        train(folder / "corpus", folder / "run", until - before)
        voice = Trained(folder / "run")
        name = f"trained {until:g} minutes"
        panel.hear(name, voice)
        panel.hear(vocoder_of(name), voice.copy_of(clips))
        voices[name], before = voice, until
    last = list(voices)[-1]
    panel.hear(f"{last} with its vocoder", voices[last].with_vocoder)
    return voices


def vocoder_of(voice: str) -> str:
    """Name of the contestant that is a trained voice's vocoder."""
    return voice.replace("trained", "vocoder copy")


def train(corpus: Path, run: Path, minutes: float) -> None:
    """Train, or train on, for so long."""
    words = [
        "train", "--train-data", corpus, "--checkpoint-dir", run, "--max-minutes", f"{minutes:g}", "--no-tensorboard",
        "--sample-text", "", *SETTINGS,
    ]  # fmt: skip
    ended = subprocess.run([sys.executable, "-m", "voxyard", *map(str, words)], stdout=sys.stderr, check=False)
    if ended.returncode:
        raise SystemExit(f"the training ended with exit code {ended.returncode}: see its messages above")


def draw(clips: Clips, voice: Trained, judged: Sequence[Sentence], folder: Path) -> None:
    """Mel and alignment of a held-out clip, or of the first one, as pictures."""
    import tensorflow as tf

    shown = next((each for each in judged if each.unseen), judged[0])
    for name, picture in voice.pictures(clips.example(shown)).items():
        (folder / f"{name}.png").write_bytes(tf.io.encode_png(picture).numpy())


def report(
    found: Mapping[str, Sequence[Judgement]], voices: Mapping[str, Trained], facts: dict[str, Any]
) -> dict[str, Any]:
    """The result as the file has it."""
    cores = len(os.sched_getaffinity(0))
    machine = {"cores": cores, "system": platform.platform(), "python": platform.python_version()}
    gap, error = mos_gap(found, COPY)
    contestants = figures(found)
    for name, voice in voices.items():
        contestants[name]["steps"] = voice.step
    more = {"contestants": contestants, "griffin_lim_mos_gap": gap, "griffin_lim_mos_gap_standard_error": error}
    last = list(voices)[-1] if voices else None
    if last is not None:
        more["vocoder_mos_gap_standard_error"] = mos_gap(found, vocoder_of(last))[1]
    made = ratios(found, last, None if last is None else vocoder_of(last))
    return {"name": "speech", "machine": machine, "ratios": made, "figures": facts | more}


if __name__ == "__main__":
    main()
