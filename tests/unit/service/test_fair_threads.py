"""Fair threads: a key's work waits for its own, and another key's for one piece of it at the most."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest
from eventually import PATIENCE, eventually

from voxyard.service import fairness
from voxyard.service.fairness import FairThreads, KeyLimits
from voxyard.speech.errors import check_wanted


class Gates:
    """Work that waits until it may end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._open: dict[str, threading.Event] = {}

    def work(self, name: str) -> Callable[[], str]:
        gate = self._open.setdefault(name, threading.Event())

        def run() -> str:
            self.begun.append(name)
            assert gate.wait(PATIENCE)
            return name

        return run

    def open(self, *names: str) -> None:
        for name in names:
            self._open[name].set()


async def until(condition: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(eventually, condition, what)


def test_a_key_has_one_thread_however_much_it_sends_and_another_key_the_next() -> None:
    async def play() -> None:
        gates, threads = Gates(), FairThreads("test")
        many = [asyncio.create_task(threads.run("ann", gates.work(f"ann {number}"))) for number in range(45)]
        await until(lambda: gates.begun == ["ann 0"], "the first begins")
        other = asyncio.create_task(threads.run("bob", gates.work("bob")))
        await until(lambda: gates.begun == ["ann 0", "bob"], "the other key does not wait")
        gates.open("bob")
        assert await other == "bob"
        gates.open(*(f"ann {number}" for number in range(45)))
        assert await asyncio.gather(*many) == [f"ann {number}" for number in range(45)]

    asyncio.run(play())


def test_the_key_that_has_had_least_by_its_share_comes_next() -> None:
    shares = {"ann": KeyLimits(share=1.0), "bob": KeyLimits(share=100.0)}

    async def play() -> list[str]:
        gates, threads = Gates(), FairThreads("test", shares.__getitem__, threads=1)
        tasks = [asyncio.create_task(threads.run("ann", gates.work("ann 0")))]
        await until(lambda: gates.begun == ["ann 0"], "the first begins")
        names = ("ann 1", "ann 2", "bob 1", "bob 2")
        tasks += [asyncio.create_task(threads.run(name.split()[0], gates.work(name))) for name in names]
        await asyncio.sleep(0)  # they wait
        gates.open("ann 0", "ann 1", "ann 2", "bob 1", "bob 2")
        await asyncio.gather(*tasks)
        return gates.begun

    assert asyncio.run(play())[:2] == ["ann 0", "bob 1"]


def test_errors_are_raised_and_the_place_is_free_again() -> None:
    def fails() -> None:
        raise ValueError("broken")

    async def play() -> None:
        threads = FairThreads("test", threads=1)
        for _ in range(2):
            with pytest.raises(ValueError, match="broken"):
                await threads.run("ann", fails)
        assert await threads.run("bob", lambda: 1) == 1

    asyncio.run(play())


def test_a_request_that_is_cut_waits_for_no_thread_and_its_waiting_work_never_begins() -> None:
    gates = Gates()

    async def play() -> None:
        threads = FairThreads("test", threads=1)
        begun, waiting = (asyncio.create_task(threads.run("ann", gates.work(name))) for name in ("first", "second"))
        await until(lambda: gates.begun == ["first"], "the first begins")
        begun.cancel()
        waiting.cancel()
        await asyncio.wait([begun, waiting])  # though the thread still runs
        third = asyncio.create_task(threads.run("ann", gates.work("third")))
        gates.open("first", "third")
        assert await third == "third"

    asyncio.run(play())
    assert gates.begun == ["first", "third"]


def test_work_that_has_begun_is_given_up_with_its_request_where_it_looks() -> None:
    looked, ended = threading.Event(), threading.Event()

    def works() -> None:
        try:
            while True:
                check_wanted()
                looked.set()
        finally:
            ended.set()

    async def play() -> None:
        threads = FairThreads("test", threads=1)
        begun = asyncio.create_task(threads.run("ann", works))
        await until(looked.is_set, "it works")
        begun.cancel()
        await until(ended.is_set, "it has ended")
        assert await threads.run("ann", lambda: 1) == 1
        check_wanted()  # what others do is not given up

    asyncio.run(play())


def test_a_thread_is_kept_for_the_next_work() -> None:
    async def play() -> set[int]:
        threads = FairThreads("test")
        return {await threads.run("ann", threading.get_ident) for _ in range(100)}

    assert len(asyncio.run(play())) == 1


def test_a_thread_ends_where_no_work_comes_and_the_next_work_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "KEPT_SECONDS", 0.01)

    async def play() -> None:
        threads = FairThreads("test-kept")
        for number in range(3):
            assert await threads.run("ann", partial(int, number)) == number
            await until(lambda: all(each.name != "test-kept" for each in threading.enumerate()), "it ends")

    asyncio.run(play())
