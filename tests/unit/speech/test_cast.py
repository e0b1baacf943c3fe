"""Several voices in one text: who speaks what, where chunks end, and names that there are not."""

from __future__ import annotations

import random
import re

import pytest
from frontends import TonesFrontend

from voxyard.speech.cast import cast_of, read_cast
from voxyard.speech.errors import SpeechError
from voxyard.speech.reading.markup import MASK, masked
from voxyard.speech.reading.options import ReadingOptions
from voxyard.speech.script import Script, prepare_script, script_note

MIA, ANN, NARRATOR = "v2/en_speaker_1", "v2/de_speaker_1", "v2/en_speaker_6"
CAST = {"mia": MIA, "Ann Lee": ANN}


def script(text: str, *, cast: dict[str, str] | None = None, **options: object) -> Script:
    frontend = TonesFrontend()
    return prepare_script(text, frontend, voice=None, seed=0, cast=cast_of(frontend, cast or CAST), **options)  # type: ignore[arg-type]


def said(text: str, **options: object) -> list[tuple[str | None, str]]:
    made = script(text, **options)  # type: ignore[arg-type]
    pairs = zip(made.chunks, made.requests, strict=True)
    return [(chunk.speaker, request.text) for chunk, request in pairs]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. [voice:mia]Two.[/voice] Three.", [(None, "One."), ("mia", "Two."), (None, "Three.")]),
        ("[Voice: MIA ]Two.[/VOICE]", [("mia", "Two.")]),
        ("[voice=Ann Lee]Two.", [("Ann Lee", "Two.")]),
        ("[voice:mia]One.\n\nStill.[voice:Ann Lee]Two.", [("mia", "One.\n\nStill."), ("Ann Lee", "Two.")]),
        (
            "[voice:mia]A [voice:Ann Lee]b[/voice] c[/voice] d",
            [("mia", "A"), ("Ann Lee", "b"), ("mia", "c"), (None, "d")],
        ),
        (
            'She said: "[voice:mia]Come in[/voice]," and left.',
            [(None, "She said:"), ("mia", '"Come in,"'), (None, "and left.")],
        ),
        ("«[voice:mia]Come[/voice]!» – [voice:Ann Lee]No[/voice]...", [("mia", "«Come!»"), ("Ann Lee", "– No...")]),
        ("[voice:mia]One.[/voice] [voice:mia]Two.[/voice]", [("mia", "One. Two.")]),
        ("[voice:announcer]One.[/voice]", [("announcer", "One.")]),
        ("[voice:alloy]One.[/voice]", [("alloy", "One.")]),
        (
            '<speak>One <voice name="mia">two <voice gender="male">too</voice></voice> three</speak>',
            [(None, "One"), ("mia", "two too"), (None, "three")],
        ),
        ("[voice] and [voices:mia] are text", [(None, "[voice] and [voices:mia] are text")]),
    ],
)  # fmt: skip
def test_each_part_has_its_speaker(text: str, expected: list[tuple[str | None, str]]) -> None:
    assert said(text) == expected


def test_each_request_has_the_voice_of_its_speaker_and_the_narrator_the_rest() -> None:
    text = "One. [voice:mia]Two.[/voice] [voice:alloy]Three.[/voice] Four."
    made = script(text, cast={**CAST, "narrator": "announcer"})
    assert [each.voice for each in made.requests] == ["announcer", MIA, NARRATOR, "announcer"]
    assert [each.speaker for each in made.chunks] == ["narrator", "mia", "alloy", "narrator"]
    assert made.voice == "announcer"
    assert [each.voice for each in script(text).requests] == [NARRATOR, MIA, NARRATOR, NARRATOR]


@pytest.mark.parametrize(
    ("text", "endings"),
    [
        ("She said [voice:mia]yes[/voice] at last.", ["clause", "clause", "paragraph"]),
        ('[voice:mia]"Yes."[/voice] He left.', ["sentence", "paragraph"]),
        ("[voice:mia]Yes.[/voice]\n\n[voice:Ann Lee]No.", ["paragraph", "paragraph"]),
        ("[voice:mia]Yes.\n\n[/voice]No.", ["paragraph", "paragraph"]),
        ("[voice:mia]Yes.[/voice] [pause 2s] No.", ["sentence", "paragraph"]),
    ],
)
def test_a_change_of_the_voice_keeps_the_boundary_that_the_document_has(text: str, endings: list[str]) -> None:
    assert [each.ending for each in script(text).chunks] == endings


def test_a_voice_goes_on_over_paragraphs_and_chapters_and_these_stay_parted() -> None:
    text = "[voice:mia]One.\n\nTwo.\n\nThree.[/voice]\n\nFour."
    chapters = [text.index("Two"), text.index("Four")]
    made = script(text, chapters=chapters)
    assert [(each.speaker, each.ending) for each in made.chunks] == [
        ("mia", "chapter"), ("mia", "chapter"), (None, "paragraph"),
    ]  # fmt: skip
    assert [text[each.start : each.end] for each in made.chunks] == [each.text for each in made.chunks]


def test_pauses_are_where_the_tags_are_whoever_speaks() -> None:
    made = script("[voice:mia]One. [pause 2s] Two.[/voice] [pause 1s] Three.")
    assert [(each.speaker, each.pause) for each in made.chunks] == [("mia", 2.0), ("mia", 1.0), (None, None)]


