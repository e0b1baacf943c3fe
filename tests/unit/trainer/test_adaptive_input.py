"""Adaptive input: a warm cache that turns into a cold disk, a reader that more threads do not help, and calm."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from voxyard.trainer.adaptive_input import (
    CALM_WINDOWS,
    WAITING_WINDOWS,
    WINDOW_SECONDS,
    AdaptiveInput,
    InputSize,
    largest,
)

STEP_SECONDS = 0.1  # of the training: a batch in each


@dataclass
class Reader:
    """A simulated source: a thread makes a batch in `latency` seconds; at most `fastest` batches a second come."""

    latency: float = 0.005
    fastest: float = 1000.0
    begin: InputSize = field(default_factory=lambda: InputSize(2, 50))
    now: float = 0.0
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        most = largest(self.begin.threads, self.begin.buffer, 10_000)
        self.input = AdaptiveInput(self.begin, most, self.lines.append, clock=lambda: self.now)

    def run(self, windows: float) -> float:
        """Trains for so many windows; the share of that time in which batches were waited for."""
        end, begin, waited = self.now + windows * WINDOW_SECONDS, self.now, 0.0
        while self.now < end:
            batch = max(self.latency / self.input.size.threads, 1 / self.fastest)
            wait = max(0.0, batch - STEP_SECONDS)
            self.now += wait + STEP_SECONDS
            waited += wait
            self.input.taken(wait)
        return waited / (self.now - begin)


def test_a_warm_cache_that_meets_a_cold_disk_recovers_by_itself() -> None:
    reader = Reader()
    assert reader.run(20) == 0
    assert (reader.input.size, reader.lines) == (reader.begin, [])
    reader.latency = 0.5  # two threads bring 4 batches a second, 10 are wanted
    assert reader.run(WAITING_WINDOWS) > 0.5
    reader.run(3 * WAITING_WINDOWS)
    assert reader.run(10) == 0
    assert reader.input.size == InputSize(8, 100)
    assert len(reader.lines) == 2
    assert reader.lines[0] == (
        "Adapting the input: 4 reading threads, buffer of 100, before 2 and 50: the data stage waited 60% of 20 s for "
        "batches"
    )


def test_one_slow_window_changes_nothing() -> None:
    reader = Reader(latency=0.5)
    reader.run(1)
    reader.latency = 0.005
    reader.run(5)
    assert (reader.input.size, reader.lines) == (reader.begin, [])


def test_threads_that_bring_nothing_are_given_back_and_not_tried_again_at_once() -> None:
    """Where all cores compute, or the disk is at its end."""
    reader = Reader(fastest=5.0)
    reader.run(2 * WAITING_WINDOWS + 1)
    assert reader.input.size == reader.begin
    assert "more brought no more batches (5/s, 5/s before)" in reader.lines[-1]
    reader.run(CALM_WINDOWS - 5)
    assert len(reader.lines) == 2


def test_the_limits_are_kept_and_told_once() -> None:
    reader = Reader(latency=20.0, begin=InputSize(2, 5))
    reader.run(CALM_WINDOWS)
    assert reader.input.size == InputSize(8, 10)
    assert [line for line in reader.lines if "is the most here" in line] == reader.lines[-1:]


def test_what_is_no_longer_needed_is_given_back_down_to_the_beginning() -> None:
    """After minutes of calm, step by step."""
    reader = Reader(latency=0.5)
    reader.run(20)
    reader.latency = 0.005
    sizes = [reader.input.size.threads]
    for _ in range(4):
        reader.run(CALM_WINDOWS + 2)
        sizes.append(reader.input.size.threads)
    assert sizes == [8, 4, 2, 2, 2]
    assert reader.input.size == reader.begin


@pytest.mark.parametrize(
    ("threads", "buffer", "fits", "expected"),
    [
        (2, 50, 1000, InputSize(8, 100)),
        (16, 50, 1000, InputSize(64, 100)),
        (100, 200, 1000, InputSize(100, 400)),
        (2, 50, 60, InputSize(8, 60)),
        (2, 50, 10, InputSize(8, 50)),
        (1, 1, 1000, InputSize(2, 2)),
        (4, 5, 5, InputSize(5, 5)),
    ],
)
def test_the_most_is_bounded_by_memory_and_buffer(threads: int, buffer: int, fits: int, expected: InputSize) -> None:
    """Never less than the beginning, never more threads than batches."""
    assert largest(threads, buffer, fits) == expected
