"""A reader's memory: what a card does not support is asked again later, samples stay within 100%."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from voxyard.host import readings
from voxyard.host.nvlink import VALUE_MEMBERS, field_number
from voxyard.host.nvml import UNSUPPORTED
from voxyard.host.readings import GpuReader, Sample

NOT_SUPPORTED = min(UNSUPPORTED)
GPU_IS_LOST = 15


class Card:
    """Answers samples, or that it has none, as it is told."""

    def __init__(self) -> None:
        self.supported, self.asked, self.value, self.time = True, 0, 50, 0

    def attempt(self, function: str, *arguments: object) -> tuple[int, Any]:
        self.asked += 1
        if not self.supported:
            return NOT_SUPPORTED, None
        self.time += 1
        value = SimpleNamespace(**{VALUE_MEMBERS[0]: self.value})
        return 0, (0, [SimpleNamespace(timeStamp=self.time, sampleValue=value)])

    def refusal(self, function: str, code: int) -> str:
        return f"{function}: {code}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("voxyard.host.readings.time.monotonic", lambda: now[0])
    return now


def test_a_sample_above_100_percent_is_100_percent(clock: list[float]) -> None:
    card: Any = Card()
    card.value = 117
    assert GpuReader(card, None)._samples() == (Sample(1, 1.0),)


def test_a_sample_that_no_card_measures_is_none_and_is_not_asked_for_again(clock: list[float]) -> None:
    card: Any = Card()
    card.value = 808_334_905
    reader = GpuReader(card, None)
    assert (reader._samples(), reader._last_sample_us) == ((), 1)


@pytest.mark.parametrize(
    ("kind", "number", "found"),
    [(3, 2**64 - 1, None), (3, 2**64 - 2, 2.0**64), (1, 2**32 - 1, 2.0**32 - 1), (4, -1, None), (0, 1.5, 1.5)],
)
def test_all_ones_of_64_bits_and_negative_counts_are_no_number(kind: int, number: float, found: float | None) -> None:
    """Those of 32 bits are a counter that wraps next."""
    value = SimpleNamespace(**{VALUE_MEMBERS[kind]: number})
    assert field_number(SimpleNamespace(nvmlReturn=0, valueType=kind, value=value)) == found


def test_support_that_comes_back_is_noticed(clock: list[float]) -> None:
    """A card whose MIG mode is switched off measures its utilization again."""
    card: Any = Card()
    reader = GpuReader(card, None)
    card.supported = False
    assert reader._samples() is None
    card.supported = True
    assert reader._samples() is None
    assert card.asked == 1, "asked again at once"
    clock[0] += readings.ASK_AGAIN_SECONDS + 1
    assert reader._samples() == (Sample(1, 0.5),)
    assert reader._unsupported == {}


class Refusing(Card):
    """Answers the call for field values, each of which is refused; supports nothing else."""

    def attempt(self, function: str, *arguments: object) -> tuple[int, Any]:
        if function != readings._FIELD_VALUES:
            return NOT_SUPPORTED, None
        return 0, [SimpleNamespace(nvmlReturn=GPU_IS_LOST)]


def test_a_field_value_that_is_refused_counts_though_the_call_succeeds(clock: list[float]) -> None:
    card: Any = Refusing()
    reader = GpuReader(card, None)
    assert reader._totals() == {}
    assert (reader._refusal, reader._answered) == (f"nvmlDeviceGetFieldValues: {GPU_IS_LOST}", False)
