"""Text front end of a run: which units, which language, and numbers as words; and what keeps its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tones import Corpus, as_shards, tone, write_wav

from voxyard.corpus import CorpusError, espeak
from voxyard.corpus.demo import MARK
from voxyard.corpus.text import SYMBOLS_HASH, Tokenizer, decode
from voxyard.speech.reading.reader import READING_VERSION
from voxyard.trainer.config import ModelConfig, TrainConfig
from voxyard.trainer.corpora import open_corpora
from voxyard.trainer.text.front_end import READING, choose, described, tokenizer_of, with_text_front_end
from voxyard.trainer.text.reader import TextReader
from voxyard.trainer.voice import directory
from voxyard.trainer.voice.frontend import VoiceFrontend

OLD = {"text_units": "characters", "language": "en-us"}  # what checkpoints said before numbers were read


def corpus(where: Path, *texts: str) -> Path:
    made = Corpus(where)
    for number, text in enumerate(texts or ("hello there", "good morning")):
        made.add(f"c{number}", text, 1.5)
    return where


def marked(where: Path, *texts: str) -> Path:
    """A corpus that says its language, as the demo's does."""
    corpus(where, *texts)
    (where / MARK).write_text("{}")
    return where


def checkpoint(where: Path, model: dict[str, Any], **meta: Any) -> Path:
    step = where / "step-00000002"
    step.mkdir(parents=True)
    (step / "meta.json").write_text(json.dumps({"config": {"model": model}, **meta}))
    return where


def chosen(where: Path, **model: Any) -> tuple[str, str | None, bool | None]:
    found = choose(ModelConfig(**model), where)
    return found.text_units, found.language, found.read_words


