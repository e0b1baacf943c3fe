"""Recommended settings by GPU memory (T9): the table, nominal sizes, and what holds between any two cards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxyard.host.limits import Recommendation, nominal_gb, recommend

memory = st.integers(min_value=1024, max_value=300 * 1024)


@pytest.mark.parametrize(
    ("reported", "nominal"),
    [
        (24564, 24),  # RTX 4090
        (23028, 24),  # A10
        (22756, 24),  # 8.0% below
        (22755, 16),  # and a MiB less
        (49140, 48),  # RTX A6000
        (81559, 80),  # H100
        (143771, 80),  # H200: above every size that matters
        (32607, 32),  # RTX 5090
        (15360, 16),  # T4
        (16376, 16),  # RTX 4080
        (12288, 12),  # RTX 3060
        (11441, 12),  # K80
        (11264, 10),  # GTX 1080 Ti: 8.3% below 12
        (20475, 16),  # RTX 4000 Ada: 20 GB is no class, so the next lower
        (10240, 10),
        (8192, 8),
        (500, 0),
    ],
)
def test_the_nominal_size_is_within_eight_percent_or_the_next_lower(reported: int, nominal: int) -> None:
    """T9: a class is the nearest nominal size within 8% of the report."""
    assert nominal_gb(reported) == nominal


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (12288, Recommendation(8, 4096, 8192, 6, 50)),
        (16376, Recommendation(12, 6144, 10240, 4, 50)),
        (24564, Recommendation(16, 8192, 16384, 3, 50)),
        (23028, Recommendation(16, 8192, 16384, 3, 50)),
        (8192, Recommendation(8, 2730, 5460, 6, 25)),
        (32607, Recommendation(21, 10869, 21738, 3, 100)),
        (49140, Recommendation(32, 16380, 32760, 3, 100)),
        (81559, Recommendation(48, 27186, 54372, 3, 100)),
    ],
)
def test_the_table_of_recommended_settings(total: int, expected: Recommendation) -> None:
    """T9, row by row."""
    assert recommend(total, total) == expected


def test_a_mixed_pair_takes_each_limit_from_its_own_card() -> None:
    """T9: the batch, the ring and the buffer follow the model GPU."""
    mixed = recommend(12288, 24564)
    assert (mixed.data_limit_mib, mixed.model_limit_mib) == (4096, 16384)
    assert (mixed.batch_size, mixed.ring_slots) == (16, 3)


def test_no_limit_exceeds_what_is_free() -> None:
    """T9: and the overhead of context and libraries stays beside it."""
    squeezed = recommend(24564, 24564, data_free_mib=5000, model_free_mib=24000)
    assert squeezed.data_limit_mib == 5000 - 1024
    assert squeezed.model_limit_mib == 16384
    assert recommend(24564, 24564, model_free_mib=100).model_limit_mib == 0


@given(memory, memory)
def test_more_memory_never_means_less(one: int, other: int) -> None:
    """T9: a larger card gets no smaller batch, limit or buffer, and no more ring slots."""
    small, large = (recommend(size, size) for size in sorted((one, other)))
    assert small.batch_size <= large.batch_size
    assert small.buffer_size <= large.buffer_size
    assert small.data_limit_mib <= large.data_limit_mib
    assert small.model_limit_mib <= large.model_limit_mib
    assert small.ring_slots >= large.ring_slots


@given(memory, st.integers(min_value=0, max_value=300 * 1024))
def test_limits_fit_on_the_card_and_into_what_is_free(total: int, free: int) -> None:
    """T9: never above the card's memory, never above what is free, never negative."""
    free = min(free, total)
    found = recommend(total, total, data_free_mib=free, model_free_mib=free)
    for limit in (found.data_limit_mib, found.model_limit_mib):
        assert 0 <= limit <= free
    assert found.data_limit_mib <= found.model_limit_mib
    assert found.data_limit_mib + found.model_limit_mib <= total * 1.09


@given(memory, memory)
def test_each_limit_follows_its_own_card_only(data: int, model: int) -> None:
    """T9, mixed pair."""
    mixed = recommend(data, model)
    assert mixed.data_limit_mib == recommend(data, data).data_limit_mib
    assert mixed.model_limit_mib == recommend(model, model).model_limit_mib
    assert mixed.batch_size == recommend(model, model).batch_size
