"""Submission: names of voices and models, titles, fingerprints, chunks."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from frontends import VOICES, TonesFrontend
from hypothesis import given
from hypothesis import strategies as st

from voxyard.service.config import ServiceSection
from voxyard.service.documents.records import NewDocument, instance_prefix, new_id
from voxyard.service.documents.submission import (
    LONGEST_AUTHOR,
    LONGEST_TITLE,
    DocumentRequest,
    fingerprint,
    new_document,
    unprepared,
)
from voxyard.service.errors import NotFoundError, ServiceError
from voxyard.service.names import open_voices

REQUEST = DocumentRequest("First words here.\n\nAnd some more of them.")


def kept(submitted: DocumentRequest = REQUEST) -> NewDocument:
    voices = open_voices(TonesFrontend(), None)
    asked = unprepared(submitted, owner="ann", now=7.0, instance="")
    return new_document(asked, submitted, TonesFrontend(), voices, section=ServiceSection())


def test_the_ids_of_an_instance_begin_with_its_prefix_and_look_like_all_others() -> None:
    one, other = instance_prefix("gpu-01"), instance_prefix("gpu-02")
    assert (one, one == other) == ("dd84fce3", False)  # a gateway and its hosts may run different versions
    for id, start in ((new_id("gpu-01"), one), (new_id(), "")):
        assert re.fullmatch(r"[0-9a-f]{32}", id)
        assert id.startswith(start)
    assert len({new_id("gpu-01") for _ in range(100)}) == 100
    assert unprepared(REQUEST, owner="", now=0.0, instance="gpu-02").id.startswith(other)


def test_the_engines_voices_and_openais_names_are_known() -> None:
    voices = open_voices(TonesFrontend(), None)
    assert [each.name for each in voices.all()][: len(VOICES)] == list(VOICES)
    assert voices.resolve("alloy") == "v2/en_speaker_6"
    assert voices.resolve("v2/de_speaker_1") == "v2/de_speaker_1"
    assert {each.language for each in voices.all() if each.alias_of} == {"en"}


def test_an_operators_names_come_first(tmp_path: Path) -> None:
    table = tmp_path / "voices.yaml"
    table.write_text("narrator: announcer\nalloy: v2/de_speaker_1\n")
    voices = open_voices(TonesFrontend(), table)
    assert voices.resolve("narrator") == "announcer"
    assert voices.resolve("alloy") == "v2/de_speaker_1"
    assert voices.resolve("echo") == "v2/en_speaker_2"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("narrator: anouncer", "announcer"),
        ("- narrator", "a name and a voice"),
        ("narrator: 7", "a name and a voice"),
        ("a: [", "not YAML"),
        ("a: \x00", "control character"),
        (None, "no such file"),
    ],
)
def test_an_invalid_file_of_voice_names_is_refused_at_the_start(tmp_path: Path, text: str | None, reason: str) -> None:
    table = tmp_path / "voices.yaml"
    if text is not None:
        table.write_text(text)
    with pytest.raises(ServiceError, match=reason) as caught:
        open_voices(TonesFrontend(), table)
    assert str(table) in str(caught.value)


@pytest.mark.parametrize("name", ["", "Aloy", "/etc/passwd.npz", "../alloy", "../ALLOY", "x" * 100_000])
def test_no_other_name_reaches_the_engine(name: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        open_voices(TonesFrontend(), None).resolve(name)
    assert len(str(caught.value)) < 400


def test_a_name_in_capitals_reaches_the_engine_as_its_own() -> None:
    voices = open_voices(TonesFrontend(), None)
    assert voices.resolve(" Alloy") == voices.resolve("alloy") in TonesFrontend().voices()


@pytest.mark.parametrize(
    ("submitted", "title"),
    [
        (replace(REQUEST, title="  A title \n of mine "), "A title of mine"),
        (replace(REQUEST, title=" "), "First words here."),
        (REQUEST, "First words here."),
        (DocumentRequest("word " * 30), "word word word word word word word word word word word…"),
        (DocumentRequest("\n\n  \n Late words."), "Late words."),
        (DocumentRequest("[voice:announcer]\n\nLate[pause 1s]words [pause] here.[/voice]"), "Late words here."),
        (
            DocumentRequest("<speak>\n<p>R&amp;D <break time='1s'/>is <b>l</b>ate.</p><p>No.</p></speak>"),
            "R&D is late. No.",
        ),
        (replace(REQUEST, title="[voice:announcer]Tom [pause 1s] and < Jerry[/voice]"), "Tom and < Jerry"),
        (replace(REQUEST, title="[pause 1s]"), "First words here."),
    ],
)
def test_a_document_has_a_title(submitted: DocumentRequest, title: str) -> None:
    assert kept(submitted).title == title


@given(st.text(min_size=1, max_size=300))
def test_a_title_is_one_line_whatever_the_text(title: str) -> None:
    found = kept(replace(REQUEST, title=title)).title
    assert 0 < len(found) <= LONGEST_TITLE
    assert found.isprintable() or not set(found) & set("\n\r\x00\x1b")


@given(st.text(max_size=300))
def test_an_author_is_one_line_or_none(author: str) -> None:
    found = kept(replace(REQUEST, author=author)).author
    assert found is None or (0 < len(found) <= LONGEST_AUTHOR and not set(found) & set("\n\r\x00\x1b"))
    assert kept(replace(REQUEST, author=" Ann\x00\n Ode ")).author == "Ann Ode"


def test_chunks_are_stretches_of_the_text() -> None:
    document = kept()
    assert [document.text[chunk.start : chunk.end] for chunk in document.chunks] == document.text.split("\n\n")
    assert [chunk.ending for chunk in document.chunks] == ["paragraph", "paragraph"]
    assert (document.owner, document.created, document.seed, document.voice) == ("ann", 7.0, 0, "v2/en_speaker_6")


def test_every_document_has_an_id_of_its_own() -> None:
    assert kept().id != kept().id
    assert len(kept().id) == 32


@pytest.mark.parametrize(
    "other",
    [
        replace(REQUEST, text=REQUEST.text + "."),
        replace(REQUEST, title="t"),
        replace(REQUEST, author="a"),
        replace(REQUEST, voice="alloy"),
        replace(REQUEST, seed=1),
        replace(REQUEST, language="en"),
        replace(REQUEST, on_failure="silence"),
        replace(REQUEST, webhook="https://example.org/"),
    ],
)
def test_a_fingerprint_differs_for_different_requests(other: DocumentRequest) -> None:
    assert fingerprint(other) != fingerprint(REQUEST)


def test_a_fingerprint_is_equal_for_equal_requests() -> None:
    assert fingerprint(replace(REQUEST, idempotency_key="1")) == fingerprint(replace(REQUEST, idempotency_key="2"))
    assert kept().fingerprint == fingerprint(REQUEST)
