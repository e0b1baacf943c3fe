"""The corpora of a run: opened with the run's settings, and what is held out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tones import Corpus, as_shards

from voxyard.corpus import CorpusError, Example
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.corpora import feature_settings, open_corpora
from voxyard.trainer.errors import TrainerError


def _config(data: dict[str, Any], **model: Any) -> TrainConfig:
    return TrainConfig.model_validate({"data": data, "model": model})


def _corpus(directory: Path, speakers: list[str]) -> Path:
    made = Corpus(directory)
    for i, speaker in enumerate(speakers):
        made.add(f"c{i}", "x" * 30, 0.4, speaker)  # 34 frames of 256 samples
    return directory


def test_a_speaker_is_the_same_number_in_training_and_validation(tmp_path: Path) -> None:
    train, val = _corpus(tmp_path / "train", ["adam", "mia", "zoe"]), _corpus(tmp_path / "val", ["zoe", "mia"])
    corpora = open_corpora(_config({"train_data": train, "val_data": val}))
    assert corpora.validation is not None
    assert corpora.speakers == corpora.validation.speakers == ("adam", "mia", "zoe")
    assert [corpora.validation.read(i).speaker for i in range(2)] == [2, 1]


def test_a_text_must_fit_the_hop_of_the_model(tmp_path: Path) -> None:
    where = _corpus(tmp_path / "train", ["x", "x"])
    assert len(open_corpora(_config({"train_data": where})).training) == 2
    with pytest.raises(CorpusError, match="2 of 2 clips"):
        open_corpora(_config({"train_data": where}, hop_length=512))


def mel_of_zeros(example: Example) -> dict[str, np.ndarray]:
    return {"mel": np.zeros((len(example.pcm) // 256, 80), np.float32)}


def test_features_made_with_other_settings_are_refused(tmp_path: Path) -> None:
    """`corpus prepare --features` for another model."""
    where, config = _corpus(tmp_path / "train", ["x", "x"]), _config({})

    as_shards(where, tmp_path / "shards", feature_settings=feature_settings(config), features=mel_of_zeros)
    data = {"train_data": tmp_path / "shards"}
    assert open_corpora(_config(data)).training.feature_names == ("mel",)
    for name, value in {"mel_high_hz": 7600.0, "fft_size": 2048}.items():
        with pytest.raises(CorpusError, match=f"{name} .*wanted: {value}"):
            open_corpora(_config(data, **{name: value}))
    with pytest.raises(CorpusError, match=r"pre_emphasis 0\.0 \(wanted: 0\.97\)"):
        open_corpora(_config(data | {"pre_emphasis": 0.97}))


def test_features_of_the_version_with_silence_beyond_the_edges_are_refused(tmp_path: Path) -> None:
    """Nothing in their description says so; their mels would be learned beside others."""
    where, config = _corpus(tmp_path / "train", ["x", "x"]), _config({})
    settings = {name: value for name, value in feature_settings(config).items() if name != "mel_edges"}
    as_shards(where, tmp_path / "shards", feature_settings=settings, features=mel_of_zeros)
    with pytest.raises(
        CorpusError, match=r"mel_edges of an older version \(wanted: reflect\).*prepare the corpus again"
    ):
        open_corpora(_config({"train_data": tmp_path / "shards"}))


def test_texts_that_the_model_cannot_read_end_a_run_before_it_begins(tmp_path: Path) -> None:
    """`voxyard train` on recordings and on shards, by the run's own setting."""
    corpus = Corpus(tmp_path / "corpus")
    for i in range(4):
        corpus.add(f"c{i}", "здравствуйте, ok", 0.5).add(f"d{i}", "schöne Grüße, ok", 0.5)
    with pytest.raises(CorpusError, match="48 of 60 characters"):
        open_corpora(_config({"train_data": corpus.directory}))
    allowed = _config({"train_data": corpus.directory, "max_dropped_text": 0.5})
    found = open_corpora(allowed).coverage
    assert found is not None
    assert (found.lost, found.characters, found.folded) == (48, 116, {"ö": 4, "ü": 4, "ß": 4})
    shards = as_shards(corpus.directory, tmp_path / "shards", max_dropped_text=0.5).path
    with pytest.raises(CorpusError, match="48 of 116 characters"):
        open_corpora(_config({"train_data": shards}))
    assert open_corpora(_config({"train_data": shards, "max_dropped_text": 0.5})).coverage == found


@pytest.mark.parametrize(("cache", "refused"), [({"cache_dataset": True}, True), ({"cache_file": "cache"}, False)])
def test_only_a_cache_in_memory_must_fit_into_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: dict[str, Any], refused: bool
) -> None:
    corpus = _corpus(tmp_path / "corpus", ["a", "a"])
    given = {name: tmp_path / value if value == "cache" else value for name, value in cache.items()}
    config = _config({"train_data": corpus, **given})
    assert len(open_corpora(config).training) == 2
    monkeypatch.setattr("voxyard.trainer.corpora.available_bytes", lambda: 10)
    if refused:
        with pytest.raises(TrainerError, match=r"--cache-dataset needs .*: use --cache-file PATH"):
            open_corpora(config)
    else:
        assert len(open_corpora(config).training) == 2
