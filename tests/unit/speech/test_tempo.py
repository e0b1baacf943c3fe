"""Faster and slower speech: its length, its pitch, its end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxyard.speech.audio.tempo import Stretch, stretched_length

RATE = 24_000
SPEEDS = [0.25, 0.3, 0.5, 0.51, 0.8, 0.99, 1.01, 1.5, 2.0, 2.01, 3.0, 4.0]


def tone(seconds: float, hertz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def stretched(audio: np.ndarray, speed: float, step: int = 2400) -> np.ndarray:
    stretch = Stretch(speed, RATE)
    parts = [stretch.stretch(audio[start : start + step]) for start in range(0, len(audio), step)]
    return np.concatenate([*parts, stretch.finish()])


def peak(audio: np.ndarray) -> float:
    middle = audio[len(audio) // 4 : -len(audio) // 4]
    return float(np.argmax(np.abs(np.fft.rfft(middle * np.hanning(len(middle))))) * RATE / len(middle))


@pytest.mark.parametrize("speed", SPEEDS)
def test_the_pitch_stays_and_the_length_is_divided_by_the_speed(speed: float) -> None:
    faster = stretched(tone(4.0), speed)
    assert len(faster) == round(4.0 * RATE / speed)
    assert peak(faster) == pytest.approx(440, rel=0.01)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 6000), max_size=6),
    st.one_of(st.sampled_from(SPEEDS), st.floats(0.25, 4.0, allow_nan=False)),
)
def test_the_length_is_exact_however_the_sound_comes(parts: list[int], speed: float) -> None:
    stretch = Stretch(speed, RATE)
    given_out = [len(stretch.stretch(tone(samples / RATE))) for samples in parts]
    given_out.append(len(stretch.finish()))
    assert sum(given_out) == stretched_length(sum(parts), speed)


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_sound_is_heard_where_it_should_be_up_to_its_end(speed: float) -> None:
    audio = np.zeros(2 * RATE, np.float32)
    audio[RATE // 2 : RATE] = tone(0.5)
    audio[-RATE // 4 :] = tone(0.25)
    heard = np.abs(stretched(audio, speed)) > 0.1
    times = np.arange(len(heard)) / RATE * speed  # of the sound that went in
    assert times[heard][0] == pytest.approx(0.5, abs=0.1)
    assert times[heard][-1] == pytest.approx(2.0, abs=0.05)
    assert not heard[(times > 1.1) & (times < 1.65)].any()


@pytest.mark.parametrize("speed", [0.25, 4.0])
def test_sound_comes_out_while_more_goes_in(speed: float) -> None:
    stretch = Stretch(speed, RATE)
    assert len(stretch.stretch(tone(1.0))) > 0.5 * RATE / speed


@pytest.mark.parametrize("speed", SPEEDS)
def test_the_same_sound_becomes_the_same_however_it_is_cut(speed: float) -> None:
    audio = tone(0.31, 200.0)
    np.testing.assert_array_equal(stretched(audio, speed, 700), stretched(audio, speed, len(audio)))


def test_the_callers_sound_stays_as_it_is() -> None:
    audio = tone(0.5)
    before = audio.copy()
    stretched(audio, 1.5, len(audio))
    np.testing.assert_array_equal(audio, before)
