"""Corpora opened for a model: its speakers, its features and its symbols; what may be broken, what is found late."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from tones import RATE, Corpus, as_shards, open_corpus

import voxyard
from voxyard.corpus import CorpusError, Example, allowed_bad
from voxyard.corpus.text import decode

SPEAKERS = ("adam", "mia", "zoe")


def _as_shards(corpus: Corpus, **settings: Any) -> Path:
    return as_shards(corpus.directory, corpus.directory.with_name("shards"), **settings).path


@pytest.mark.parametrize("kind", ["recordings", "shards"])
def test_a_validation_corpus_numbers_its_speakers_like_the_training_corpus(corpus: Corpus, kind: str) -> None:
    """With a table of its own, mia's clips would be validated with adam's voice."""
    corpus.add("a", speaker="mia").add("b", speaker="zoe")
    where = corpus.directory if kind == "recordings" else _as_shards(corpus)
    source = open_corpus(where, speakers=SPEAKERS)
    assert source.speakers == SPEAKERS
    assert [source.read(i).speaker for i in range(2)] == [1, 2]
    assert open_corpus(where).speakers == ("mia", "zoe")


@pytest.mark.parametrize("kind", ["recordings", "shards"])
def test_a_speaker_that_the_model_does_not_know_is_named(corpus: Corpus, kind: str) -> None:
    corpus.add("a", speaker="mia").add("b", speaker="eve")
    where = corpus.directory if kind == "recordings" else _as_shards(corpus)
    with pytest.raises(CorpusError, match=r"eve.*training corpus|speakers.*eve"):
        open_corpus(where, speakers=SPEAKERS)


@pytest.mark.parametrize("kind", ["recordings", "shards"])
def test_a_model_of_one_voice_takes_every_speaker(corpus: Corpus, kind: str) -> None:
    """It has no table of speakers."""
    corpus.add("a", speaker="mia").add("b", speaker="eve")
    where = corpus.directory if kind == "recordings" else _as_shards(corpus)
    source = open_corpus(where, speakers=("",))
    assert source.speakers == ("",)
    assert [source.read(i).speaker for i in range(2)] == [0, 0]


def _energy(example: Example) -> Mapping[str, np.ndarray]:
    frames = len(example.pcm) // 256
    return {"energy": np.abs(example.pcm[: frames * 256]).reshape(frames, 256).mean(axis=1).astype(np.float32)}


def test_features_of_other_settings_are_refused_with_both_numbers(corpus: Corpus) -> None:
    """They would have another length or another meaning."""
    corpus.add("a")
    where = _as_shards(corpus, features=_energy, feature_settings={"hop_length": 256, "mels": 80})
    assert open_corpus(where, feature_settings={"hop_length": 256, "mels": 80}).feature_names == ("energy",)
    assert open_corpus(where).feature_names == ("energy",)
    with pytest.raises(CorpusError, match=r"mels 80 \(wanted: 40\)[^,]*prepare the corpus again"):
        open_corpus(where, feature_settings={"hop_length": 256, "mels": 40})


def test_shards_without_features_fit_every_feature_setting(corpus: Corpus) -> None:
    """Their features are computed while training."""
    corpus.add("a")
    assert open_corpus(_as_shards(corpus), feature_settings={"mels": 40}).feature_names == ()


def test_features_of_different_lengths_are_refused_with_the_clip(corpus: Corpus) -> None:
    corpus.add("a").add("b")

    def uneven(example: Example) -> Mapping[str, np.ndarray]:
        return {"pitch": np.zeros(3, np.float32), "energy": np.zeros(4, np.float32)}

    with pytest.raises(CorpusError, match=r"a: .*pitch 3, energy 4"):
        _as_shards(corpus, features=uneven)
    assert not corpus.directory.with_name("shards").exists()


@pytest.mark.parametrize(
    ("clips", "share", "allowed"),
    [(1, 0.01, 0), (19, 0.01, 0), (20, 0.01, 1), (99, 0.01, 1), (250, 0.01, 2), (100, 0.29, 29), (500, 0.0, 0)],
)
def test_one_broken_clip_of_twenty_or_more_is_always_skipped_unless_none_may_be(
    clips: int, share: float, allowed: int
) -> None:
    """1% of a small corpus would be no clip at all."""
    assert allowed_bad(clips, share) == allowed


def test_symbols_that_are_left_out_are_reported_once_for_the_corpus(
    corpus: Corpus, caplog: pytest.LogCaptureFixture
) -> None:
    corpus.add("a", "你 hello").add("b", "你 好 there").open(max_dropped_text=0.3)
    told = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert len(told) == 1
    assert "3 of 13 characters (23.08%)" in told[0]
    assert "'你' U+4F60 CJK UNIFIED IDEOGRAPH-4F60 ×2, '好' U+597D CJK UNIFIED IDEOGRAPH-597D ×1" in told[0]


def test_capitals_reach_the_phonemes(corpus: Corpus) -> None:
    """US is spelled out, us is not."""
    corpus.add("a", "US", 0.5).add("b", "us", 0.5)
    source = open_corpus(corpus.directory, text_units="phonemes")
    assert decode(source.read(0).tokens) == "jˌuːˈɛs"
    assert decode(source.read(1).tokens) == "ˌʌs"


def test_a_compressed_recording_that_ends_early_is_found_when_it_is_read(corpus: Corpus) -> None:
    """Its header is fine, and says how long it was."""
    corpus.add("a", seconds=2.0)
    soundfile.write(corpus.wav("a"), np.random.default_rng(0).uniform(-0.5, 0.5, 2 * RATE), RATE, format="FLAC")
    raw = corpus.wav("a").read_bytes()
    corpus.wav("a").write_bytes(raw[: len(raw) // 2])
    source = corpus.open()
    with pytest.raises(CorpusError, match=r"a\.wav (is cut short|cannot be decoded)"):
        source.read(0)


def test_phonemes_work_from_an_environment_whose_path_is_long(tmp_path: Path) -> None:
    """Espeak-ng itself finds no data in paths from 160 bytes on."""
    import espeakng_loader

    there = tmp_path / ("long" * 30) / ("path" * 30)
    there.mkdir(parents=True)
    (there / "espeakng_loader").symlink_to(Path(espeakng_loader.__file__).parent)
    program = "import espeakng_loader; from voxyard.corpus.espeak import phonemes; print(espeakng_loader.__file__); "
    program += "print(phonemes('hello', 'en-us'))"
    paths = [str(there), str(Path(voxyard.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"},
        capture_output=True, encoding="utf-8", timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(there / "espeakng_loader/__init__.py"), "həlˈoʊ"]
