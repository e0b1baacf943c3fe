"""Texts that a model is to speak: what it and its engine refuse, the language that would help, the same in front."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from voxyard.corpus import CorpusError
from voxyard.corpus.text import SYMBOLS_HASH
from voxyard.speech.requests import Request, Unspeakable
from voxyard.speech.script import check_speakable, prepare_script
from voxyard.trainer.config import DataConfig, ModelConfig, TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.text.reader import TextReader
from voxyard.trainer.voice import directory
from voxyard.trainer.voice.engine import VoiceEngine
from voxyard.trainer.voice.frontend import VoiceFrontend

CHARACTERS = {"text_units": "characters", "language": "en-us"}
PHONEMES = {"text_units": "phonemes", "language": "en-us"}


def reader(**model: Any) -> TextReader:
    return TextReader(TrainConfig(model=ModelConfig(**model), data=DataConfig()))


def frontend(where: Path, *speakers: str, **model: Any) -> VoiceFrontend:
    meta = {
        "format": 1, "voxyard": "0", "config": {"model": model}, "speakers": speakers, "vocoder": "griffin-lim",
        "symbols": SYMBOLS_HASH, "step": 2, "sha256": "0" * 64,
    }  # fmt: skip
    (where / directory.META).write_text(json.dumps(meta))
    return VoiceFrontend(directory.read(where), "cpu", 1)


@pytest.mark.parametrize(
    ("text", "language"),
    [("Привет, мир!", "ru"), ("你好，世界。", "cmn"), ("שלום עולם", "he"), ("こんにちは", "ja")],
)
def test_a_model_of_phonemes_names_the_language_that_would_help(text: str, language: str) -> None:
    with pytest.raises(TrainerError) as refused:
        reader(**PHONEMES).read(text)
    message = str(refused.value)
    assert f"characters of {text!r}" in message
    assert "expected at most 10%" in message
    assert f"--language {language}, in the API the field `language`" in message
    assert reader(**PHONEMES).read(text, language).lettered, "and it does help"


def test_no_language_is_named_where_none_would_help() -> None:
    for model, text in ((CHARACTERS, "Привет, мир!"), (PHONEMES, "a \ue000\ue000")):
        with pytest.raises(TrainerError, match="write it with letters and signs that this model knows") as refused:
            reader(**model).read(text)
        assert "--language" not in str(refused.value)
    with pytest.raises(TrainerError, match="a model of phonemes"):
        reader(**CHARACTERS).read("Привет, мир!")


@pytest.mark.parametrize("model", [CHARACTERS, PHONEMES])
@pytest.mark.parametrize(
    "text",
    [
        "Good morning.",
        "“Good” — she said… in a café",
        "* * * good",
        "Привет, мир!",
        "x Привет",
        "😀 Hello there",
        "你好",
    ],
)
def test_the_refusal_in_front_is_that_of_the_reading(model: dict[str, Any], text: str) -> None:
    ours = reader(**model)
    try:
        ours.read(ours.without_signs(text))
        expected = None
    except TrainerError as error:
        expected = str(error)
    assert ours.refusal(text) == expected


@pytest.mark.parametrize("model", [CHARACTERS, PHONEMES])
def test_each_sentence_has_to_be_read_wherever_a_text_is_cut(model: dict[str, Any]) -> None:
    ours = reader(**model)
    around = "The boat lies in the harbour, and nobody has seen its captain since the morning. "
    with pytest.raises(TrainerError, match=r"characters of 'Привет, мир! '.* at most 10% of a sentence"):
        ours.read(f"{around * 3}Привет, мир! {around}")
    name = "He is called Ян here, as everybody in the harbour has told the two of us. "
    assert ours.read(f"{around}{name}").dropped == {"Я": 1, "н": 1}
    assert ours.read(ours.without_signs(f"{around}☃ ")).lettered


@pytest.mark.parametrize("word", ["ไทย", "ሰላም", "శాంతి", "ငြိမ်း", "ລາວ", "ខ្មែរ"])
def test_letters_whose_names_alone_a_voice_knows_are_not_read(word: str) -> None:
    with pytest.raises(TrainerError, match=r"the model cannot read \d of \d characters"):
        reader(**PHONEMES).read(word)


def test_a_text_in_another_language_is_read_by_that_language_in_phonemes_alone() -> None:
    ours = reader(**PHONEMES)
    assert ours.refusal("Привет, мир!") is not None
    assert ours.refusal("Привет, мир!", "ru") is None
    assert [ours.spoken_language(each) for each in (None, "en", "en-US", "zh-CN", "de")] == [
        None, None, None, "cmn", "de"
    ]  # fmt: skip
    assert "no voice for the language 'xx'" in str(ours.refusal("Hello.", "xx"))
    with pytest.raises(CorpusError):
        ours.spoken_language("xx")
    assert reader(**CHARACTERS).spoken_language("xx") is None, "letters are letters"


def test_the_front_end_of_a_voice_refuses_a_script_before_a_model_is_loaded(tmp_path: Path) -> None:
    front = frontend(tmp_path, "anna", **CHARACTERS)
    text = "Hello there, my friend.\n\nПривет, мир!\n\nПривет, Анна!"
    script = prepare_script(text, front, voice=None, seed=0)
    with pytest.raises(Exception, match=r"9 of 11 characters of 'Привет, мир!'.*\(so is 1 more of 3 chunks\)"):
        check_speakable(script, front)
    check_speakable(script, front, "silence")
    nothing = prepare_script("Привет, мир!", front, voice=None, seed=0)
    with pytest.raises(Exception, match="cannot read"):
        check_speakable(nothing, front, "silence")
    check_speakable(prepare_script("Hello. * * *\n\n---\n\n😀", front, voice=None, seed=0), front)


def test_the_language_that_was_named_comes_with_each_chunk(tmp_path: Path) -> None:
    front = frontend(tmp_path, "anna", **PHONEMES)
    assert {
        each.language for each in prepare_script("Привет, мир!", front, voice=None, seed=0, language="ru").requests
    } == {"ru"}
    assert {each.language for each in prepare_script("Hello.", front, voice=None, seed=0).requests} == {None}


class SpokenTexts:
    """A model that reads a text, and notes how it was asked to speak it."""

    sample_rate = 24_000

    def __init__(self, config: TrainConfig) -> None:
        self.reader, self.asked = TextReader(config), list[dict[str, Any]]()

    def speak(self, model: object, text: str, language: str | None = None, **chosen: Any) -> list[float]:
        self.reader.read(text, language)
        self.asked.append({"language": language, **chosen})
        return [0.0] * 2400


def test_the_engine_refuses_for_good_what_its_voice_cannot_speak(tmp_path: Path) -> None:
    frontend(tmp_path, "anna", "ben", **PHONEMES)
    voice = directory.read(tmp_path)
    model = SpokenTexts(voice.config)
    engine = VoiceEngine({"model": str(tmp_path)})
    engine._voice, engine._loaded = voice, cast("Any", (model, None))
    wrong = [
        (Request(0, "Привет, мир!"), "--language ru"),
        (Request(0, "Hello.", voice="carl"), "has no speaker 'carl': it has anna, ben"),
        (Request(0, "Hello.", language="xx"), "no voice for the language 'xx'"),
        (Request(0, "Hello.", voice="x", voice_file=b"file"), "uploaded file"),
    ]
    for request, said in wrong:
        answer = engine._answer(request)
        assert isinstance(answer, Unspeakable)
        assert answer.refused
        assert said in answer.reason
    for request in (Request(0, "Привет, мир!", voice="ben", language="ru"), Request(0, "Hello.", language="en")):
        assert not isinstance(engine._answer(request), Unspeakable)
    assert model.asked == [{"language": "ru", "speaker": 1}, {"language": None}]


def test_the_engine_tells_what_it_leaves_out_of_a_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    frontend(tmp_path, **PHONEMES)
    voice = directory.read(tmp_path)
    engine = VoiceEngine({"model": str(tmp_path)})
    engine._voice, engine._loaded = voice, cast("Any", (SpokenTexts(voice.config), None))
    text = "He is called Ян here, as everybody in the harbour has told the two of us."
    assert not isinstance(engine._answer(Request(0, text)), Unspeakable)
    assert "He is called" in caplog.text
    assert "2 of 58 characters (3.45%) are dropped, the model cannot read them: 'Я' U+042F" in caplog.text
    caplog.clear()
    engine._answer(Request(0, "A naïve café."))
    assert caplog.text == ""
