"""A cluster whose head is reached through an address before it, such as a Service of Kubernetes; here HAProxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_hosts import ClusterHosts
from programs import program
from running_cluster import HEAD, ONE, TWO, Cluster

ENTRY, OTHER = 4, 5  # hosts: the address, and a second place of a head
_CONFIGURATION = """
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen head
  bind {entry}:6379
  default-server check inter 500ms on-marked-down shutdown-sessions
  server one {one}:6379
  server other {other}:6379 backup
"""


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with two hosts behind such an address."""
    with ClusterHosts(6) as hosts:
        made = Cluster(hosts, tmp_path)
        made.entry = ENTRY
        text = _CONFIGURATION.format(entry=hosts.address(ENTRY), one=hosts.address(HEAD), other=hosts.address(OTHER))
        (tmp_path / "haproxy.cfg").write_text(text)
        hosts.start(ENTRY, [program("haproxy"), "-db", "-f", tmp_path / "haproxy.cfg"], tmp_path / "haproxy.log")
        made.head()
        made.join(ONE, TWO)
        yield made


def test_hosts_join_another_head_behind_the_same_address(pool: Cluster) -> None:
    pool.drive()
    pool.submit(20, 1)
    pool.until_spoken(20, 1)
    pool.stop_driver()
    pool.driver = None

    pool.hosts.kill(pool.nodes[HEAD])
    pool.head(on=OTHER)
    pool.until(lambda: pool.members() == {"host1", "host2"}, "the hosts have not joined the other head")
    pool.drive()
    pool.submit(20, 2)
    pool.until_spoken(20, 2)
    assert {each["device"] for each in pool.chunks(2)} == {"host1/cpu0", "host2/cpu0"}
