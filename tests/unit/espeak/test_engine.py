"""espeak-ng as an engine: its voices, what it speaks, and when it is taken."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from click.testing import CliRunner

from voxyard.bark.config import BarkConfig
from voxyard.cli.engines import choose_engine
from voxyard.cli.voices import voices as list_voices
from voxyard.espeak.engine import create
from voxyard.espeak.frontend import frontend
from voxyard.service.names import open_voices
from voxyard.service.voices.table import VoiceNotFoundError
from voxyard.speech.config import SpeechSection
from voxyard.speech.errors import SpeechError
from voxyard.speech.requests import Request, Result, Unspeakable
from voxyard.speech.script import document_language, language_note, prepare_script


class Chunks:
    """A source that has these chunks."""

    def __init__(self, *chunks: Request) -> None:
        self._chunks = list(chunks)

    def take(self, room: int, *, wait: bool) -> Sequence[Request]:
        return [self._chunks.pop(0)] if self._chunks else []

    def cancelled(self) -> Sequence[Request]:
        return []

    def progress(self, pause: float = 0.0) -> None: ...


def spoken(*chunks: Request) -> Iterator[Result | Unspeakable]:
    engine = create({})
    engine.prepare()
    for _, answer in engine.speak(Chunks(*chunks)):
        yield answer  # type: ignore[misc]


def test_each_language_has_a_voice_and_a_womans() -> None:
    engine = frontend({})
    voices = engine.voices()
    assert {"en-us", "en-us+f4", "de", "fr-fr", "pt-br", "cmn", "ja"} <= set(voices)
    assert list(voices) == sorted(voices)
    assert engine.describe("en-us").title == "English (America)"
    assert (engine.describe("de").gender, engine.describe("de+f4").gender) == ("male", "female")
    for name in ("en-us", "de+f4", "en-gb+m7", "en-us+m3"):
        engine.check_voice(name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("en-us+nobody", "did you mean en-us"), ("fr", "did you mean fr-"), ("EN-US", "did you mean en-us"),
        ("klingon", "such as en-us"), ("", "such as en-us"),
    ],
)  # fmt: skip
def test_a_voice_that_is_not_there_is_named_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(SpeechError, match=f"espeak-ng has no voice '.*{hint}"):
        frontend({}).check_voice(name)


@pytest.mark.parametrize(
    ("language", "voice"),
    [
        (None, "en-us"), ("en", "en-us"), ("en-GB", "en-gb"), ("de", "de"), ("fr", "fr-fr"), ("pt-BR", "pt-br"),
        ("zh", "cmn"), ("zh-CN", "cmn"), ("xx", "en-us"),
    ],
)  # fmt: skip
def test_a_language_has_its_voice(language: str | None, voice: str) -> None:
    engine = frontend({})
    assert engine.default_voice(language) == voice
    engine.check_voice(voice)


@pytest.mark.parametrize(("voice", "language"), [("en-us+f4", "en"), ("cmn", "zh"), ("nb", "no"), ("de", "de")])
def test_a_voice_has_its_language(voice: str, language: str) -> None:
    assert frontend({}).language(voice) == language


def test_a_text_sounds_the_same_whatever_was_spoken_before() -> None:
    wanted = Request(1, "The old sailor opens the door.", voice="en-us")
    (alone,) = spoken(wanted)
    *_, after = spoken(Request(0, "Something else.", voice="de+f4"), wanted)
    assert isinstance(alone, Result)
    assert isinstance(after, Result)
    assert alone.sample_rate == 24_000
    assert alone.seconds > 1.0
    assert np.array_equal(alone.audio, after.audio)
    assert alone.audio.dtype == np.float32
    assert 0.1 < np.abs(alone.audio).max() <= 1.0


def test_chunks_that_it_cannot_speak_are_refused_and_the_others_go_on() -> None:
    unknown, upload, stars, last = spoken(
        Request(0, "One.", voice="klingon"),
        Request(1, "Two.", voice="mine", voice_file=b"npz"),
        Request(2, "* * *"),
        Request(3, "Guten Tag.", language="de"),
    )
    assert isinstance(unknown, Unspeakable)
    assert unknown.refused
    assert isinstance(upload, Unspeakable)
    assert upload.refused
    assert isinstance(stars, Result)
    assert not stars.audio.any()
    assert isinstance(last, Result)
    assert last.audio.any()


def test_letters_of_which_it_makes_no_sound_are_refused_and_not_a_silent_chunk() -> None:
    cherokee, mixed, stars = spoken(
        *(Request(index, text, voice="en-us") for index, text in enumerate(("ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", "He said ᏣᎳᎩ.", "* * *")))
    )
    assert isinstance(cherokee, Unspeakable)
    assert (cherokee.refused, cherokee.reason.partition(":")[0]) == (
        True,
        "the voice en-us makes no sound of these letters",
    )
    assert isinstance(mixed, Result)
    assert isinstance(stars, Result)  # a pause


def test_it_speaks_where_there_is_nothing_of_bark(tmp_path: Path) -> None:
    nothing, there = BarkConfig(model=tmp_path / "none"), BarkConfig(model=tmp_path)
    auto = SpeechSection()
    packages = [
        choose_engine(speech, bark, origins).package
        for speech, bark, origins in (
            (auto, nothing, {}),
            (auto, nothing, {"bark.device": "--device"}),
            (auto, there, {}),
            (auto, nothing, {"bark.model": "--model"}),
            (auto, nothing, {"bark.batch_size": "VOXYARD_BARK_BATCH_SIZE"}),
            (SpeechSection(pool="ray"), nothing, {}),
            (SpeechSection(engine="bark"), nothing, {}),
            (SpeechSection(engine="espeak"), there, {}),
        )
    ]
    assert packages == ["espeakng_loader"] * 2 + ["torch"] * 5 + ["espeakng_loader"]


@pytest.mark.parametrize(
    ("engine", "settings", "said"),
    [
        ("espeak", {"model": Path("bark")}, "--model has no effect with --engine espeak"),
        ("espeak", {"device": "cuda"}, "leave --device cuda out"),
        ("espeak", {"gpus": "0"}, "--engine espeak speaks on the CPU: leave --gpus 0 out"),
        ("auto", {"gpus": "0"}, "no weights of Bark, so that espeak-ng speaks, on the CPU: leave --gpus 0 out, or"),
    ],
)
def test_what_has_no_effect_on_it_is_refused(
    tmp_path: Path, engine: Literal["auto", "espeak"], settings: dict[str, Any], said: str
) -> None:
    gpus = settings.pop("gpus", None)
    bark = BarkConfig(**{"model": tmp_path / "none", **settings})
    with pytest.raises(SpeechError, match=said):
        choose_engine(SpeechSection(engine=engine, gpus=gpus), bark, {f"bark.{name}": f"--{name}" for name in settings})


def test_the_setting_for_which_bark_was_chosen_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    choose_engine(SpeechSection(), BarkConfig(model=tmp_path / "none"), {"bark.int8": "--int8"})
    assert caplog.messages == ["--int8 is a setting of Bark, so Bark speaks; --engine espeak needs no weights"]
    caplog.clear()
    choose_engine(SpeechSection(), BarkConfig(model=tmp_path), {"bark.int8": "--int8"})
    choose_engine(SpeechSection(), BarkConfig(model=tmp_path), {"bark.model": "--model"})
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("asked", "listed", "not_listed"),
    [
        ("en", {"en-us", "en-gb", "en-gb+f4"}, {"de"}), ("en-gb", {"en-gb", "en-gb+f4", "en-gb-x-rp"}, {"en-us"}),
        ("EN_GB", {"en-gb"}, {"en-us"}), ("zh", {"cmn"}, {"yue"}), ("cmn", {"cmn", "cmn+f4"}, {"de"}),
        ("pt-BR", {"pt-br"}, {"pt"}), ("zh-CN", {"cmn"}, {"yue"}),
    ],
)  # fmt: skip
def test_the_voices_of_a_language_or_a_region_are_listed(asked: str, listed: set[str], not_listed: set[str]) -> None:
    done = CliRunner().invoke(list_voices, ["--engine", "espeak", "--language", asked, "--json"])
    assert done.exit_code == 0, done.output
    names = {each["name"] for each in json.loads(done.output)["voices"]}
    assert listed <= names
    assert not not_listed & names


def test_a_language_without_voices_is_refused_with_those_that_have_some() -> None:
    done = CliRunner().invoke(list_voices, ["--engine", "espeak", "--language", "tlh"])
    assert done.exit_code == 2
    assert "no voices for the language 'tlh', expected one of af, am" in done.output


def test_a_speaker_that_is_not_listed_may_be_named_by_clients_too() -> None:
    engine = frontend({})
    names = open_voices(engine, None)
    assert "de+m3" not in engine.voices()
    assert names.resolve("de+m3") == "de+m3"
    assert engine.has_voice("de+f4")
    for unknown in ("de+f5", "klingon", "../de", "de+../m3"):
        assert not engine.has_voice(unknown)
        with pytest.raises(VoiceNotFoundError):
            names.resolve(unknown)


def test_the_rate_of_the_voice_makes_a_speed() -> None:
    usual, fast, slow = spoken(
        *(Request(0, "The old sailor opens the door.", voice="en-us", speed=speed) for speed in (1.0, 2.0, 0.5))
    )
    assert isinstance(usual, Result)
    assert isinstance(fast, Result)
    assert isinstance(slow, Result)
    assert fast.seconds == pytest.approx(usual.seconds / 2, rel=0.2)
    assert slow.seconds == pytest.approx(usual.seconds * 2, rel=0.2)


@pytest.mark.parametrize("voice", ["en-gb+f4", "fr-fr+f4", "en-gb-x-rp+m3"])
def test_a_variant_speaks_where_the_languages_voice_has_another_name(voice: str) -> None:
    (answer,) = spoken(Request(0, "Seven.", voice=voice))
    assert isinstance(answer, Result), answer


@pytest.mark.slow
def test_every_voice_that_is_listed_speaks() -> None:
    voices = frontend({}).voices()
    answers = spoken(*(Request(number, "Hello 7.", voice=voice) for number, voice in enumerate(voices)))
    assert [voice for voice, each in zip(voices, answers, strict=True) if not isinstance(each, Result)] == []


SPEAKER = """
import hashlib, sys
from voxyard.espeak.engine import _answer
from voxyard.speech.requests import Request

