"""Synthesis from a checkpoint: the speaker and language that were asked for, and long texts by sentences."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import soundfile
import toy
from voices import SMALL

from voxyard.corpus import CorpusError
from voxyard.trainer import checkpoint
from voxyard.trainer import synthesis as trained
from voxyard.trainer.config import ModelConfig, TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.model.trainable_tts import TextToSpeech
from voxyard.trainer.steps.state import named_weights

STORY = (
    "The old sailor opens the heavy door and looks at the sea for a while. Nobody has been here for many years, and "
    "the house is cold. He puts the lamp on the table, sits down and begins to write. In the morning the ship is gone."
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Saves a checkpoint of a model with random weights, and makes it the one that is opened."""

    def save(speakers: tuple[str, ...], made: Any = None, **model: Any) -> Path:
        config = TrainConfig(model=ModelConfig(**model))
        ours = TextToSpeech(config, speakers, shape=SMALL) if made is None else made
        monkeypatch.setattr(trained, "load_trainable", lambda _config, _speakers: ours)
        keras.utils.set_random_seed(1)
        state = {name: value.numpy() for name, value in named_weights(ours.build()).items()}
        meta = {"config": config.model_dump(mode="json"), "speakers": list(speakers)}
        return checkpoint.save(tmp_path / "run", 1, state, meta, keep=1)

    return save


def test_each_speaker_has_a_voice_and_the_first_is_the_default(run: Any, tmp_path: Path) -> None:
    """`--speaker NAME`."""
    where = run(("adam", "mia"))
    mels = {}
    for name in (None, "adam", "mia"):
        said = trained.synthesize(where, "Good morning.", tmp_path / "x.wav", tmp_path / f"{name}.npy", speaker=name)
        assert said.speaker == (name or "adam")
        mels[name] = np.load(tmp_path / f"{name}.npy")
    np.testing.assert_array_equal(mels[None], mels["adam"])
    assert mels["adam"].shape != mels["mia"].shape or not np.allclose(mels["adam"], mels["mia"])


def test_an_unknown_speaker_is_refused_with_those_there_are(run: Any, tmp_path: Path) -> None:
    """Nothing is written."""
    where = run(("adam", "mia"))
    with pytest.raises(TrainerError, match=r"--speaker mai: .* these speakers: adam, mia; did you mean mia\?"):
        trained.synthesize(where, "Good morning.", tmp_path / "x.wav", speaker="mai")
    assert not (tmp_path / "x.wav").exists()
    with pytest.raises(TrainerError, match="has one voice; leave --speaker out"):
        trained.synthesize(run(("",)), "Good morning.", tmp_path / "x.wav", speaker="mia")


def test_a_long_text_is_spoken_sentence_by_sentence_with_pauses(run: Any, tmp_path: Path) -> None:
    """The toy speaks half a second for every chunk."""
    where = run(("",), toy.make(TrainConfig(), ("",)))
    said = trained.synthesize(where, f"{STORY}\n\n{STORY}", tmp_path / "x.wav")
    assert said.chunks > 3
    sound, rate = soundfile.read(tmp_path / "x.wav")
    pauses = said.seconds - 0.5 * said.chunks
    assert (len(sound) / rate, rate) == (said.seconds, said.sample_rate)
    assert 0.08 * said.chunks < pauses < 0.25 * said.chunks + 0.6
    assert not sound[rate // 2 : rate // 2 + rate // 5].any()  # the pause after the first chunk


@pytest.mark.parametrize("name", ["x.wav", "x.npy"])
def test_a_disk_that_takes_only_a_part_keeps_the_older_file_and_is_told(run: Any, tmp_path: Path, name: str) -> None:
    where, folder = run(("",)), tmp_path / "made"
    folder.mkdir()
    (folder / name).write_text("old")
    mel = folder / name if name.endswith(".npy") else None
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        with pytest.raises(TrainerError, match=f"{name} cannot be written: File too large"):
            trained.synthesize(where, "Good morning.", folder / "x.wav", mel)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(name, "old")]


