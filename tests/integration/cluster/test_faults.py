"""A pool over two hosts that are killed, frozen, cut off and join again: every chunk once, with the same audio."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from running_cluster import ONE, TWO, Cluster

ENGINE = "voxyard.speech.pool.worker"
MANY = 60


@pytest.fixture(scope="module")
def pool(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a driver whose chunks take a moment."""
    cluster.drive(seconds=1.0)
    yield cluster
    cluster.stop_driver()


def busy_on(pool: Cluster, seed: int, device: str) -> None:
    """Wait until a job has a chunk from a device, and is not at its end."""
    pool.until(lambda: any(each["device"] == device for each in pool.chunks(seed)), f"nothing spoken on {device}")
    assert len(pool.chunks(seed)) < MANY


def test_chunks_are_spoken_on_both_hosts_with_the_audio_of_one(pool: Cluster) -> None:
    pool.submit(MANY, 1)

    pool.until_spoken(MANY, 1)

    assert {each["device"] for each in pool.chunks(1)} == {"host1/cpu0", "host2/cpu0"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
@pytest.mark.parametrize("parts", [(ENGINE,), ("ray::", "Relay")], ids=["engine", "actor"])
def test_a_worker_or_its_actor_that_is_killed_or_frozen_is_started_anew(
    pool: Cluster, parts: tuple[str, ...], number: signal.Signals
) -> None:
    seed = 10 * number + len(parts)
    pool.submit(MANY, seed)
    busy_on(pool, seed, "host1/cpu0")
    engines = pool.pids(ONE, ENGINE)
    for pid in pool.pids(ONE, *parts):
        os.kill(pid, number)

    pool.until_spoken(MANY, seed)

    pool.until(lambda: not set(engines) & set(pool.pids(ONE, ENGINE)), "an engine outlived its actor")
    pool.until_ready("host1/cpu0", "host2/cpu0")


def test_a_host_that_is_killed_is_missed_and_joins_again(pool: Cluster) -> None:
    pool.submit(MANY, 30)
    busy_on(pool, 30, "host2/cpu0")
    pool.hosts.kill(pool.nodes[TWO])

    pool.until_spoken(MANY, 30)
    pool.until_ready("host1/cpu0")
    pool.join(TWO)

    pool.until_ready("host1/cpu0", "host2/cpu0")
    pool.submit(MANY, 31)
    pool.until_spoken(MANY, 31)
    assert {each["device"] for each in pool.chunks(31)} == {"host1/cpu0", "host2/cpu0"}


def test_a_host_that_is_cut_off_is_missed_and_comes_back_by_itself(pool: Cluster) -> None:
    pool.submit(MANY, 40)
    busy_on(pool, 40, "host2/cpu0")
    pool.hosts.cut(TWO)

    pool.until_spoken(MANY, 40)
    pool.until_ready("host1/cpu0")
    pool.hosts.mend(TWO)

    pool.until_ready("host1/cpu0", "host2/cpu0")
    pool.submit(MANY, 41)
    pool.until_spoken(MANY, 41)
    assert {each["device"] for each in pool.chunks(41)} == {"host1/cpu0", "host2/cpu0"}
