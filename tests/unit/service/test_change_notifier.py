"""Change notifier: waiters wake on changes from any thread."""

from __future__ import annotations

import asyncio
import threading

from eventually import PATIENCE

from voxyard.service.documents.queue import ChangeNotifier


def test_a_change_before_the_wait_is_seen_at_once() -> None:
    notifier = ChangeNotifier()
    notifier.bump("a")
    assert asyncio.run(notifier.wait("a", 0, 60.0)) == notifier.version("a") > 0


def test_every_change_makes_a_greater_number_also_after_a_restart() -> None:
    notifier, seen = ChangeNotifier(), []
    for _ in range(5):
        notifier.bump("a")
        seen.append(notifier.version("a"))
    later = ChangeNotifier()
    later.bump("a")
    assert seen == sorted(set(seen))
    assert later.version("a") > seen[0]


def test_all_waiters_are_woken_by_a_change_from_another_thread() -> None:
    notifier = ChangeNotifier()

    async def waiting() -> list[int]:
        tasks = [asyncio.create_task(notifier.wait("a", 0, 3600.0)) for _ in range(5)]
        await asyncio.sleep(0)
        threading.Thread(target=notifier.bump, args=("a",)).start()
        return await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)

    assert asyncio.run(waiting()) == [notifier.version("a")] * 5
    assert notifier._waiting == {}


def test_a_change_of_another_document_wakes_no_waiter() -> None:
    notifier = ChangeNotifier()

    async def waiting() -> int:
        task = asyncio.create_task(notifier.wait("a", 0, 0.05))
        await asyncio.sleep(0)
        notifier.bump("b")
        return await task

    assert asyncio.run(waiting()) == 0
    assert notifier._waiting == {}


def test_a_cancelled_waiter_is_removed() -> None:
    notifier = ChangeNotifier()

    async def leaving() -> None:
        task = asyncio.create_task(notifier.wait("a", 0, 60.0))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(leaving())
    assert notifier._waiting == {}


def test_deleting_a_document_wakes_its_waiters_and_keeps_no_state() -> None:
    notifier = ChangeNotifier()
    notifier.bump("a")
    seen = notifier.version("a")

    async def waiting() -> int:
        task = asyncio.create_task(notifier.wait("a", seen, 3600.0))
        await asyncio.sleep(0)
        notifier.forget("a")
        return await asyncio.wait_for(task, PATIENCE)

    assert asyncio.run(waiting()) == 0
    assert notifier._versions == {}


def test_no_change_is_lost_between_many_threads_and_a_reader() -> None:
    notifier, seen = ChangeNotifier(), []

    async def reading() -> None:
        version = 0
        while len(done) < 4 or version != notifier.version("a"):
            version = await notifier.wait("a", version, 0.2)
            seen.append(version)

    done: list[int] = []

    def writing(number: int) -> None:
        for _ in range(200):
            notifier.bump("a")
        done.append(number)

    threads = [threading.Thread(target=writing, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    asyncio.run(reading())
    for thread in threads:
        thread.join()
    assert seen == sorted(seen)
    assert seen[-1] == notifier.version("a")


def test_a_loop_that_has_ended_does_not_disturb_a_change() -> None:
    notifier = ChangeNotifier()
    loop = asyncio.new_event_loop()
    task = loop.create_task(notifier.wait("a", 0, 60.0))
    loop.run_until_complete(asyncio.sleep(0))
    waiting = notifier._waiting["a"]
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    notifier._waiting["a"] = waiting | {(loop, asyncio.Event())}
    notifier.bump("a")
    assert notifier.version("a") > 0
