"""The quality gate's objections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from voxyard.bark.quality import Bounds, measure, silent_share

if TYPE_CHECKING:
    from voxyard.speech.requests import Audio

RATE = 24_000
TEXT = "The old sailor opens the heavy door."


def tone(seconds: float, level: float = 0.3) -> Audio:
    sound: Audio = (level * np.sin(np.arange(int(seconds * RATE)) * 0.1)).astype(np.float32)
    return sound


def faults(audio: Audio, text: str = TEXT, **facts: Any) -> tuple[str, ...]:
    told = {"cap_reached": False, "finite": True, **facts}
    return measure(audio, RATE, text, bounds=Bounds(), **told).faults


def test_plain_sound_of_a_fitting_length_passes() -> None:
    assert faults(tone(2.5)) == ()


@pytest.mark.parametrize(
    ("audio", "expected"),
    [
        (np.zeros(0, dtype=np.float32), ("empty",)),
        (tone(2.5, 0.001), ("silent",)),
        (np.clip(tone(2.5, 9.0), -1, 1), ("clipped",)),
        (tone(0.3), ("too short",)),
        (tone(30), ("too long",)),
        (np.full(60_000, np.nan, dtype=np.float32), ("not finite",)),
    ],
)
def test_what_is_wrong_is_named(audio: Audio, expected: tuple[str, ...]) -> None:
    assert faults(audio) == expected


def test_an_end_that_never_came_is_a_fault() -> None:
    assert faults(tone(2.5), cap_reached=True) == ("no end",)


def test_numbers_that_were_none_on_the_way_are_a_fault_though_the_sound_is_plain() -> None:
    assert faults(tone(2.5), finite=False) == ("not finite",)


def test_several_faults_are_all_named() -> None:
    assert faults(tone(0.3, 0.001), cap_reached=True) == ("silent", "too short", "no end")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.15, ("too short",)), (0.25, ()), (6.9, ()), (7.1, ("too long",))],  # 10 × 0.02 s; 10 × 0.4 s and 3 s of slack
)
def test_the_bounds_of_the_length_count_letters_without_spaces(seconds: float, expected: tuple[str, ...]) -> None:
    assert faults(tone(seconds), "U N   E S C O\tU N D P\n\n") == expected


@pytest.mark.parametrize("quiet", [0.0, 0.25, 0.5, 1.0])
def test_the_share_of_silence_is_that_of_the_quiet_time(quiet: float) -> None:
    audio = np.concatenate([tone(4 * quiet, 0.0), tone(4 * (1 - quiet))])

    assert silent_share(audio, RATE) == pytest.approx(quiet, abs=0.01)


def test_sound_shorter_than_a_frame_is_measured_too() -> None:
    assert silent_share(tone(0.005), RATE) == 0.0