def test_one_sentence_that_fits_is_spoken_in_one_piece(run: Any, tmp_path: Path) -> None:
    """A file needs no short chunk to begin with, which a listener of a stream hears sooner."""
    where = run(("",), toy.make(TrainConfig(), ("",)))
    said = trained.synthesize(where, "When the rain had stopped at last, the children ran out.", tmp_path / "x.wav")
    assert said.chunks == 1


def test_a_sentence_that_cannot_be_read_is_found_before_any_is_spoken(
    run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No text is lost silently, whichever part of a document it is in."""
    where = run(("a",))
    with pytest.raises(TrainerError, match="cannot read 32 of 33 characters of 'Старый моряк"):
        trained.synthesize(where, f"{STORY}\n\nСтарый моряк открывает тяжёлую дверь.", tmp_path / "x.wav")
    assert not (tmp_path / "x.wav").exists()
    for text in ("", "* * *"):
        with pytest.raises(TrainerError, match="nothing to say"):
            trained.synthesize(where, text, tmp_path / "x.wav")
    said = trained.synthesize(where, f"Good morning.\n\n{'=' * 28}\n\nGood night.", tmp_path / "x.wav")
    assert said.texts is not None
    assert said.texts.characters == len("Goodmorning.Goodnight.")
    assert "is left out: no letter or digit" in caplog.text


def test_a_text_that_is_refused_is_not_told_who_would_speak_it(
    run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    told: list[object] = []

    def chosen(*asked: object, has_own: bool) -> str:
        told.append((asked, has_own))
        return "griffin-lim"

    monkeypatch.setattr(trained, "chosen_vocoder", chosen)
    where = run(("anna", "ben"), text_units="characters", language="en-us")
    for text, language in (("Привет, мир!", None), ("Guten Morgen.", "de")):
        with pytest.raises(TrainerError):
            trained.synthesize(where, text, tmp_path / "x.wav", language=language)
    assert not told
    assert "Speaker anna" not in caplog.text
    trained.synthesize(where, "Good morning.", tmp_path / "x.wav")
    assert len(told) == 1
    assert "Speaker anna, the first of 2" in caplog.text


@pytest.mark.slow
def test_a_model_of_phonemes_speaks_another_language_when_asked(
    run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All languages share one table of phonemes."""
    where = run(("a",), text_units="phonemes", language="en-us")
    for name in (None, "de"):
        trained.synthesize(where, "Ich gehe nach Hause.", tmp_path / "x.wav", tmp_path / f"{name}.npy", language=name)
    english, german = (np.load(tmp_path / f"{name}.npy") for name in (None, "de"))
    assert english.shape != german.shape or not np.allclose(english, german)
    assert "sounds of en-us: it speaks de with them" in caplog.text
    with pytest.raises(CorpusError, match="no voice for the language 'xx'"):
        trained.synthesize(where, "Good morning.", tmp_path / "y.wav", language="xx")


def test_a_model_of_characters_refuses_another_language(run: Any, tmp_path: Path) -> None:
    """Its letters mean the sounds of one language."""
    where = run(("a",), text_units="characters", language="en-us")
    with pytest.raises(TrainerError, match=r"--language de: .*in one language \(en-us.*--text-units phonemes"):
        trained.synthesize(where, "Guten Morgen.", tmp_path / "x.wav", language="de")
    assert trained.synthesize(where, "Good morning.", tmp_path / "x.wav", language="en-gb").step == 1


def test_a_model_without_a_choice_says_so_and_speaks_without_one(run: Any, tmp_path: Path) -> None:
    """Its `speak(model, text)` is as older models have it."""
    where = run(("adam", "mia"), toy.make(TrainConfig(), ("adam", "mia")))
    assert trained.synthesize(where, "Good morning.", tmp_path / "x.wav").seconds == 0.5
    choices: list[tuple[str, dict[str, Any]]] = [("speaker", {"speaker": "mia"}), ("language", {"language": "de"})]
    for name, choice in choices:
        with pytest.raises(TrainerError, match=f"--{name}: .*`speak` has no parameter '{name}'"):
            trained.synthesize(where, "Good morning.", tmp_path / "y.wav", **choice)
    assert not (tmp_path / "y.wav").exists()
