"""Rate limiter, with a clock that the tests set."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxyard.service.errors import BusyError
from voxyard.service.http.rate_limit import LONGEST_PAUSE, RateLimiter, whole_seconds


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_as_many_as_allowed_may_come_at_once_and_no_more(clock: Clock) -> None:
    limiter = RateLimiter(60, clock)
    waits = [limiter.take("a") for _ in range(61)]
    assert waits[:60] == [0.0] * 60
    assert waits[60] == pytest.approx(1.0)


def test_a_request_after_the_wait_is_admitted_and_an_earlier_one_is_not(clock: Clock) -> None:
    limiter = RateLimiter(6, clock)
    for _ in range(6):
        limiter.take("a")
    wait = limiter.take("a")
    clock.now += wait * 0.9
    assert limiter.take("a") > 0
    clock.now += wait * 0.11
    assert limiter.take("a") == 0.0


def test_a_refusal_costs_nothing(clock: Clock) -> None:
    limiter = RateLimiter(60, clock)
    waits = [limiter.take("a") for _ in range(200)]
    assert waits[-1] == pytest.approx(1.0)


def test_tokens_do_not_accumulate_beyond_a_minutes_worth(clock: Clock) -> None:
    limiter = RateLimiter(5, clock)
    limiter.take("a")
    clock.now += 10_000
    assert [limiter.take("a") == 0.0 for _ in range(6)] == [True] * 5 + [False]


def test_each_client_has_its_own_bucket(clock: Clock) -> None:
    limiter = RateLimiter(1, clock)
    assert (limiter.take("a"), limiter.take("b")) == (0.0, 0.0)
    assert limiter.take("a") > 0


def test_a_key_with_a_lower_rate_of_its_own_has_that(clock: Clock) -> None:
    limiter = RateLimiter(60, clock)
    waits = [limiter.take("a", 2) for _ in range(3)]
    assert waits == [0.0, 0.0, pytest.approx(30.0)]
    assert (limiter.rate(600), limiter.rate(None), RateLimiter(0, clock).rate(5)) == (60, 60, 5)


def test_a_key_that_asks_again_at_once_is_told_its_refusals_one_after_the_other(clock: Clock) -> None:
    limiter = RateLimiter(1, clock)
    assert [limiter.pause("a") for _ in range(3)] == [0.0, pytest.approx(0.02), pytest.approx(0.04)]
    assert limiter.pause("b") == 0.0
    assert max(limiter.pause("a") for _ in range(1000)) == LONGEST_PAUSE
    clock.now += LONGEST_PAUSE + 1
    assert limiter.pause("a") == 0.0


def test_zero_sets_no_limit(clock: Clock) -> None:
    limiter = RateLimiter(0, clock)
    assert {limiter.take("a") for _ in range(1000)} == {0.0}


@given(st.integers(1, 100), st.lists(st.floats(0, 30), max_size=200))
def test_never_more_than_the_limit_and_a_minutes_worth(limit: int, pauses: list[float]) -> None:
    clock = Clock()
    limiter, taken = RateLimiter(limit, clock), 0
    for pause in pauses:
        clock.now += pause
        taken += limiter.take("a") == 0.0
    assert taken <= limit + sum(pauses) * limit / 60 + 1e-6


def test_threads_do_not_get_more_than_there_is(clock: Clock) -> None:
    limiter, got = RateLimiter(100, clock), list[float]()
    threads = [threading.Thread(target=lambda: got.extend(limiter.take("a") for _ in range(50))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got.count(0.0) == 100


@pytest.mark.parametrize(("wait", "seconds"), [(0.01, 1), (1.0, 1), (1.2, 2), (59.99, 60)])
def test_a_wait_is_rounded_up_to_whole_seconds(wait: float, seconds: int) -> None:
    assert whole_seconds(wait) == seconds


def test_a_refusal_says_the_rate_and_when_to_ask_again(clock: Clock) -> None:
    limiter = RateLimiter(60, clock)
    limiter.admit("a", 2)
    limiter.admit("a", 2)
    with pytest.raises(BusyError) as refused:
        limiter.admit("a", 2)
    assert str(refused.value) == "rate limit exceeded: 2 requests per minute for the key a; retry in 30 s"
    assert refused.value.retry_after == pytest.approx(30.0)