for name in sys.argv[1:]:
    print(hashlib.sha256(_answer(Request(0, "Hello, how are you today?", voice=name)).audio.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_a_womans_voice_sounds_the_same_in_every_process() -> None:
    """Variants with breath do not, and are no voices here."""
    found = set()
    for before in ([], ["ja"], ["de", "cmn"]):
        done = subprocess.run(
            [sys.executable, "-c", SPEAKER, *before, "en-us+f4"], capture_output=True, text=True, check=True
        )
        found.add(done.stdout.splitlines()[-1])
    assert len(found) == 1
    with pytest.raises(SpeechError, match="no voice 'en-us\\+f5'"):
        frontend({}).check_voice("en-us+f5")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "He came home late in the evening and opened the door. Nobody was there, and the fire had gone out."),
        ("de", "Er kam spät am Abend nach Hause und öffnete die Tür. Niemand war da, und das Feuer war ausgegangen."),
        ("fr", "Il rentra tard dans la soirée et ouvrit la porte. Il n'y avait personne, et le feu s'était éteint."),
        ("es", "Llegó a casa tarde por la noche y abrió la puerta. No había nadie, y el fuego se había apagado."),
        ("it", "Tornò a casa tardi la sera e aprì la porta. Non c'era nessuno, e il fuoco si era spento."),
        ("pt", "Ele chegou em casa tarde da noite e abriu a porta. Não havia ninguém, e o fogo tinha se apagado."),
        ("nl", "Hij kwam laat in de avond thuis en opende de deur. Er was niemand, en het vuur was uitgegaan."),
        ("pl", "Wrócił do domu późno wieczorem i otworzył drzwi. Nikogo nie było, a ogień zgasł."),
        ("ru", "Он вернулся домой поздно вечером и открыл дверь. Никого не было, и огонь погас."),
        ("tr", "Akşam geç saatte eve geldi ve kapıyı açtı. Kimse yoktu ve ateş sönmüştü."),
        ("ko", "그는 저녁 늦게 집에 와서 문을 열었다. 아무도 없었고 불은 꺼져 있었다."),
        ("fa", "او دیر وقت شب به خانه آمد و در را باز کرد. هیچ کس آنجا نبود و آتش خاموش شده بود."),
        ("hi", "वह शाम को देर से घर आया और दरवाज़ा खोला। वहाँ कोई नहीं था, और आग बुझ चुकी थी।"),
        ("zh", "他晚上很晚才回家，打开了门。没有人在，火也灭了。"),
    ],
)
def test_the_estimated_length_is_near_the_spoken_one(language: str, text: str) -> None:
    """Japanese is not here: espeak-ng spells each of its kanji."""
    script = prepare_script(text, frontend({}), voice=None, seed=0, language=language)

    seconds = sum(each.seconds for each in spoken(*script.requests) if isinstance(each, Result))

    assert 0.75 < script.estimated_seconds / seconds < 1.3


@pytest.mark.parametrize(
    ("declared", "language", "voice"),
    [
        ("en-GB", "en-GB", "en-gb"),
        ("pt_BR", "pt-BR", "pt-br"),
        ("es-419", "es-419", "es-419"),
        ("en-US", "en", "en-us"),
        ("en-001", "en", "en-us"),
        ("de-AT", "de", "de"),
        ("zh-Hant-TW", "zh", "cmn"),
        ("deu", "de", "de"),
        ("und", None, "en-us"),
        (None, None, "en-us"),
    ],
)
def test_the_region_that_a_file_declares_counts_where_there_is_a_voice_of_it(
    declared: str | None, language: str | None, voice: str
) -> None:
    engine = frontend({})
    found = document_language(None, None, declared, engine)
    assert (found, engine.default_voice(found)) == (language, voice)
    assert document_language("fr", None, declared, engine) == "fr"


def test_the_voice_that_a_note_names_is_the_one_that_the_engine_would_choose() -> None:
    note = language_note("fr", "en-us", frontend({}), "Il pleut.")
    assert note is not None
    assert note.endswith("name a voice of fr, such as fr-fr")
