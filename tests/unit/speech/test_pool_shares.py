"""Shares of tenants on simulated workers: audio spoken per tenant while both have work."""

from __future__ import annotations

from collections import Counter

import pytest
from simulated_pool import SimulatedPool

SECONDS = 4.0  # of a chunk


def spoken_by(pool: SimulatedPool, until: float) -> Counter[int]:
    """Chunks that were done by then, by job."""
    return Counter(key.job for when, _, key in pool.spoken if when <= until)


@pytest.mark.parametrize(("workers", "rows"), [(1, 1), (2, 8)])
def test_one_tenants_flood_leaves_another_its_share(workers: int, rows: int) -> None:
    pool = SimulatedPool(workers, rows=rows, duration=lambda _: SECONDS)
    pool.scheduler.submit(0, [SECONDS] * 2000, 0.0, tenant="flood")
    pool.scheduler.submit(1, [SECONDS] * 200, 0.0, tenant="other")

    pool.run()

    done = max(when for when, _, key in pool.spoken if key.job == 1)
    both = spoken_by(pool, done)
    assert both[1] == 200
    assert both[0] <= 200 * 1.15 + workers * rows


@pytest.mark.parametrize("share", [1.0, 3.0])
def test_throughput_follows_the_shares(share: float) -> None:
    pool = SimulatedPool(2, rows=4, duration=lambda _: SECONDS)
    pool.scheduler.submit(0, [SECONDS] * 600, 0.0, tenant="one", share=1.0)
    pool.scheduler.submit(1, [SECONDS] * 600, 0.0, tenant="two", share=share)

    pool.run()

    half = spoken_by(pool, max(when for when, _, key in pool.spoken if key.job == 1))
    assert half[1] / half[0] == pytest.approx(share, rel=0.1)


def test_a_short_text_is_spoken_within_a_chunk_of_another_tenants_flood() -> None:
    pool = SimulatedPool(1, rows=4, duration=lambda _: SECONDS)
    pool.scheduler.submit(0, [SECONDS] * 1000, 0.0, tenant="flood")
    pool.scheduler.submit(1, [SECONDS] * 2, 0.0, tenant="other", listening=True, priority=1)

    pool.run()

    assert max(when for when, _, key in pool.spoken if key.job == 1) <= 4 * SECONDS
