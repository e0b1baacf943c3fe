"""The integral of utilization: no interval aliases it, no gap is made up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readings import reading

from voxyard.host.readings import Sample
from voxyard.telemetry.gpu_state import UtilizationIntegral

WINDOW_US = 166_667


def wave(windows: int) -> list[Sample]:
    """90% for five seconds, 5% for five seconds, and so on."""
    return [Sample(index * WINDOW_US, 0.9 if index // 30 % 2 == 0 else 0.05) for index in range(1, windows + 1)]


@given(cuts=st.lists(st.integers(1, 239), unique=True))
def test_passes_at_any_moments_see_the_same_integral(cuts: list[int]) -> None:
    """A 90/5/90/5 wave is neither missed nor doubled, whenever the passes happen."""
    samples = wave(240)
    busy = UtilizationIntegral()
    edges = [0, 1, *sorted({cut for cut in cuts if cut > 1}), len(samples)]
    for begin, end in pairwise(edges):
        busy.take(reading(tuple(samples[begin:end])), now=samples[end - 1].time_us / 1e6)
    expected = sum(sample.ratio for sample in samples[1:]) * WINDOW_US / 1e6
    assert busy.seconds == pytest.approx(expected)


def test_what_the_driver_kept_from_before_is_not_counted() -> None:
    busy = UtilizationIntegral()
    busy.take(reading(tuple(wave(120))), now=20.0)
    assert busy.seconds == 0
    assert busy.measured


def test_the_ratio_is_the_mean_of_the_last_second() -> None:
    busy = UtilizationIntegral()
    old = [Sample(index * 100_000, 0.0) for index in range(1, 21)]
    new = [Sample(2_000_000 + index * 100_000, index / 10) for index in range(1, 11)]
    busy.take(reading((*old, *new)), now=3.0)
    assert busy.ratio == pytest.approx(0.55)


def test_samples_that_come_again_are_not_counted_again() -> None:
    """A new session hands out the driver's whole buffer once more."""
    samples = wave(12)
    busy = UtilizationIntegral()
    busy.take(reading(tuple(samples[:6])), now=1.0)
    busy.take(reading(tuple(samples[6:])), now=2.0)
    once = busy.seconds
    busy.take(reading(tuple(samples)), now=2.1)
    assert busy.seconds == once


def test_a_gpu_that_was_gone_was_not_busy_meanwhile() -> None:
    busy = UtilizationIntegral()
    busy.take(reading((Sample(1_000_000, 1.0),)), now=1.0)
    busy.take(reading((Sample(2_000_000, 1.0),)), now=2.0)
    busy.interrupt()
    assert busy.ratio is None
    busy.take(reading((Sample(900_000_000, 1.0),)), now=900.0)
    assert busy.seconds == pytest.approx(1.0)


def test_without_samples_the_latest_window_stands_for_the_time_between_passes() -> None:
    busy = UtilizationIntegral()
    for second in range(11):
        busy.take(reading(None, ratio=0.5), now=float(second))
    assert busy.seconds == pytest.approx(5.0)


def test_a_driver_that_stops_sampling_does_not_freeze_the_ratio() -> None:
    busy = UtilizationIntegral()
    busy.take(reading((Sample(1_000_000, 1.0),)), now=1.0)
    for second in range(2, 12):
        busy.take(reading((), ratio=0.0), now=float(second))
    assert busy.ratio == 0.0
    assert busy.seconds == 0.0


def test_mig_measures_nothing_and_reports_nothing() -> None:
    busy = UtilizationIntegral()
    busy.take(reading(None, ratio=None), now=1.0)
    busy.take(reading(None, ratio=None), now=2.0)
    assert (busy.ratio, busy.measured, busy.seconds) == (None, False, 0.0)
