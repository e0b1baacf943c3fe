"""Recommended settings by GPU memory: the table, nominal sizes, and what holds between any two cards."""

from __future__ import annotations

import pytest
from cards import card
from hypothesis import given
from hypothesis import strategies as st

from voxyard.host.limits import (
    BARK_WORKER_MIB,
    HEADROOM_MIB,
    LimitsError,
    Policy,
    Profile,
    RecommendedLimits,
    bark_worker_mib,
    choices,
    limits_for,
    nominal_gb,
    recommend,
    recommended_mib,
)

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
    """A class is the nearest nominal size within 8% of the report."""
    assert nominal_gb(reported) == nominal


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (12288, RecommendedLimits(8, 4096, 8192, 6, 50)),
        (16376, RecommendedLimits(12, 6144, 10240, 4, 50)),
        (24564, RecommendedLimits(16, 8192, 16384, 3, 50)),
        (23028, RecommendedLimits(16, 8192, 16384, 3, 50)),
        (8192, RecommendedLimits(8, 2730, 5460, 6, 25)),
        (32607, RecommendedLimits(21, 10869, 21738, 3, 100)),
        (49140, RecommendedLimits(32, 16380, 32760, 3, 100)),
        (81559, RecommendedLimits(48, 27186, 54372, 3, 100)),
    ],
)
def test_the_table_of_recommended_settings(total: int, expected: RecommendedLimits) -> None:
    """Row by row."""
    assert recommend(total) == expected


@given(memory, memory)
def test_more_memory_never_means_less(one: int, other: int) -> None:
    """A larger card gets no smaller batch, limit or buffer, and no more ring slots."""
    small, large = (recommend(size) for size in sorted((one, other)))
    assert small.batch_size <= large.batch_size
    assert small.buffer_size <= large.buffer_size
    assert small.data_limit_mib <= large.data_limit_mib
    assert small.model_limit_mib <= large.model_limit_mib
    assert small.ring_slots >= large.ring_slots


@given(memory)
def test_both_limits_fit_on_one_card(total: int) -> None:
    found = recommend(total)
    assert 0 <= found.data_limit_mib <= found.model_limit_mib
    assert found.data_limit_mib + found.model_limit_mib <= total * 1.09


@pytest.mark.parametrize(
    ("total", "profile", "expected"),
    [
        (8192, "conservative", [("batch", 8, 8, 16)]),
        (8192, "source", [("batch", 8, 8, 16)]),
        (12288, "source", []),
        (16376, "source", []),
        (24564, "conservative", [("batch", 16, 16, 48), ("buffer", 50, 50, 100)]),
        (24564, "source", [("batch", 48, 16, 48), ("buffer", 100, 50, 100)]),
        (49140, "conservative", [("batch", 32, 32, 48)]),
        (49140, "source", [("batch", 48, 32, 48)]),
        (81559, "source", []),
    ],
)
def test_where_the_published_tables_differ_both_are_told(
    total: int, profile: Profile, expected: list[tuple[str, int, int, int]]
) -> None:
    found = choices(total, profile)
    assert [(each.setting, each.taken, each.memory_matrix, each.quick_start) for each in found] == expected
    assert all(each.why for each in found)


@given(memory, memory)
def test_no_profile_gives_more_memory_less(one: int, other: int) -> None:
    cards = [card(0, size, size + 2048) for size in sorted((one, other))]
    small, large = (limits_for(None, each, profile="source") for each in cards)
    assert small.batch_size <= large.batch_size
    assert small.buffer_size <= large.buffer_size


# -- for real cards ------------------------------------------------------------------------------------------


def test_limits_hold_all_that_a_hosts_plan_needs() -> None:
    """Which cards, their limits, batch, ring and buffer."""
    found = limits_for(card(1, 12288, 12000), card(0))
    assert found.data is not None
    assert (found.data.index, found.data.uuid, found.data.limit_mib) == (1, "GPU-1", 4096)
    assert (found.model.index, found.model.uuid, found.model.limit_mib) == (0, "GPU-0", 16384)
    assert (found.policy, found.batch_size, found.ring_slots, found.buffer_size) == ("recommended", 16, 3, 50)
    assert (found.model.memory_total_mib, found.model.memory_free_mib, found.model.bark_mib) == (24564, 24000, 0)


