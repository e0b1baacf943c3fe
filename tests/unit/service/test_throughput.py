"""Throughput of synthesis, by a clock of the test's own, and the wait that follows from it."""

from __future__ import annotations

import pytest

from voxyard.service.dispatch.progress import UNKNOWN, WINDOW, Throughput


def recorded(*chunks: tuple[float, float]) -> Throughput:
    """Throughput after these chunks: seconds of the clock, and of audio."""
    times = iter([at for at, _ in chunks])
    throughput = Throughput(lambda: next(times))
    for _, audio in chunks:
        throughput.record(audio)
    return throughput


def test_the_rate_is_the_audio_made_since_the_first_chunk_was_done() -> None:
    """Audio of the first chunk does not count: its synthesis began before the window."""
    assert recorded((10, 99.0), (12, 3.0), (14, 5.0)).rate() == (3.0 + 5.0) / (14 - 10)


def test_only_the_last_chunks_count() -> None:
    slow = [(float(at), 1.0) for at in range(0, 1000, 100)]
    quick = [(1000.0 + at, 8.0) for at in range(WINDOW)]
    assert recorded(*slow, *quick).rate() == 8.0


@pytest.mark.parametrize("chunks", [[], [(0, 5.0)], [(3, 5.0), (3, 5.0)], [(0, 5.0), (1, 0.0)]])
def test_without_a_rate_the_wait_is_a_guess(chunks: list[tuple[float, float]]) -> None:
    assert recorded(*chunks).rate() is None
    assert recorded(*chunks).retry_after(100.0) == UNKNOWN


@pytest.mark.parametrize(("audio", "wait"), [(0.5, 1.0), (40.0, 20.0), (1e6, 3600.0)])
def test_the_wait_is_that_of_the_audio_at_this_rate_from_a_second_to_an_hour(audio: float, wait: float) -> None:
    assert recorded((0, 2.0), (1, 2.0), (2, 2.0)).retry_after(audio) == wait
