"""The demo corpus: the same each time, and no danger to what lies where it is to go."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from tones import open_corpus, tone

from voxyard.corpus import CorpusError, check, espeak, make_demo
from voxyard.corpus.demo import sentences
from voxyard.corpus.text import Tokenizer


def _bytes(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    """Whatever was spoken before; another seed gives others."""
    make_demo(tmp_path / "a", clips=4, seed=3)
    espeak.speak("Something else in between.")
    make_demo(tmp_path / "b", clips=4, seed=3)
    make_demo(tmp_path / "c", clips=4, seed=4)
    assert _bytes(tmp_path / "a") == _bytes(tmp_path / "b")
    assert _bytes(tmp_path / "a") != _bytes(tmp_path / "c")


def test_the_reported_figures_are_those_on_disk(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    made = make_demo(tmp_path / "demo", clips=3, progress=lambda done, total: seen.append((done, total)))
    survey = check(tmp_path / "demo")
    seconds = sum(soundfile.info(str(path)).duration for path in (tmp_path / "demo/wavs").iterdir())
    assert (made.clips, survey.clips, survey.bad) == (3, 3, ())
    assert made.seconds == pytest.approx(seconds)
    assert survey.seconds == pytest.approx(seconds)
    assert re.fullmatch(r".*demo: 3 clips, 0\.\d minutes of speech by espeak-ng", str(made))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert dict(survey.rates) == {22050: 3}


def test_every_sentence_is_there_once_and_known_to_the_model() -> None:
    """In characters and in phonemes."""
    texts = sentences()
    assert len(set(texts)) == len(texts) == 160
    for tokenizer in (Tokenizer("characters"), Tokenizer("phonemes")):
        lengths = [len(tokenizer.encode(text)) for text in texts]
        assert min(lengths) > 15
        assert not any(tokenizer.read(text).dropped or tokenizer.read(text).folded for text in texts)
    words = {word for text in texts for word in text.lower().strip(".").split()}
    first = {word for text in texts[:40] for word in text.lower().strip(".").split()}
    assert len(first) > 0.85 * len(words)


def test_silence_at_the_ends_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 50 ms are left, and the length that is told is that of the files."""
    spoken = np.concatenate([np.zeros(9000), 5000 * tone(1.5), np.zeros(7000)]).astype(np.int16)
    monkeypatch.setattr(espeak, "speak", lambda *_, **__: (spoken, 22050))
    made = make_demo(tmp_path / "demo", clips=2)
    assert made.seconds == pytest.approx(open_corpus(tmp_path / "demo").samples.sum() / 22050)
    for path in (tmp_path / "demo/wavs").iterdir():
        loud = np.flatnonzero(np.abs(soundfile.read(path, dtype="int16")[0].astype(int)) > 200)
        assert loud[0] <= 1103
        assert soundfile.info(str(path)).frames - loud[-1] <= 1103


@pytest.mark.parametrize("clips", [161, 10**6, 0, -1])
def test_a_number_of_clips_that_there_is_not_is_refused(tmp_path: Path, clips: int) -> None:
    with pytest.raises(CorpusError, match=f"160 sentences.*{clips}"):
        make_demo(tmp_path / "demo", clips=clips)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["a file of somebody's", "a file in a demo", "a recording in a demo", "a plain file"])
def test_foreign_files_are_refused_and_untouched(tmp_path: Path, what: str) -> None:
    target = tmp_path / "demo"
    if what == "a plain file":
        target.write_text("mine")
    elif what == "a file of somebody's":
        target.mkdir()
        (target / "thesis.txt").write_text("mine")
    else:
        make_demo(target, clips=1)
        (target / ("wavs/mine.wav" if "recording" in what else "notes.txt")).write_text("mine")
    before = _bytes(tmp_path)
    with pytest.raises(CorpusError, match="give a"):
        make_demo(target, clips=1)
    assert _bytes(tmp_path) == before


def test_a_demo_corpus_is_replaced_by_another_and_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    make_demo(tmp_path / "demo", clips=3)
    make_demo(tmp_path / "demo", clips=1)
    assert len(open_corpus(tmp_path / "demo")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_a_directory_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(CorpusError, match="/proc/none"):
        make_demo(Path("/proc/none/at/all"), clips=1)


@pytest.mark.parametrize("seed", [0, 3])
def test_each_sound_is_that_of_its_own_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The double says how long a text is by how long it sounds."""

    def speak(text: str, *, pitch: int) -> tuple[NDArray[np.int16], int]:
        return np.full(1000 * len(text), 9000, np.int16), 22050

    monkeypatch.setattr(espeak, "speak", speak)
    make_demo(tmp_path / "demo", clips=12, seed=seed)
    lines = (tmp_path / "demo/metadata.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 12
    assert len({len(line.split("|")[1]) for line in lines}) > 3
    for line in lines:
        name, text, _ = line.split("|")
        assert soundfile.info(str(tmp_path / "demo/wavs" / f"{name}.wav")).frames == 1000 * len(text)
