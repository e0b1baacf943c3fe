"""Parts of a document in another language than it: their voices, their reading, and the notes."""

from __future__ import annotations

from itertools import groupby

import pytest
from frontends import TonesFrontend

from voxyard.speech.cast import cast_of
from voxyard.speech.errors import SpeechError
from voxyard.speech.reading.markup import EditedText
from voxyard.speech.script import Script, prepare_script, script_note, unknown_language_note

ENGLISH = "He came home at 3 in the morning and slept for a long time."
POLISH = "Wrócił do domu o świcie i długo spał."
PERSIAN = "او به خانه آمد و در را باز کرد. چه کسی بود؟"
RUSSIAN = "Он вернулся домой на рассвете и долго спал."


class Voices(TonesFrontend):
    """A voice for each of these languages; English where another is asked for."""

    def voices(self) -> tuple[str, ...]:
        return tuple(f"voice-{language}" for language in ("en", "fa", "pl", "ru"))

    def default_voice(self, language: str | None) -> str:
        named = f"voice-{(language or 'en')[:2]}"
        return named if named in self.voices() else "voice-en"

    def check_voice(self, name: str) -> None:
        assert name in self.voices()

    def language(self, voice: str | None) -> str | None:
        return (voice or "").removeprefix("voice-") or None


class Untold(TonesFrontend):
    """One voice of which no language is known, as of a server that lists none."""

    def default_voice(self, language: str | None) -> str:
        return "alloy"

    def check_voice(self, name: str) -> None:
        pass

    def language(self, voice: str | None) -> None:
        return None


def script(
    *paragraphs: tuple[str, str | None], voice: str | None = None, language: str | None = "en", narrator: bool = False
) -> Script:
    """The script of paragraphs that declare these languages."""
    text, declared = "\n\n".join(each for each, _ in paragraphs), list[tuple[int, str | None]]()
    for paragraph, own in paragraphs:
        declared.append((text.index(paragraph), own))
    frontend = Voices()
    cast = cast_of(frontend, {"narrator": "voice-en"} if narrator else {})
    return prepare_script(text, frontend, voice=voice, seed=0, language=language, languages=declared, cast=cast)


def voices(made: Script) -> list[str]:
    return [(each.voice or "").removeprefix("voice-") for each in made.requests]


@pytest.mark.parametrize(
    ("paragraphs", "language", "expected"),
    [
        ([(ENGLISH, None), (POLISH, "pl"), (ENGLISH + "!", None)], "en", ["en", "pl", "en"]),
        ([(ENGLISH, None), (POLISH, "pol-PL")], "en", ["en", "pl"]),
        ([(ENGLISH, "en-GB"), (POLISH, "und")], "en-US", ["en"]),
        ([(ENGLISH, None), (PERSIAN, None)], "en", ["en", "fa"]),
        ([(ENGLISH, None), (PERSIAN, "en")], None, ["en", "fa"]),
        ([(PERSIAN, None)], "en", ["fa"]),
        ([(PERSIAN, None), (ENGLISH, None)], "en", ["fa", "en"]),
        ([(RUSSIAN, None), ("iPhone 15 Pro Max Ultra", None)], "ru", ["ru"]),
        ([(RUSSIAN, None)], "bg", ["en"]),
        ([(ENGLISH + " «Привет»", None)], "en", ["en"]),
        ([(ENGLISH, None), ("Hij kwam thuis en sliep lang.", "nl")], "en", ["en"]),
    ],
)
def test_a_part_in_another_language_has_the_default_voice_of_it(
    paragraphs: list[tuple[str, str | None]], language: str | None, expected: list[str]
) -> None:
    made = script(*paragraphs, language=language)

    assert [voice for voice, _ in groupby(voices(made))] == expected
    assert "".join(chunk.text for chunk in made.chunks).replace(" ", "") == "".join(
        text for text, _ in paragraphs
    ).replace(" ", "")


def test_each_part_is_read_by_the_rules_of_its_language_and_ends_a_paragraph() -> None:
    made = script((ENGLISH, None), ("Miał 3 koty.", "pl"), ("And 3 dogs came with him.", None))

    assert [request.text for request in made.requests] == [
        "He came home at three in the morning and slept for a long time.",
        "Miał trzy koty.",
        "And three dogs came with him.",
    ]
    assert [chunk.ending for chunk in made.chunks] == ["paragraph"] * 3
    assert script_note(made, "en", Voices()) is None