def test_figures_are_read_in_the_language_of_who_speaks_them() -> None:
    made = said("It has 3. [voice:Ann Lee]Es hat 3.[/voice] And 4.")
    assert made == [(None, "It has three."), ("Ann Lee", "Es hat drei."), (None, "And four.")]
    assert said("[voice:Ann Lee]It has 3.", language="en") == [("Ann Lee", "It has three.")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[voice:miaa]A.[/voice] [voice:zoe]B.",
            "names the voices 'miaa', 'zoe', and the cast has Ann Lee, mia; the nearest to 'miaa' are mia",
        ),
        ('<speak><voice name="nobody">A</voice></speak>', "names the voice 'nobody', and the cast has"),
        ("[voice:../../x.npz]A.[/voice]", "names the voice '../../x.npz'"),
        ("One.\n[/voice]Two.", "the tag on line 2 ends a voice, and none has begun"),
        ("One.\n[voice:]Two.[/voice]", "the tag .voice:. on line 2 has no name"),
        ("[voice]One.[/voice] [voice:mia]Two.[/voice]", "the tag .voice. on line 1 has no name"),
    ],
)  # fmt: skip
def test_a_name_that_is_no_voice_is_refused_with_those_that_there_are(text: str, message: str) -> None:
    with pytest.raises(SpeechError, match=message.replace("(", r"\(")):
        script(text)


def test_a_voice_of_the_cast_that_the_engine_has_not_is_an_error_although_nobody_speaks_with_it() -> None:
    with pytest.raises(SpeechError, match="there is no voice 'nobody'"):
        script("One.", cast={"mia": "nobody"})


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("One. [voice:MIA]Two.", "no tag of the text names Ann Lee of the cast: expected [voice:Ann Lee]"),
        ("mia: One.", "no tag of the text names mia, Ann Lee of the cast: expected [voice:mia]"),
        ("[voice:mia]One.[/voice] [voice:Ann Lee]Ja.", None),
    ],
)
def test_who_of_the_cast_speaks_nothing_is_noted(text: str, note: str | None) -> None:
    made = script(text, cast={"narrator": MIA, "mia": MIA, "Ann Lee": MIA})
    assert script_note(made, "en", TonesFrontend()) == note


def test_a_cast_is_read_from_one_line() -> None:
    assert read_cast("narrator=en-us, mia = en-gb+f4") == {"narrator": "en-us", "mia": "en-gb+f4"}
    for wrong in ("mia", "mia=", "=a", "mia=a,mia=b", "mia=a,"):
        with pytest.raises(SpeechError, match="expected names and voices such as narrator=en-us"):
            read_cast(wrong)
    with pytest.raises(SpeechError, match="65 voices, expected at most 64"):
        read_cast(",".join(f"n{number}=a" for number in range(65)))


def test_a_speaker_of_another_language_than_its_letters_is_noted() -> None:
    frontend = TonesFrontend()
    note = script_note(script("One. [voice:Ann Lee]Ja. [voice:mia]Добрый день.[/voice]"), "en", frontend)
    assert note is not None
    assert note.startswith("the text is in the language ru, and the voice mia speaks en")
    assert script_note(script("One. [voice:mia]Two. [voice:Ann Lee]Guten Tag.[/voice]"), "en", frontend) is None


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("[voice:Ann Lee]Hi[/voice], you. [pause 1s] Go.", "Hi, you.  Go."),
        ("<speak>a<p>b &amp; c</p><voice name='mia'>d</voice></speak>", "a   b &amp; c    d"),
        ("a [/voice] b", "a  b"),
    ],
)
def test_who_reads_along_sees_no_tags(text: str, read: str) -> None:
    found = masked(text)
    assert len(found) == len(text)
    assert found.replace(MASK, "") == read


PARTS = (
    "[voice:mia]", "[/voice]", "[voice:Ann Lee]", "[voice:announcer]", " ", "\n\n", ".", '"', "“", "”", ",", "– ", "(",
    ")", "!", "[pause 1s]", "* * *\n", "¿", "Hello", "Yes", "hm",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_tags_nothing_is_lost_or_spoken_by_two(seed: int) -> None:
    """Random texts: every word once, in order, by one voice; the chunks' places are in the document."""
    dice, tried = random.Random(seed), 0
    voices = {"mia": MIA, "Ann Lee": ANN, "announcer": "announcer", None: NARRATOR}
    for _ in range(150):
        text = "".join(dice.choices(PARTS, k=dice.randint(1, 14)))
        try:
            made = script(text, language="en", reading=ReadingOptions(()))
        except SpeechError as error:
            assert "ends a voice" in str(error) or "nothing to say" in str(error)
            continue
        tried += 1
        words = [word for request in made.requests for word in re.findall("[A-Za-z]+", request.text)]
        assert "".join(words) == "".join(re.findall("[A-Za-z]", masked(text))), text
        end = 0
        for chunk, request in zip(made.chunks, made.requests, strict=True):
            assert end <= chunk.start, text
            assert text[chunk.start : chunk.end] == chunk.text
            assert request.voice == voices[chunk.speaker]
            end = chunk.end
    assert tried > 20
