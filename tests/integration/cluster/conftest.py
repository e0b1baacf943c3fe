"""A cluster of namespaces whose two hosts have joined, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from running_cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose two hosts have joined."""
    from cluster_hosts import ClusterHosts  # here: what it imports takes seconds, and the quick tier has no cluster
    from running_cluster import ONE, TWO, Cluster

    folder = tmp_path_factory.mktemp("cluster")
    with ClusterHosts(4) as hosts:
        made = Cluster(hosts, folder)
        made.head()
        made.join(ONE, TWO)
        try:
            yield made
        finally:
            for log in sorted(folder.glob("*.log")):
                print(f"== {log.name}\n{log.read_text(errors='replace')[-3000:]}")
