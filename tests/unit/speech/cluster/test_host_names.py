"""Names of a cluster's hosts: one host each, also where an earlier entry is still listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from voxyard.speech.cluster import host_names
from voxyard.speech.cluster.access import open_access
from voxyard.speech.cluster.host_names import taken_name
from voxyard.speech.cluster.node import NodeSpec

OWN, OTHER = "10.0.0.2", "10.0.0.3"


@pytest.fixture
def spec() -> NodeSpec:
    return NodeSpec("worker", open_access("127.0.0.1", None), OWN, "gpu-01")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_names, "_POLL_SECONDS", 0.0)


def listed(*answers: dict[str, list[str]]) -> Callable[[], dict[str, list[str]]]:
    """Hosts that the head lists, one answer after the other; the last one goes on."""
    left: Iterator[dict[str, list[str]]] = iter(answers)
    last: dict[str, list[str]] = {}

    def ask() -> dict[str, list[str]]:
        nonlocal last
        last = next(left, last)
        return last

    return ask


@pytest.mark.parametrize("hosts", [{}, {"gpu-02": [OTHER]}, {"gpu-01": [OWN]}])
def test_a_free_name_and_a_hosts_own_earlier_entry_are_taken(spec: NodeSpec, hosts: dict[str, list[str]]) -> None:
    assert taken_name(spec, listed(hosts), lambda _: True) is None


def test_a_second_host_of_a_name_is_refused_with_both_addresses(spec: NodeSpec) -> None:
    said = taken_name(spec, listed({"gpu-01": [OWN, OTHER]}, {}), lambda address: address == OTHER) or ""

    assert f"gpu-01 is in cluster 127.0.0.1:6379 already, at {OTHER}" in said
    assert f"this host is {OWN}" in said
    assert "--name" in said


def test_an_entry_that_does_not_answer_is_waited_for(spec: NodeSpec, caplog: pytest.LogCaptureFixture) -> None:
    hosts = listed({"gpu-01": [OTHER]}, {"gpu-01": [OTHER]}, {})

    assert taken_name(spec, hosts, lambda _: False) is None
    assert [record.message for record in caplog.records] == [
        f"gpu-01 at {OTHER} does not answer: waiting until the cluster drops it"
    ]


def test_an_entry_that_stays_is_refused(spec: NodeSpec) -> None:
    assert OTHER in (taken_name(spec, listed({"gpu-01": [OTHER]}), lambda _: False, seconds=0.05) or "")