@pytest.mark.parametrize("how", [{"voice": "voice-en"}, {"narrator": True}])
def test_a_named_voice_stays_and_a_note_tells_what_it_does_not_speak(how: dict[str, object]) -> None:
    made = script((ENGLISH, None), (POLISH, "pl"), (PERSIAN, None), **how)  # type: ignore[arg-type]

    assert set(voices(made)) == {"en"}
    note = script_note(made, "en", Voices())
    assert note is not None
    assert [each.split(",")[0] for each in note.split("; ") if "language" in each] == [
        "a part of the text is in the language pl",
        "a part of the text is in the language fa",
    ]


@pytest.mark.parametrize("how", [{"voice": "voice-en"}, {"narrator": True}, {}])
def test_figures_of_a_part_are_words_of_its_language_whatever_voice_speaks_it(how: dict[str, object]) -> None:
    german = "Ich komme am 3. Juni um 14:30 Uhr."

    made = script((ENGLISH, None), (german, "de"), ("It was 3 o'clock.", None), **how)  # type: ignore[arg-type]

    words = [each.text for each in made.requests]
    assert "am dritten Juni um vierzehn Uhr dreißig" in " ".join(words)
    assert any("three o'clock" in each for each in words)
    assert {each.language for each in made.requests} == {"en"}  # no voice of German: the engine is told its own


def test_an_engine_that_tells_no_languages_keeps_its_voice_with_a_note() -> None:
    text = f"{ENGLISH}\n\n{POLISH}"
    made = prepare_script(
        text, Untold(), voice=None, seed=0, language="en", languages=[(0, None), (text.index(POLISH), "pl")]
    )

    assert {each.voice for each in made.requests} == {"alloy"}
    assert script_note(made, "en", Untold()) == (
        "a part of the text is in the language pl, and it is not known which languages the voice alloy speaks"
    )


def test_a_voice_of_a_tag_speaks_whatever_the_language_is() -> None:
    text = f"{ENGLISH}\n\n[voice:voice-ru]{POLISH}[/voice]\n\n{ENGLISH}"
    frontend = Voices()
    frontend.has_voice = lambda name: name in frontend.voices()  # type: ignore[method-assign]
    declared = [(text.index(POLISH), "pl"), (text.rindex(ENGLISH), None)]
    made = prepare_script(text, frontend, voice=None, seed=0, language="en", languages=declared)

    assert [each.voice for each in made.requests] == ["voice-en", "voice-ru", "voice-en"]


def test_a_text_mostly_in_another_language_than_it_declares_has_no_note_where_its_voice_speaks_that() -> None:
    made = script((ENGLISH, None), *((f"{POLISH} {number}", "pl") for number in range(9)))

    assert set(voices(made)) == {"en", "pl"}
    assert script_note(made, "en", Voices()) is None


@pytest.mark.slow
def test_the_work_for_parts_grows_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, looks = list[str | None](), list[int]()
    position, default_voice = EditedText.position, Voices.default_voice

    def look(text: EditedText, at: int) -> int:
        looks.append(at)
        return position(text, at)

    def ask(frontend: Voices, language: str | None) -> str:
        asked.append(language)
        return default_voice(frontend, language)

    monkeypatch.setattr(EditedText, "position", look)
    monkeypatch.setattr(Voices, "default_voice", ask)
    paragraphs = [f"{ENGLISH if number % 2 else POLISH} {number}." for number in range(400)]
    text = "\n\n".join(paragraphs)
    starts = [text.index(each) for each in paragraphs]
    declared = [(at, "en" if number % 2 else "pl") for number, at in enumerate(starts)]

    made = prepare_script(text, Voices(), voice=None, seed=0, language="en", languages=declared, chapters=starts)

    assert len(made.chunks) >= 400
    assert len(looks) < 100 * len(starts)
    assert len(asked) < 5


@pytest.mark.parametrize(("language", "warned"), [(None, False), ("pt-BR", False), ("fil", False), ("xx", True)])
def test_a_code_that_names_no_language_has_a_warning(language: str | None, warned: bool) -> None:
    found = unknown_language_note(language)
    assert (found is not None and f"the language {language!r} is not known" in found) == warned


def test_what_is_no_code_is_refused_and_not_warned_of_first() -> None:
    with pytest.raises(SpeechError, match=r"'German' is no language code, expected one such as en or pt-BR"):
        unknown_language_note("German")
