"""Joining of chunks into one sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joined import join

from voxyard.speech.audio.joining import Pauses, Piece
from voxyard.speech.audio.wav import from_bytes, rounded, to_bytes
from voxyard.speech.errors import SpeechError
from voxyard.speech.requests import Boundary, Result

RATE = 24_000


def chunk(number: int, samples: int = RATE, level: float = 0.5) -> Result:
    return Result(number, np.full(samples, level, np.float32))


def joined(pieces: Sequence[Piece]) -> np.ndarray:
    return np.concatenate([piece.audio for piece in pieces])


@pytest.mark.parametrize(("ending", "seconds"), [("clause", 0.08), ("sentence", 0.25), ("paragraph", 0.6)])
def test_the_pause_between_two_chunks_follows_from_what_ended(ending: Boundary, seconds: float) -> None:
    first, second = join([(chunk(0), ending), (chunk(1), "sentence")])
    assert second.start - first.end == round(seconds * RATE)
    assert not second.audio[: second.start - first.end].any()


def test_a_paragraph_ends_with_a_longer_pause_than_a_sentence() -> None:
    assert Pauses().paragraph > Pauses().sentence == 0.25


def test_there_is_no_pause_before_the_first_chunk_nor_after_the_last() -> None:
    pieces = list(join([(chunk(0), "sentence"), (chunk(1), "paragraph")]))
    assert pieces[0].start == 0
    assert pieces[-1].end == len(joined(pieces)) == RATE + RATE // 4 + RATE


@given(st.lists(st.tuples(st.integers(0, 3000), st.sampled_from(["clause", "sentence", "paragraph"])), max_size=12))
def test_each_chunk_stands_exactly_where_its_piece_says(parts: list[tuple[int, Boundary]]) -> None:
    spoken = [(chunk(number, samples), ending) for number, (samples, ending) in enumerate(parts)]
    pieces = list(join(spoken, Pauses(fade=0)))
    whole = joined(pieces) if pieces else np.zeros(0)

    assert [piece.chunk for piece in pieces] == list(range(len(parts)))
    inside = np.zeros(len(whole), bool)
    for piece, (samples, _) in zip(pieces, parts, strict=True):
        assert piece.end - piece.start == samples
        inside[piece.start : piece.end] = True
    np.testing.assert_array_equal(whole, np.where(inside, rounded(np.array([0.5], np.float32)), 0))


def test_no_edge_jumps() -> None:
    whole = joined(list(join([(chunk(0), "sentence"), (chunk(1, level=-1.0), "sentence")])))
    assert whole[0] == whole[-1] == 0
    assert np.abs(np.diff(whole)).max() < 0.02


def test_the_middle_of_a_chunk_is_left_as_it_was_but_for_its_rounding_to_16_bits() -> None:
    result = Result(0, np.random.default_rng(1).uniform(-1, 1, RATE).astype(np.float32))
    (piece,) = join([(result, "sentence")])
    np.testing.assert_array_equal(piece.audio[120:-120], rounded(result.audio)[120:-120])
    np.testing.assert_allclose(piece.audio[120:-120], result.audio[120:-120], atol=0.51 / 32_767)


def test_a_chunk_that_was_stored_in_16_bits_gives_the_same_samples() -> None:
    result = Result(0, np.random.default_rng(2).uniform(-1.1, 1.1, RATE).astype(np.float32))
    stored = Result(0, from_bytes(to_bytes(result.audio)))

    (piece,), (again,) = join([(result, "sentence")]), join([(stored, "sentence")])

    np.testing.assert_array_equal(piece.audio, again.audio)
    np.testing.assert_array_equal(piece.audio, rounded(piece.audio))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_no_numbers_are_refused_and_not_rounded(value: float) -> None:
    with pytest.raises(SpeechError, match="1 of 3 samples are NaN or infinite"):
        list(join([(Result(0, np.array([0, value, 0], np.float32)), "sentence")]))


def test_the_chunks_own_sound_is_not_changed() -> None:
    result = chunk(0)
    list(join([(result, "sentence")]))
    assert (result.audio == 0.5).all()


def test_a_chunk_shorter_than_its_fades_is_faded_as_far_as_it_goes() -> None:
    (piece,) = join([(chunk(0, 3), "sentence")])
    assert len(piece.audio) == 3
    assert piece.audio[0] == piece.audio[-1] == 0


def test_an_empty_chunk_adds_no_second_pause() -> None:
    pieces = list(join([(chunk(0), "sentence"), (chunk(1, 0), "sentence"), (chunk(2), "sentence")]))
    assert pieces[2].start - pieces[0].end == RATE // 4


def test_the_first_piece_is_there_before_the_second_chunk() -> None:
    def speaking() -> Iterator[tuple[Result, Boundary]]:
        yield chunk(0), "sentence"
        raise AssertionError("asked for the second chunk too early")

    assert next(join(speaking())).chunk == 0


def test_times_in_seconds_are_those_of_the_samples() -> None:
    _, second = join([(chunk(0, 12_000), "sentence"), (chunk(1, 6_000), "sentence")])
    assert (second.start, second.end) == (0.75 * second.sample_rate, second.sample_rate)


def test_another_sample_rate_is_refused() -> None:
    with pytest.raises(SpeechError, match="22050 samples a second, expected 24000"):
        list(join([(Result(0, np.zeros(5, np.float32), 22_050), "sentence")]))


@pytest.mark.parametrize("seconds", [-0.1, float("nan"), float("inf")])
def test_a_pause_that_is_no_length_is_refused(seconds: float) -> None:
    with pytest.raises(SpeechError, match="pause sentence"):
        Pauses(sentence=seconds)
