"""A document made ready for the pool: one voice, no chunk without anything to say."""

from __future__ import annotations

import pytest
from frontends import TonesFrontend

from voxyard.speech.errors import SpeechError
from voxyard.speech.script import prepare

TEXT = "The first paragraph is short.\n\nThe second paragraph is short as well."


def test_a_text_becomes_requests_in_the_default_voice_of_its_language() -> None:
    english = prepare(TEXT, TonesFrontend(), voice=None, seed=3)
    german = prepare(TEXT, TonesFrontend(), voice=None, seed=3, language="de")

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
        prepare(text, Silent(), voice=None, seed=0)


def test_signs_without_a_token_are_left_out_and_the_chunks_stay_numbered() -> None:
    class Silent(TonesFrontend):
        def count_tokens(self, text: str) -> int:
            return len(text.replace("\u200b", "").split())

    script = prepare(f"\u200b\n\n{TEXT}", Silent(max_tokens=5), voice=None, seed=0)

    assert all(chunk.tokens for chunk in script.chunks)
    assert [each.chunk for each in script.requests] == list(range(len(script.chunks)))


def test_an_unknown_voice_is_an_error_of_the_engine() -> None:
    with pytest.raises(SpeechError, match="no voice 'nobody'"):
        prepare(TEXT, TonesFrontend(), voice="nobody", seed=0)
