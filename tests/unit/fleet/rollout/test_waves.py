"""Rollout waves: order of hosts, and hosts not touched after a failure."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleet.inventory.hosts import Host, Role
from fleet.rollout.outcome import Outcome, Result
from fleet.rollout.waves import roll, waves


def host(name: str, *roles: Role, canary: bool = False) -> Host:
    return Host(name, "192.0.2.1", "voxyard", roles=roles, canary=canary)


def names(order: Sequence[Sequence[Host]]) -> list[list[str]]:
    return [[each.name for each in wave] for wave in order]


TRAINERS = [host(f"t-{number}", "trainer") for number in range(5)]
BARKS = [host(f"b-{number}", "bark") for number in range(2)]


@pytest.mark.parametrize(
    ("hosts", "order"),
    [
        ([*TRAINERS, *BARKS], [["t-0"], ["b-0"], ["t-1", "t-2", "t-3"], ["t-4", "b-1"]]),
        ([host("both", "trainer", "bark"), *BARKS], [["both"], ["b-0", "b-1"]]),
        ([*BARKS, host("chosen", "bark", canary=True)], [["chosen"], ["b-0", "b-1"]]),
        (
            [host("both", "trainer", "bark"), *BARKS[:1], host("chosen", "bark", canary=True)],
            [["chosen"], ["both"], ["b-0"]],
        ),
        ([host("plain"), host("plain-2")], [["plain"], ["plain-2"]]),
        ([], []),
    ],
)
def test_a_canary_of_each_role_comes_first_then_batches(hosts: list[Host], order: list[list[str]]) -> None:
    assert names(waves(hosts, 3)) == order


def done(results: dict[str, Result], go_on: bool = True) -> dict[str, str]:
    worked: list[str] = []

    def work(wave: Sequence[Host]) -> list[Outcome]:
        worked.extend(each.name for each in wave)
        return [Outcome(each.name, results.get(each.name, "deployed")) for each in wave]

    found: dict[str, str] = {
        each.host: each.result for each in roll(waves([*TRAINERS, *BARKS], 3), work, lambda: go_on)
    }
    assert worked == [name for name, result in found.items() if result != "not touched"]
    return found


def test_nobody_is_touched_after_a_canary_that_failed() -> None:
    found = done({"t-0": "failed"})
    assert found.pop("t-0") == "failed"
    assert set(found.values()) == {"not touched"}
    assert len(found) == 6


def test_the_hosts_of_a_batch_come_to_their_end_and_the_next_batch_is_not_begun() -> None:
    found = done({"t-1": "failed"})
    assert [name for name, result in found.items() if result == "not touched"] == ["t-4", "b-1"]
    assert found["t-3"] == "deployed"


def test_nobody_is_touched_once_it_is_to_stop() -> None:
    assert set(done({}, go_on=False).values()) == {"not touched"}
