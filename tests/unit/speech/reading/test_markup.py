"""Pause tags and SSML: what is left to speak, where the pauses are, and what is said of wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from voxyard.speech.errors import SpeechError
from voxyard.speech.reading.markup import MOST_PAUSES, read_markup


def parts(text: str) -> list[str | float]:
    """What is spoken, and the pauses between."""
    marked, found, at = read_markup(text), list[str | float](), 0
    for pause in marked.pauses:
        found += [marked.edited.text[at : pause.at], pause.seconds]
        at = pause.at
    return [*found, marked.edited.text[at:]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One [pause 0.5s] two", ["One ", 0.5, " two"]),
        ("One[pause 300ms]two[PAUSE 2 s]", ["One", 0.3, "two", 2.0, ""]),
        ("[pause 10s]One", ["", 10.0, "One"]),
        ("One [PAUSE: 2] two [pause=1.5] three [pause:500ms]", ["One ", 2.0, " two ", 1.5, " three ", 0.5, ""]),
        ('One [pause] two <break time="1s"/> three', ["One ", 0.7, " two ", 1.0, " three"]),
        ("One.\n\n* * *\n\nTwo.\n***\nThree", ["One.\n\n", 1.0, "\n\nTwo.\n", 1.0, "\nThree"]),
        ("One.\n\n◆\n\nTwo.\n◇ ◇ ◇\nThree", ["One.\n\n", 1.0, "\n\nTwo.\n", 1.0, "\nThree"]),
        ("One.\n\n* * *\n\n***\n \n◇\nTwo.", ["One.\n\n", 1.0, "\n\n\n \n\nTwo."]),
        ("***\n\n* * *\n\nOne.", ["", 1.0, "\n\n\n\nOne."]),
        ("One.\n\n§\n\nA ◆ and § 5.", ["One.\n\n", 1.0, "\n\nA ◆ and § 5."]),
        ("5 * 3 * 2, - one\n- two\n* three", None),
        ("[pauses], [pause x], [pause -1s], [pause 1 min], [laughs]", None),
        ("a < b, a <break/> b, R&D", None),
        ("<speak>One</speak>", ["One"]),
        ('<speak>One<break time="500ms"/> two <break time=".5s"/></speak>', ["One", 0.5, " two ", 0.5, ""]),
        (
            '<speak>a<break/>b<break strength="none"/>c<break strength="x-strong"/></speak>',
            ["a", 0.4, "b", 0.0, "c", 1.2, ""],
        ),
        ('<speak>The <sub alias="World Wide Web">W<b>W</b>W</sub> is R&amp;D.</speak>', ["The World Wide Web is R&D."]),
        ('<speak>a <sub alias="">b</sub> <sub>c</sub></speak>', ["a b c"]),
        ("<speak><p>One</p><p><s>Two.</s><s>Three.</s></p></speak>", ["\n\nOne\n\n\n\nTwo. Three. \n\n"]),
        ('<speak><prosody rate="slow">a</prosody> <voice name="x">b</voice><!-- c --><?d e?></speak>', ["a b"]),
        ("<speak><![CDATA[a < b]]></speak>", ["a < b"]),
        (
            '<?xml version="1.0"?>\n<speak xmlns="http://www.w3.org/2001/10/synthesis">ü [pause 1s]é</speak>\n',
            ["ü ", 1.0, "é"],
        ),
        ("  <speak>a\r\nb &#233;</speak>  ", ["  a\nb é"]),
    ],
)
def test_tags_direct_the_voice_and_are_not_spoken(text: str, expected: list[str | float] | None) -> None:
    assert parts(text) == ([text] if expected is None else expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("One.\n[pause 11s]", "the pause [pause 11s] on line 2 is too long: expected at most 10 s"),
        ("[pause 10s]" * 361, f"3610 s together, expected at most {MOST_PAUSES:.0f} s"),
        ("<speak>\nR & D</speak>", "no SSML, line 2: not well-formed"),
        ("<speak>One", "no SSML, line 1: no element found"),
        ("<speak>One</speak> two", "no SSML, line 1: junk after document element"),
        (
            '<speak><break time="soon"/></speak>',
            "the <break> on line 1 has the time 'soon', expected seconds",
        ),
        ('<speak><break time="60s"/></speak>', "too long: expected at most 10 s"),
        (
            '<speak><break strength="loud"/></speak>',
            "the <break> on line 1 has the strength 'loud', expected one of none",
        ),
        ('<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]><speak>&a;</speak>', "has a DOCTYPE"),
        ('<!DOCTYPE speak PUBLIC "-//W3C//DTD" "http://x/synthesis.dtd">\n<speak>a</speak>', "has a DOCTYPE"),
        ("<!-- a -->\n<speak>a & b</speak>", "line 2"),
    ],
)
def test_wrong_tags_are_refused_with_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(SpeechError) as caught:
        read_markup(text)
    assert said in str(caught.value)


def test_an_entity_of_a_doctype_is_never_expanded() -> None:
    with pytest.raises(SpeechError, match=r"DOCTYPE|no SSML"):
        read_markup("<speak><!DOCTYPE x>a</speak>")
    with pytest.raises(SpeechError, match="no SSML"):
        read_markup("<speak>&lol;</speak>")


def test_an_alias_is_what_the_author_has_chosen() -> None:
    marked = read_markup('<speak>5 km <sub alias="5 km">x</sub> &amp;</speak>')
    assert [marked.edited.text[start:end] for start, end in marked.chosen] == ["5 km"]
    assert marked.chosen[0][0] == 5


PIECES = [
    "<speak>",
    "</speak>",
    "<break/>",
    '<break time="1s"/>',
    '<sub alias="x y">',
    "</sub>",
    "<p>",
    "</p>",
    "&amp;",
]
PIECES += [
    "[pause 1s]",
    "[pause",
    "]",
    "<",
    ">",
    "&",
    "word ",
    "ü",
    "😀",
    "\n",
    "\r\n",
    " ",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@example("<speak>😀<break/>ü</speak>")
def test_every_text_is_read_or_refused_and_its_spans_lead_back(text: str) -> None:
    for whole in (text, f"<speak>{text}</speak>"):
        try:
            marked = read_markup(whole)
        except SpeechError:
            continue
        left = marked.edited.text
        assert [pause.at for pause in marked.pauses] == sorted(pause.at for pause in marked.pauses)
        for at in range(len(left)):
            first, last = marked.edited.span(at, at + 1)
            assert 0 <= first <= last <= len(whole)
            if left[at] == "ü" and last - first == 1:
                assert whole[first] == "ü"