def test_one_card_has_no_data_limit() -> None:
    found = limits_for(None, card(3))
    assert found.data is None
    assert (found.model.index, found.model.limit_mib) == (3, 16384)


def test_policy_full_takes_all_that_is_free_but_the_headroom() -> None:
    """Batch, ring and buffer stay those of the card's size."""
    found = limits_for(card(0, free=20000), card(1), policy="full")
    assert found.data is not None
    assert (found.data.limit_mib, found.model.limit_mib) == (20000 - 1024, 24000 - 1024)
    assert (found.policy, found.batch_size, found.ring_slots) == ("full", 16, 3)


@pytest.mark.parametrize("policy", ["recommended", "full"])
def test_a_card_shared_with_bark_leaves_room_for_its_worker(policy: Policy) -> None:
    """7.8 GB for the large model; `full` is for a card that one has to oneself."""
    large = bark_worker_mib("large")
    found = limits_for(card(0), card(1), policy=policy, shared_with_bark_mib=large)
    assert found.data is not None
    assert (found.data.limit_mib, found.model.limit_mib) == (8192, 24000 - 1024 - large)
    assert found.model.bark_mib == large


def test_a_bark_worker_is_named_by_its_model_or_in_mib() -> None:
    sizes = {name: round(mib / 1024, 1) for name, mib in BARK_WORKER_MIB.items()}
    assert sizes == {"large": 7.8, "large-offload": 2.4, "small": 3.0, "small-offload": 1.0}
    assert bark_worker_mib("5000") == 5000
    for wrong in ("huge", "-1", "1.5", "", "²"):
        with pytest.raises(LimitsError, match="expected a number of MiB, or large"):
            bark_worker_mib(wrong)


def test_a_card_on_which_nothing_is_left_is_refused_with_the_numbers() -> None:
    with pytest.raises(LimitsError, match=r"GPU 1 .* has only 1024 of 24564 MiB free") as caught:
        limits_for(card(0), card(1, free=1024))
    assert caught.value.exit_code == 2
    with pytest.raises(LimitsError, match="and 3072 MiB for Bark"):
        limits_for(None, card(1, free=4096), shared_with_bark_mib=3072)
    assert limits_for(None, card(1, free=1025)).model.limit_mib == 1


def test_memory_that_is_not_reported_gives_no_limit() -> None:
    with pytest.raises(LimitsError, match="does not report the memory of GPU 0"):
        limits_for(None, card(0, None, None))
    with pytest.raises(LimitsError, match="does not report the memory of GPU 2"):
        recommended_mib(card(2, 24564, None), "data")


policies = st.sampled_from(["recommended", "full"])
budgets = st.one_of(st.just(0), st.integers(1, 20_000))


def limit_of(total: int, free: int, policy: Policy, bark: int) -> tuple[int, int]:
    """Data and model limit of a card, 0 where it is refused."""
    try:
        found = limits_for(card(0, total, free), card(1, total, free), policy=policy, shared_with_bark_mib=bark)
    except LimitsError:
        return 0, 0
    assert found.data is not None
    return found.data.limit_mib, found.model.limit_mib


@given(memory, memory, policies, budgets)
def test_no_limit_of_a_card_exceeds_what_is_free_less_headroom_and_bark(
    total: int, free: int, policy: Policy, bark: int
) -> None:
    free = min(total, free)
    data, model = limit_of(total, free, policy, bark)
    left = max(0, free - HEADROOM_MIB - bark)
    assert 0 <= data <= model <= left
    assert policy != "full" or bark or model == left


@given(memory, memory, memory, memory, policies, budgets)
def test_more_memory_or_more_of_it_free_never_lowers_a_limit(
    one: int, other: int, this: int, that: int, policy: Policy, bark: int
) -> None:
    (small, large), (less, more) = sorted((one, other)), sorted((this, that))
    low = limit_of(small, min(small, less), policy, bark)
    high = limit_of(large, min(large, more), policy, bark)
    assert low[0] <= high[0]
    assert low[1] <= high[1]


@given(memory, policies, budgets, budgets)
def test_a_larger_bark_worker_never_raises_a_limit(total: int, policy: Policy, one: int, other: int) -> None:
    little, much = sorted((one, other))
    assert limit_of(total, total, policy, much) <= limit_of(total, total, policy, little)
