"""Places of concurrent speech requests: by key, free when the speech is synthesized; a bound on what is unread."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from voxyard.service.errors import BusyError, UnavailableError
from voxyard.service.fairness import NO_LIMITS, KeyLimits, fair_part, no_limits
from voxyard.service.streaming.audio_response import Cut
from voxyard.service.streaming.speech_request import ConcurrencyLimiter


def test_a_place_is_free_once_all_is_synthesized_though_the_client_reads_on() -> None:
    limiter = ConcurrencyLimiter(1)
    with limiter.acquire("slow") as place, ExitStack() as stack:
        with pytest.raises(BusyError, match="1 of 1 speech requests in progress"):
            stack.enter_context(limiter.acquire("slow"))
        place.spoken(lambda: 100)
        assert limiter.active == 0
        stack.enter_context(limiter.acquire("slow"))
        assert limiter.active == 1
    assert limiter.active == 0


def test_sixty_four_slow_readers_of_a_key_leave_another_its_places() -> None:
    limiter = ConcurrencyLimiter(64)
    with ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(limiter.acquire("slow"))  # not even synthesized
        for _ in range(32):
            stack.enter_context(limiter.acquire("other"))
        for name in ("slow", "other"):
            with pytest.raises(BusyError):
                stack.enter_context(limiter.acquire(name))


def test_a_key_with_a_limit_of_its_own_has_no_more_at_a_time() -> None:
    limiter = ConcurrencyLimiter(8, lambda name: KeyLimits(speech_requests=2) if name == "small" else NO_LIMITS)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(limiter.acquire("small"))
        with pytest.raises(BusyError, match="2 of 2 speech requests of the key small"):
            stack.enter_context(limiter.acquire("small"))
        stack.enter_context(limiter.acquire("other"))


def test_the_oldest_slow_reader_of_a_key_is_cut_above_the_bound(caplog: pytest.LogCaptureFixture) -> None:
    limiter, cuts = ConcurrencyLimiter(8, max_unread_bytes=250), [Cut() for _ in range(4)]
    with ExitStack() as stack:
        for cut, name in zip(cuts, ("slow", "slow", "other", "slow"), strict=True):
            stack.enter_context(limiter.acquire(name, cut)).spoken(lambda: 100)

        async def is_cut(cut: Cut) -> bool:
            try:
                await asyncio.wait_for(cut.wait(), 0.01)
            except TimeoutError:
                return False
            return True

        assert [asyncio.run(is_cut(cut)) for cut in cuts] == [True, False, False, False]
    assert "slow readers of the key slow" in caplog.text


def test_no_place_is_given_once_it_is_closed() -> None:
    limiter = ConcurrencyLimiter(8)
    limiter.close()
    with pytest.raises(UnavailableError), limiter.acquire("a"):
        pass


def test_parts_follow_the_shares_of_the_keys_that_have_something() -> None:
    assert fair_part(60, "a", (), no_limits) == 60
    assert fair_part(60, "a", ("a", "b", "c"), no_limits) == 20
    assert fair_part(60, "a", ("b",), lambda name: KeyLimits(share=3.0 if name == "a" else 1.0)) == 45
