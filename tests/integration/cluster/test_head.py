"""A cluster's head that is killed: speaking goes on, and with a Redis the head comes back to the same cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_hosts import ClusterHosts
from programs import program
from running_cluster import HEAD, ONE, TWO, Cluster

REDIS = "127.0.0.1:6380"
MANY = 60


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster whose head keeps its state in a real Redis on its loopback, with a driver."""
    redis = program("redis-server")
    with ClusterHosts(4) as hosts:
        made = Cluster(hosts, tmp_path)
        hosts.start(
            HEAD, [redis, "--bind", "127.0.0.1", "--port", "6380", "--save", "", "--dir", tmp_path],
            tmp_path / "redis.log",
        )  # fmt: skip
        made.until((tmp_path / "redis.log").exists, "no Redis")
        made.until(lambda: "Ready to accept" in (tmp_path / "redis.log").read_text(), "no Redis")
        made.head("--redis", REDIS)
        made.join(ONE, TWO)
        made.drive(seconds=1.0)
        yield made


def test_speaking_goes_on_without_the_head_and_hosts_join_again_after_it(pool: Cluster) -> None:
    pool.submit(MANY, 1)
    pool.until(lambda: len(pool.chunks(1)) > 4, "nothing is spoken")
    pool.hosts.kill(pool.nodes[HEAD])

    pool.until_spoken(MANY, 1)

    pool.head("--redis", REDIS)
    pool.hosts.kill(pool.nodes[TWO])
    pool.submit(MANY, 2)
    pool.until_spoken(MANY, 2)
    pool.until_ready("host1/cpu0")
    pool.join(TWO)
    pool.until_ready("host1/cpu0", "host2/cpu0")
    pool.submit(MANY, 3)
    pool.until_spoken(MANY, 3)
    assert {each["device"] for each in pool.chunks(3)} == {"host1/cpu0", "host2/cpu0"}
