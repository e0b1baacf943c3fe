"""The process that talks to Ray may end: the pool stays, says why it cannot speak, and goes on with another one."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from engines import sound
from eventually import eventually
from free_ports import free_port
from local_relay import DEVICES
from prometheus_client import CollectorRegistry

from voxyard.speech.cluster import link as links
from voxyard.speech.cluster.access import ClusterAccess
from voxyard.speech.cluster.link import ClusterLink
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.job import Job
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.pool import Pool
from voxyard.speech.requests import Request

COUNT = 30
NAMES = {each.name for each in DEVICES}


class Head:
    """A port that answers, or does not."""

    def __init__(self) -> None:
        self.port = free_port()
        self.back()

    def away(self) -> None:
        self.listener.close()

    def back(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", self.port))


class Clock:
    """Seconds that pass as they do, and as a test has them pass."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead

    def advance(self) -> None:
        self.ahead += links.SILENT_SECONDS / 3


@pytest.fixture
def head() -> Iterator[Head]:
    made = Head()
    yield made
    made.listener.close()


@pytest.fixture
def link(head: Head, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> ClusterLink:
    for name, value in (("LOOK_SECONDS", 0.05), ("_PAUSE", 0.05)):
        monkeypatch.setattr(links, name, value)
    access = ClusterAccess("127.0.0.1", head.port, None)
    return ClusterLink(access, SpeechSection(), module="local_relay", clock=clock)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def pool(link: ClusterLink, registry: CollectorRegistry) -> Iterator[Pool]:
    limits = PoolLimits(backoff=0.01, max_backoff=0.05, warm_workers=10)
    made = Pool(
        EngineSpec("engines:tones", {"seconds": 0.05, "rows": 1}), (), limits=limits, heartbeat_seconds=0.2,
        launch=link.launch, no_device="no host", trouble=lambda: link.trouble,
        observer=PoolMetrics(registry),
    )  # fmt: skip
    link.open(made.add, made.remove)
    yield made
    made.close(3.0)
    link.close()


def requests() -> list[Request]:
    return [Request(index, f"Chunk {index} of the text.", seed=7) for index in range(COUNT)]


def loaded(pool: Pool) -> set[str]:
    return {each.device for each in pool.workers() if each.state in ("ready", "busy")}


def kill_relay(link: ClusterLink) -> None:
    assert link.relay is not None
    os.kill(link.relay, signal.SIGKILL)


def assert_whole(job: Job) -> None:
    eventually(lambda: job.progress.done == COUNT, lambda: str(job.progress))
    outcomes = list(job.outcomes())
    assert [each.index for each in outcomes] == list(range(COUNT))
    for each, request in zip(outcomes, requests(), strict=True):
        assert each.result is not None
        np.testing.assert_array_equal(each.result.audio, sound(request))


def test_chunks_of_a_relay_that_dies_are_spoken_by_the_next_one_each_once(
    pool: Pool, link: ClusterLink, caplog: pytest.LogCaptureFixture
) -> None:
    eventually(lambda: loaded(pool) == NAMES, "both hosts have a worker")
    with caplog.at_level(logging.INFO):
        job = pool.submit(requests())
        eventually(lambda: job.progress.done > 2, "some chunks are spoken")
        kill_relay(link)
        assert_whole(job)
        lost = "is lost: its process was killed by SIGKILL; it is joined again"
        eventually(lambda: lost in caplog.text, "it is noticed")
    eventually(lambda: loaded(pool) == NAMES and pool.waiting is None, "both hosts have a worker again")


def test_without_a_head_nothing_waits_in_vain_and_its_return_is_noticed(
    pool: Pool, link: ClusterLink, head: Head, caplog: pytest.LogCaptureFixture
) -> None:
    eventually(lambda: loaded(pool) == NAMES, "both hosts have a worker")
    head.away()
    eventually(lambda: link.trouble is not None, "it is noticed")
    assert pool.waiting is None, "workers that run go on speaking"
    assert_whole(pool.submit(requests()))
    kill_relay(link)
    eventually(lambda: not pool.workers(), "the devices have gone")
    eventually(lambda: "does not answer" in (pool.waiting or ""), lambda: str(pool.waiting))
    with caplog.at_level(logging.INFO):
        job = pool.submit(requests())
        head.back()
        assert_whole(job)
    assert pool.waiting is None


def test_metrics_of_a_lost_head_are_of_no_worker_and_go_on_counting(
    pool: Pool, link: ClusterLink, head: Head, registry: CollectorRegistry
) -> None:
    def total(name: str) -> float:
        return sum(
            each.value
            for metric in registry.collect()
            for each in metric.samples
            if each.name == f"voxyard_bark_{name}"
        )

    eventually(lambda: total("workers") == len(NAMES), "both hosts have a worker")
    assert_whole(pool.submit(requests()))
    head.away()
    kill_relay(link)
    eventually(lambda: total("workers") == total("workers_busy") == 0, "nobody speaks")
    job = pool.submit(requests())
    eventually(lambda: total("queue_depth") == COUNT, "the chunks wait")
    assert total("chunks_total") == COUNT
    head.back()
    assert_whole(job)
    eventually(lambda: total("workers") == len(NAMES), "both hosts have a worker again")
    eventually(lambda: (total("chunks_total"), total("queue_depth")) == (2 * COUNT, 0))


def test_a_head_that_is_back_before_its_relay_has_ended_is_told(pool: Pool, link: ClusterLink, head: Head) -> None:
    head.away()
    eventually(lambda: link.trouble is not None, "it is noticed")
    head.back()
    eventually(lambda: link.trouble is None, lambda: str(link.trouble))


def test_a_relay_that_says_nothing_is_killed(
    pool: Pool, link: ClusterLink, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    first = link.relay
    assert first is not None
    os.kill(first, signal.SIGSTOP)

    def is_killed() -> bool:
        clock.advance()
        return "the process that talks to Ray is killed: it said nothing" in caplog.text

    eventually(is_killed, "it is killed", every=0.3)
    eventually(lambda: link.relay not in (None, first), "another relay has joined")


def test_a_cluster_that_cannot_be_joined_is_refused_at_the_start(head: Head, tmp_path: Path) -> None:
    access = replace(ClusterAccess("127.0.0.1", head.port, None), token=tmp_path / "refused")
    link = ClusterLink(access, SpeechSection(), module="local_relay")
    with pytest.raises(SpeechError, match="takes another token"):
        link.open(lambda _: None, lambda *_: None)
    link.close()
