"""A script whose words are not those of the document: positions, pauses, chapters, and nothing lost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from frontends import TonesFrontend
from hypothesis import given, settings
from hypothesis import strategies as st
from joined import join

from voxyard.speech.audio.joining import Pauses
from voxyard.speech.errors import SpeechError
from voxyard.speech.reading.lexicon import of_mapping
from voxyard.speech.reading.options import READING, ReadingOptions, read_kinds
from voxyard.speech.requests import Result
from voxyard.speech.script import Script, prepare_script


def silent(text: str) -> bool:
    """True for blanks, pause tags and signs that are not spoken."""
    return not any(each.isalnum() for each in text.replace("[pause 1s]", ""))


def script(text: str, reading: ReadingOptions = READING, *, tokens: int = 64, **options: object) -> Script:
    chapters = options.get("chapters", ())
    assert isinstance(chapters, tuple)
    return prepare_script(
        text, TonesFrontend(max_tokens=tokens), voice=None, seed=0, language="en", chapters=chapters, reading=reading
    )


def test_chunks_have_the_documents_text_and_requests_what_is_spoken() -> None:
    text = "It cost $5.50 in 1999. Dr. Bell walked 5 km.\n\nThe end."
    found = script(text, tokens=12)
    assert " ".join(" ".join(each.text for each in found.requests).split()) == (
        "It cost five dollars fifty in nineteen ninety-nine. Doctor Bell walked five kilometers. The end."
    )
    assert all(text[each.start : each.end] == each.text for each in found.chunks)
    assert " ".join(" ".join(each.text for each in found.chunks).split()) == " ".join(text.split())


def test_a_request_is_never_longer_than_the_engine_takes() -> None:
    found = script("The number is 123456789012345, and 999999999999999 too. " * 3, tokens=10)
    frontend = TonesFrontend()
    assert all(frontend.count_tokens(each.text) <= 10 for each in found.requests)
    assert [each.start for each in found.chunks] == sorted(each.start for each in found.chunks)
    assert all(one.end <= two.start for one, two in pairwise(found.chunks))


def test_without_kinds_and_tags_the_script_is_as_the_document_says() -> None:
    text = "It cost $5.50 in 1999. Dr. Bell walked 5 km. [laughs]"
    found = script(text, ReadingOptions(read_kinds("none")))
    assert [each.text for each in found.requests] == [each.text for each in found.chunks]
    assert " ".join(each.text for each in found.chunks) == text


def test_lexicons_go_before_the_words_of_figures_and_each_other() -> None:
    host, request = of_mapping({"5 km": "a walk", "nginx": "en gee"}), of_mapping({"nginx": "engine x"})
    reading = ReadingOptions(lexicons=(host,)).changed(lexicon=request)
    assert script("nginx ran 5 km and 6 km.", reading).requests[0].text == "engine x ran a walk and six kilometers."


@pytest.mark.parametrize("names", ["all", "none", "numbers", "numbers, units"])
def test_kinds_are_named_in_a_list(names: str) -> None:
    said = script("On 2024-03-05: 5 km, 7.", ReadingOptions(read_kinds(names))).requests[0].text
    assert ("seven" in said, "kilometers" in said) == (
        names != "none",
        names in ("all", "numbers, units"),
    )


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(SpeechError, match="cannot read 'colours': expected all, none, or a list"):
        read_kinds("numbers,colours")


def test_a_pause_tag_is_exactly_that_long_whatever_stands_beside_it() -> None:
    text = (
        "[pause 9s]One is here. [pause 2s][pause 500ms] Two is here, and it is long enough to be alone.\n\n"
        "Three is as long as the second one is [pause 0.1s] here.\n\nFour.[pause 3s]"
    )
    found = script(text)
    assert [each.text for each in found.chunks] == [
        "One is here.", "Two is here, and it is long enough to be alone.",
        "Three is as long as the second one is", "here.\n\nFour.",
    ]  # fmt: skip
    assert [each.joint for each in found.chunks] == [2.5, "paragraph", 0.1, 3.0]
    audio = [Result(number, np.ones(2400, np.float32)) for number in range(4)]
    spans = [
        (piece.start, piece.end)
        for piece in join(zip(audio, [each.joint for each in found.chunks], strict=True), Pauses())
    ]
    seconds = [round((two[0] - one[1]) / 24_000, 3) for one, two in pairwise(spans)]
    assert spans[0][0] == 0
    assert seconds == [2.5, 0.6, 0.1]


def test_ssml_is_spoken_without_its_tags_and_its_chunks_lead_back() -> None:
    text = '<speak>The <sub alias="World Wide Web">WWW</sub> has 5 km. <break time="1s"/> Yes &amp; no.</speak>'
    found = script(text)
    assert [each.text for each in found.requests] == ["The World Wide Web has five kilometers.", "Yes and no."]
    assert [each.text for each in found.chunks] == [text[7:58], "Yes &amp; no."]
    assert found.chunks[0].pause == 1.0


def test_chapters_begin_chunks_in_a_text_that_is_read() -> None:
    text = "Chapter 1\n\nIt cost $5.50. [pause 1s] Then 5 km.\n\nChapter 2\n\nThe end of 1999."
    at = text.index("Chapter 2")
    found = script(text, chapters=(0, at))
    assert at in [each.start for each in found.chunks]
    before = next(each for each in reversed(found.chunks) if each.end <= at)
    assert before.ending == "chapter"


def test_half_a_character_and_a_text_of_tags_alone_are_refused() -> None:
    with pytest.raises(SpeechError, match="position 4"):
        script("5 km\ud800")
    for text in ("[pause 1s]", "<speak><break/></speak>"):
        with pytest.raises(SpeechError, match="nothing to say"):
            script(text)


def test_a_lexicon_cannot_make_a_text_endless() -> None:
    with pytest.raises(SpeechError, match="more than 21,000 characters"):
        script("a " * 500, ReadingOptions(lexicons=(of_mapping({"a": "x" * 100}),)))


PIECES = ["5 km ", "$5.50 ", "1999 ", "12345678901234 ", "Dr. Bell ", "word ", "nginx ", "One. ", "\n\n", "[pause 1s]"]
PIECES += ["2024-03-05 ", "9:05 ", "40% ", "é", "😀 ", "слово ", "(", ") ", "— ", "x" * 150]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join), st.integers(6, 64))
def test_nothing_of_a_text_is_lost_and_positions_only_grow(text: str, tokens: int) -> None:
    reading = READING.changed(lexicon=of_mapping({"nginx": "engine x"}))
    try:
        found = script(text, reading, tokens=tokens)
    except SpeechError as error:
        assert "nothing to say" in str(error)
        return
    at, letters = 0, ""
    for chunk in found.chunks:
        assert at <= chunk.start <= chunk.end <= len(text)
        assert silent(text[at : chunk.start])
        assert text[chunk.start : chunk.end] == chunk.text
        letters += chunk.text
        at = chunk.end
    assert silent(text[at:])
    assert [each.chunk for each in found.requests] == list(range(len(found.chunks)))
    assert all(each.text.strip() == each.text != "" for each in found.requests)
    assert script(text, reading, tokens=tokens) == found


HEAD = "The Project Gutenberg eBook of A Tale\n\nThis ebook is for the use of anyone.\n\n"
START = "*** START OF THE PROJECT GUTENBERG EBOOK A TALE ***\n\n"
BOOK = "A TALE\n\nIt began in [pause 1s] May.\n\nIt ended.\n\n"
END = "End of the Project Gutenberg EBook of A Tale, by B\n\n*** END OF THE PROJECT GUTENBERG EBOOK A TALE ***\n\n"
LICENCE = "Updated editions will replace the previous one.\n\nSection 1. General Terms [pause 1s] of Use\n"


def test_what_gutenberg_adds_to_a_book_is_left_out_on_request() -> None:
    text = HEAD + START + BOOK + END + LICENCE
    chapters = tuple(text.index(each) for each in ("The Project", "A TALE\n", "Updated", "Section"))
    without = ReadingOptions(gutenberg_licence=False)
    found = script(text, without, chapters=chapters)
    assert " ".join(" ".join(each.text for each in found.requests).split()) == "A TALE. It began in May. It ended."
    assert all(text[each.start : each.end] == each.text for each in found.chunks)
    assert "Section" in " ".join(each.text for each in script(text, chapters=chapters).requests)
    plain = "It ended. *** END *** of the book."
    assert [each.text for each in script(plain, without).requests] == [each.text for each in script(plain).requests]
