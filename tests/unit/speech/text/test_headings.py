"""Headings and other short paragraphs: chunks of their own, or sentences of the chunk that they are joined with."""

from __future__ import annotations

import numpy as np
import pytest
from frontends import TonesFrontend
from joined import join

from voxyard.speech.audio.joining import Pauses
from voxyard.speech.requests import SAMPLE_RATE, Result
from voxyard.speech.script import Script, prepare_script
from voxyard.speech.text.boundaries import with_full_stops
from voxyard.speech.text.chunks import split

BODY = "The harbour lay still at last."


def script(text: str, language: str | None = "en") -> Script:
    return prepare_script(text, TonesFrontend(max_tokens=64), voice=None, seed=0, language=language)


@pytest.mark.parametrize("heading", ["Chapter one", "“Chapter one”", "THE SHIP OF ICE", "Chapter 1"])
def test_a_heading_that_is_long_enough_is_a_chunk_with_the_pause_of_a_paragraph(heading: str) -> None:
    found = script(f"{heading}\n\n{BODY}")

    assert [chunk.text for chunk in found.chunks] == [heading, BODY]
    assert [chunk.ending for chunk in found.chunks] == ["paragraph", "paragraph"]
    tone = np.full(SAMPLE_RATE, 0.5, np.float32)
    one, two = join([(Result(chunk.index, tone), chunk.joint) for chunk in found.chunks], Pauses())
    assert (two.start - one.end) / SAMPLE_RATE == pytest.approx(Pauses().paragraph)


def test_paragraphs_of_ssml_are_parted_alike() -> None:
    found = script(f"<speak><p>Chapter one</p><p>{BODY}</p></speak>")

    assert [request.text for request in found.requests] == ["Chapter one", BODY]


@pytest.mark.parametrize(
    ("language", "text", "spoken"),
    [
        ("en", f"One\n\n{BODY}", f"One.\n\n{BODY}"),
        ("en", f"“One”\n \n{BODY}", f"“One”.\n \n{BODY}"),
        ("en", f"<speak><p>One</p><p>{BODY}</p></speak>", f"One.\n\n\n\n{BODY}"),
        ("en", f"One!\n\n{BODY}", f"One!\n\n{BODY}"),
        ("en", f"One:\f{BODY}", f"One:\f{BODY}"),
        ("en", f"* * *\n\n{BODY}", BODY),
        ("en", f"One\n{BODY}", f"One\n{BODY}"),
        ("ja", "序\n\n港はようやく静かになりました。", "序。\n\n港はようやく静かになりました。"),
        ("hi", "एक\n\nवह सुबह जल्दी उठ गया था।", "एक।\n\nवह सुबह जल्दी उठ गया था।"),
        ("ko", "하나\n\n항구는 마침내 고요해졌습니다.", "하나.\n\n항구는 마침내 고요해졌습니다."),
        ("ar", "أ\n\nخرج الأطفال من البيت ولعبوا.", "أ.\n\nخرج الأطفال من البيت ولعبوا."),
    ],
)
def test_one_that_is_joined_with_the_next_ends_like_a_sentence(language: str, text: str, spoken: str) -> None:
    (request,) = script(text, language).requests

    assert request.text == spoken


def test_the_document_keeps_its_text() -> None:
    text = f"One\n\n{BODY}"

    (chunk,) = script(text).chunks

    assert (chunk.text, chunk.start, chunk.end) == (text, 0, len(text))


def test_full_stops_count_in_the_limits_of_a_chunk() -> None:
    text = "\n\n".join("abcdefgh")

    chunks = split(text, len, max_tokens=20, max_seconds=2.0, language="en")

    assert len(chunks) > 1
    for chunk in chunks:
        assert chunk.tokens == len(with_full_stops(chunk.text)) <= 20
        assert 0.35 * (len(chunk.text.split()) - 1) < chunk.estimated_seconds <= 2.0


@pytest.mark.parametrize(
    ("language", "heading", "before", "after"),
    [
        ("en", "Storm", "The harbour lay still at last, and nobody spoke.", "Then the wind rose over the black water."),
        ("en", "2", "The harbour lay still at last, and nobody spoke.", "Then the wind rose over the black water."),
        ("pl", "Sztorm", "Port wreszcie ucichł i nikt nie mówił ani słowa.", "Potem wiatr podniósł się nad wodą."),
        ("ru", "Буря", "Гавань наконец затихла, и никто не говорил.", "Потом над водой поднялся ветер."),
        ("zh", "风暴", "港口终于安静下来，没有人说话。", "然后风从黑色的水面上刮了起来。"),
    ],
)
def test_a_short_heading_begins_the_chunk_of_what_follows_it(
    language: str, heading: str, before: str, after: str
) -> None:
    found = script(f"{before}\n\n{heading}\n\n{after}", language)

    assert [chunk.text for chunk in found.chunks] == [before, f"{heading}\n\n{after}"]
    assert found.chunks[0].ending == "paragraph"


def test_a_short_heading_before_a_long_paragraph_takes_its_first_sentence() -> None:
    long = "The wind rose over the black water. " * 6
    found = script(f"{BODY}\n\nStorm\n\n{long}")

    assert found.chunks[0].text == BODY
    assert found.chunks[1].text.startswith("Storm\n\nThe wind")
