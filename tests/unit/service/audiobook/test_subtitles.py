"""Cues of captions: where they end, and how many words they have."""

from __future__ import annotations

import pytest

from voxyard.service.audiobook.subtitles import LINE, LONGEST, Cue, cues
from voxyard.service.audiobook.timings import word_times
from voxyard.service.documents.records import StoredChunk
from voxyard.speech.audio.joining import Span
from voxyard.speech.requests import SAMPLE_RATE


def of_one_chunk(text: str, seconds: float) -> list[Cue]:
    samples = round(seconds * SAMPLE_RATE)
    chunk = StoredChunk(0, 0, len(text), "paragraph", seconds, "spoken", samples, None)
    return list(cues(text, word_times(text, [(chunk, Span(0, 0, samples))], None)))


@pytest.mark.parametrize("blank", ["\n\n", "\n \n", "\u2029"])
def test_a_heading_has_a_cue_of_its_own(blank: str) -> None:
    found = of_one_chunk(f"Storm{blank}The wind rose over the water.", 3.0)

    assert [cue.lines for cue in found] == [("Storm",), ("The wind rose over the water.",)]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("The long wind rose over the cold black water and all of the sailors on the deck wept.", 6.0),
        ("One two three four five six seven eight nine ten.", 7.4),
        ("那天晚上下着大雨我们坐在屋子里等着他回来可是他一直没有回来我们都很担心他会不会出事了。", 6.0),
    ],
)
def test_no_last_word_is_a_cue_alone(text: str, seconds: float) -> None:
    found = of_one_chunk(text, seconds)

    assert len(found) > 1
    assert all(len(cue.lines) <= 2 and all(len(line) <= LINE for line in cue.lines) for cue in found)
    assert all(cue.end - cue.start <= LONGEST for cue in found)
    assert len("".join(found[-1].lines)) > len("".join(found[0].lines)) / 2
    assert [one.end for one in found[:-1]] == [two.start for two in found[1:]]


def test_a_word_that_is_alone_in_its_paragraph_stays_so() -> None:
    assert [cue.lines for cue in of_one_chunk("The wind rose over it.\n\nStop.", 4.0)] == [
        ("The wind rose over it.",),
        ("Stop.",),
    ]