def test_phonemes_and_words_are_the_default_where_the_corpus_says_its_language(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    where = marked(tmp_path / "demo")
    assert chosen(where) == ("phonemes", "en-us", True)
    assert caplog.messages == [
        "Text: phonemes of en-us by espeak-ng; numbers, dates and units read as words (reading "
        f"{READING_VERSION}) (the language is known)"
    ]
    assert chosen(where, read_words=False) == ("phonemes", "en-us", False)
    assert chosen(where, text_units="characters") == ("characters", "en-us", True)
    assert chosen(where, language="de") == ("phonemes", "de", True)


def test_characters_are_the_default_where_it_is_not_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    where = corpus(tmp_path / "corpus")
    assert chosen(where) == ("characters", None, False)
    assert "not known; --language CODE takes phonemes" in caplog.text
    assert chosen(where, language="en-gb") == ("phonemes", "en-gb", True)
    assert chosen(where, text_units="phonemes") == ("phonemes", "en-us", True)
    assert "no --language is given" in caplog.text
    assert chosen(where, read_words=True) == ("characters", None, False)
    assert "--read-words has no effect" in caplog.text


@pytest.mark.parametrize(
    ("locales", "language", "units"),
    [(("de", "de"), "de", "phonemes"), (("zh-CN", "zh-CN"), "cmn", "phonemes"), (("de", "fr"), None, "characters")],
)
def test_common_voice_says_its_language(tmp_path: Path, locales: tuple[str, ...], language: str, units: str) -> None:
    (tmp_path / "clips").mkdir()
    rows = ["client_id\tpath\tsentence\tlocale"]
    for number, locale in enumerate(locales):
        write_wav(tmp_path / f"clips/{number}.wav", tone(1.0))
        rows.append(f"anna\t{number}.wav\tHallo.\t{locale}")
    (tmp_path / "validated.tsv").write_text("\n".join(rows) + "\n")
    assert chosen(tmp_path)[:2] == (units, language)


def test_without_espeak_the_default_says_why_it_takes_characters_and_who_asks_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    where = marked(tmp_path / "demo")
    monkeypatch.setattr(espeak, "_espeak", None)
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    assert chosen(where) == ("characters", "en-us", True)
    assert "no phonemes: espeak-ng is needed" in caplog.text
    assert "pip install espeakng-loader" in caplog.text
    asked = TrainConfig.model_validate({"data": {"train_data": where}, "model": {"text_units": "phonemes"}})
    with pytest.raises(CorpusError, match="pip install espeakng-loader"):
        open_corpora(asked)


def test_a_language_without_a_voice_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A warning, not only a line of the start: the user has asked for it."""
    caplog.set_level("WARNING")
    assert chosen(corpus(tmp_path / "corpus"), language="xx") == ("characters", "xx", True)
    assert "no phonemes: espeak-ng has no voice for the language 'xx'" in caplog.text


def test_a_checkpoint_keeps_its_front_end(tmp_path: Path) -> None:
    """One of before reads letters, and numbers as they are written."""
    where, old = marked(tmp_path / "demo"), checkpoint(tmp_path / "old", OLD)
    new = checkpoint(tmp_path / "new", {"text_units": "phonemes", "language": "de", "read_words": True})
    for found in (choose(ModelConfig(), where, resumed=old), choose(ModelConfig(), where, base=old)):
        assert (found.text_units, found.read_words) == ("characters", False)
    for found in (choose(ModelConfig(), where, resumed=new), choose(ModelConfig(), where, base=new)):
        assert found.text_units == "phonemes"
    assert choose(ModelConfig(), where, resumed=new).language == "de"
    assert choose(ModelConfig(), where, base=new).language == "en-us"  # the corpus' own
    assert choose(ModelConfig(read_words=True), where, resumed=old).read_words
    config = TrainConfig.model_validate(
        {"data": {"train_data": where}, "training": {"checkpoint_dir": old, "resume": False}}
    )
    assert with_text_front_end(config).model.text_units == "phonemes"
    once = with_text_front_end(config)
    assert with_text_front_end(once) is once


def test_shards_keep_their_front_end_and_another_reading_is_refused(tmp_path: Path) -> None:
    where = marked(tmp_path / "demo", "I owe $5.", "It is 3 km.")
    for name, normaliser in (("old", None), ("new", READING)):
        as_shards(where, tmp_path / name, normaliser=normaliser, max_dropped_text=1)
    index = tmp_path / "old/index.json"
    before = json.loads(index.read_text())
    del before["reading"]  # as shards of before
    index.write_text(json.dumps(before))
    assert chosen(tmp_path / "old") == ("characters", "en-us", False)
    assert chosen(tmp_path / "new") == ("characters", "en-us", True)
    read = {name: open_corpora(config_of(tmp_path / name)).training for name in ("old", "new")}
    assert [decode(read[name].read(0).tokens) for name in read] == ["i owe 5.", "i owe five dollars."]
    with pytest.raises(CorpusError, match=rf"reading 0 \(wanted: {READING_VERSION}\)"):
        open_corpora(config_of(tmp_path / "old", read_words=True))
    with pytest.raises(CorpusError, match=rf"reading {READING_VERSION} \(wanted: 0\)"):
        open_corpora(config_of(tmp_path / "new", read_words=False))


def config_of(where: Path, **model: Any) -> TrainConfig:
    data = {"train_data": where, "validation_share": 0, "max_dropped_text": 1}
    return TrainConfig.model_validate({"data": data, "model": model})


@pytest.mark.parametrize("units", ["characters", "phonemes"])
def test_a_corpus_is_read_in_the_words_of_the_speech_room(tmp_path: Path, units: str) -> None:
    where = marked(tmp_path / "demo", "Dr. Lee paid $5.50 on 3 May 1999.", "It is 3 km.")
    words = "Doctor Lee paid five dollars fifty on the third of May, nineteen ninety-nine."
    assert READING.words("Dr. Lee paid $5.50 on 3 May 1999.", "en-us") == words
    source = open_corpora(config_of(where, text_units=units)).training
    assert decode(source.read(0).tokens) == decode(Tokenizer(units).encode(words))  # type: ignore[arg-type]
    plain = open_corpora(config_of(where, text_units=units, read_words=False)).training
    assert decode(plain.read(0).tokens) != decode(source.read(0).tokens)


def test_chinese_is_read_by_its_voice_and_its_rules() -> None:
    assert READING.words("3%", "cmn") == READING.words("3%", "zh")


def voice_file(where: Path, model: dict[str, Any], **more: Any) -> Path:
    where.mkdir()
    meta = {
        "format": 1, "voxyard": "0", "config": {"model": model}, "speakers": ["anna"], "vocoder": "griffin-lim",
        "symbols": SYMBOLS_HASH, "step": 2, "sha256": "0" * 64, **more,
    }  # fmt: skip
    (where / directory.META).write_text(json.dumps(meta))
    return where


def test_a_voice_reads_as_it_was_trained_and_one_of_before_as_ever(tmp_path: Path) -> None:
    old = directory.read(voice_file(tmp_path / "old", OLD))
    new = directory.read(voice_file(tmp_path / "new", {**OLD, "read_words": True}, reading=READING_VERSION))
    assert (old.reading, new.reading) == (0, READING_VERSION)
    assert tokenizer_of(old.config.model).normaliser is None
    assert tokenizer_of(new.config.model).normaliser is READING
    assert [TextReader(voice.config).without_signs("$5").strip() for voice in (old, new)] == ["5", "five dollars"]
    assert "as they are written" in described(old.config.model)
    assert VoiceFrontend(new, "cpu", 1).notes == ()


def test_a_voice_of_another_reading_says_so(tmp_path: Path) -> None:
    voice = directory.read(voice_file(tmp_path / "v", {**OLD, "read_words": True}, reading=READING_VERSION + 1))
    (note,) = VoiceFrontend(voice, "cpu", 1).notes
    assert f"reading {READING_VERSION + 1} of numbers" in note
