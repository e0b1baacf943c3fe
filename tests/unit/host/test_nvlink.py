"""NVLink counters: one source for each kind, whatever the generation counts, and sums that only grow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from voxyard.host import nvlink
from voxyard.host.nvlink import Field, NvLinkCounters

NOT_SUPPORTED, LONG = 3, 3
CRC, REPLAY, RECOVERY = 163, 161, 162
CRC_FLIT, CRC_DATA = 38, 45


class Driver:
    """Answers the fields that it has, and counts the calls."""

    def __init__(self) -> None:
        self.numbers: dict[Field, int] = {}
        self.calls: list[list[Field]] = []
        self.now = 0.0

    def has(self, *fields: int, links: int = 1, number: int = 0) -> None:
        self.numbers |= {(field, link): number for field in fields for link in range(links)}

    def ask(self, fields: list[Field]) -> list[Any]:
        self.calls.append(fields)
        return [self._answer(field) for field in fields]

    def _answer(self, field: Field) -> Any:
        if field not in self.numbers:
            return SimpleNamespace(nvmlReturn=NOT_SUPPORTED, valueType=0)
        return SimpleNamespace(nvmlReturn=0, valueType=LONG, value=SimpleNamespace(ullVal=self.numbers[field]))


@pytest.fixture
def driver() -> Driver:
    return Driver()


def counters(driver: Driver) -> NvLinkCounters:
    return NvLinkCounters(driver.ask, clock=lambda: driver.now)


def test_the_links_are_summed(driver: Driver) -> None:
    driver.has(CRC, links=3, number=4)
    driver.has(REPLAY, links=3, number=1)
    assert counters(driver).read(3) == {"nvlink_errors_crc": 12, "nvlink_errors_replay": 3}


def test_of_two_sources_of_a_kind_one_is_counted(driver: Driver) -> None:
    """Both know the same errors: the sum would have each twice."""
    driver.has(CRC, links=2, number=5)
    driver.has(CRC_FLIT, CRC_DATA, number=100)
    assert counters(driver).read(2) == {"nvlink_errors_crc": 10}


def test_an_older_card_counts_for_the_whole_gpu(driver: Driver) -> None:
    driver.has(CRC_FLIT, number=7)
    driver.has(CRC_DATA, number=8)
    assert counters(driver).read(6) == {"nvlink_errors_crc": 15}


def test_a_link_that_goes_and_one_that_begins_anew_take_nothing_away(driver: Driver) -> None:
    driver.has(CRC, links=2, number=50)
    found = counters(driver)
    assert found.read(2)["nvlink_errors_crc"] == 100
    driver.numbers = {(CRC, 0): 51}
    assert found.read(2)["nvlink_errors_crc"] == 101
    driver.numbers = {(CRC, 0): 51, (CRC, 1): 3}
    assert found.read(2)["nvlink_errors_crc"] == 104


def test_what_no_link_answers_is_asked_again_only_later(driver: Driver) -> None:
    driver.has(CRC, links=18)
    found = counters(driver)
    found.read(18)
    first = sum(map(len, driver.calls))
    assert max(map(len, driver.calls)) <= 96
    driver.calls.clear()
    found.read(18)
    assert [len(call) for call in driver.calls] == [18]
    driver.has(REPLAY, links=18, number=2)
    assert "nvlink_errors_replay" not in found.read(18)
    driver.calls.clear()
    driver.now = nvlink.ASK_AGAIN_SECONDS
    assert found.read(18)["nvlink_errors_replay"] == 36
    assert sum(map(len, driver.calls)) == first


def test_without_links_nothing_is_asked(driver: Driver) -> None:
    driver.has(CRC)
    assert counters(driver).read(0) == {}
    assert driver.calls == []
