"""A document made ready for the pool: one voice, no chunk without anything to say."""

from __future__ import annotations

import pytest
from frontends import TonesFrontend

from voxyard.speech.errors import SpeechError
from voxyard.speech.script import language_note, prepare_script

TEXT = "The first paragraph is short.\n\nThe second paragraph is short as well."


def test_a_text_becomes_requests_in_the_default_voice_of_its_language() -> None:
    english = prepare_script(TEXT, TonesFrontend(), voice=None, seed=3)
    german = prepare_script(TEXT, TonesFrontend(), voice=None, seed=3, language="de")

    assert [each.text for each in english.requests] == [each.text for each in english.chunks]
    assert {(each.voice, each.seed) for each in english.requests} == {("v2/en_speaker_6", 3)}
    assert {each.voice for each in german.requests} == {"v2/de_speaker_1"}
    assert english.estimated_seconds == sum(each.seconds for each in english.requests) > 0


@pytest.mark.parametrize("text", ["", " \n\n ", "\u200b", "😀 😀", "?!"])
def test_a_text_without_anything_to_say_is_an_error(text: str) -> None:
    class Silent(TonesFrontend):
        def count_tokens(self, text: str) -> int:
            return len(text.replace("\u200b", "").split())

    with pytest.raises(SpeechError, match="nothing to say"):
        prepare_script(text, Silent(), voice=None, seed=0)


def test_signs_without_a_token_are_left_out_and_the_chunks_stay_numbered() -> None:
    class Silent(TonesFrontend):
        def count_tokens(self, text: str) -> int:
            return len(text.replace("\u200b", "").split())

    script = prepare_script(f"\u200b\n\n{TEXT}", Silent(max_tokens=5), voice=None, seed=0)

    assert all(chunk.tokens for chunk in script.chunks)
    assert [each.chunk for each in script.requests] == list(range(len(script.chunks)))


def test_an_unknown_voice_is_an_error_of_the_engine() -> None:
    with pytest.raises(SpeechError, match="no voice 'nobody'"):
        prepare_script(TEXT, TonesFrontend(), voice="nobody", seed=0)


class Voices(TonesFrontend):
    """A voice for each language."""

    def default_voice(self, language: str | None) -> str:
        return f"voice-{language or 'en'}"

    def check_voice(self, name: str) -> None:
        assert name.startswith("voice-")

    def language(self, voice: str | None) -> str | None:
        return (voice or "").removeprefix("voice-") or None


@pytest.mark.parametrize(
    ("text", "language", "voice"),
    [
        ("第一章 风雨。那天晚上下着大雨。", None, "voice-zh"),
        ("Он пришёл домой.", None, "voice-ru"),
        ("او به خانه آمد. چه کسی؟", None, "voice-fa"),
        ("السلام عليكم ورحمة الله", None, "voice-ar"),
        ("یہ ایک جملہ ہے۔", None, "voice-ur"),
        ("He came home.", None, "voice-en"),
        ("Он пришёл домой.", "bg", "voice-bg"),
    ],
)
def test_letters_that_are_not_latin_tell_the_default_voice(text: str, language: str | None, voice: str) -> None:
    assert prepare_script(text, Voices(), voice=None, seed=0, language=language).requests[0].voice == voice


def test_a_voice_of_another_language_than_the_letters_is_noted() -> None:
    note = language_note("en", "voice-en", Voices(), "那天晚上下着大雨。")
    assert note is not None
    assert "the language zh" in note
    assert note.endswith("; name a voice of zh, such as voice-zh")
    other = language_note("de", "v2/en_speaker_6", TonesFrontend(), "Guten Tag.")
    assert other is not None
    assert other.endswith("; name a voice of de, such as v2/de_speaker_1")
    assert language_note(None, "voice-ru", Voices(), "Он пришёл.") is None
    assert language_note("bg", "voice-bg", Voices(), "Той дойде.") is None
    assert language_note(None, "voice-en", Voices(), "He came.") is None
