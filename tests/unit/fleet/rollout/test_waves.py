"""Rollout waves: order of hosts, and hosts not touched after a failure."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleet.inventory.hosts import Host, Role
from fleet.rollout.context import Outcome, Result
from fleet.rollout.fleet import canaries, roll, waves


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


def done(results: dict[str, Result], go_on: bool = True, max_failed: int = 0) -> dict[str, str]:
    worked: list[str] = []
    hosts = [*TRAINERS, *BARKS]
    first = [each.name for each in canaries(hosts)]

    def work(wave: Sequence[Host]) -> list[Outcome]:
        worked.extend(each.name for each in wave)
        return [Outcome(each.name, results.get(each.name, "deployed")) for each in wave]

    outcomes = roll(waves(hosts, 3), work, lambda: go_on, canaries=first, max_failed=max_failed)
    found: dict[str, str] = {each.host: each.result for each in outcomes}
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


@pytest.mark.parametrize(("failed", "touched"), [(["t-1"], 7), (["t-1", "t-2"], 5), (["t-2", "t-4"], 7)])
def test_batches_go_on_until_more_hosts_than_allowed_have_failed(failed: list[str], touched: int) -> None:
    found = done(dict.fromkeys(failed, "failed"), max_failed=1)
    assert len([result for result in found.values() if result != "not touched"]) == touched


def test_a_failed_canary_stops_the_rollout_however_many_may_fail() -> None:
    found = done({"t-0": "failed"}, max_failed=7)
    assert [name for name, result in found.items() if result != "not touched"] == ["t-0"]
    assert done({"t-0": "interrupted"}, max_failed=7)["b-0"] == "not touched"


def test_hosts_that_are_not_touched_are_told_why() -> None:
    hosts = [*TRAINERS, *BARKS]

    def work(wave: Sequence[Host]) -> list[Outcome]:
        return [Outcome(each.name, "failed" if each.name in ("t-1", "t-2") else "deployed") for each in wave]

    *_, last = roll(waves(hosts, 3), work, lambda: True, canaries=["t-0", "b-0"], max_failed=1)
    assert last.note == "failed: t-1, t-2; rollout.max_failed allows 1 of these hosts"
    *_, last = roll(waves(hosts, 3), work, lambda: True, canaries=["t-1"], max_failed=9)
    assert last.note == "the canary t-1 failed"


def test_a_host_that_may_still_be_out_of_work_counts_as_failed() -> None:
    hosts = TRAINERS[:3]

    def work(wave: Sequence[Host]) -> list[Outcome]:
        return [Outcome(each.name, "deployed", hook_failure="the after hook failed") for each in wave]

    found = [each.result for each in roll(waves(hosts, 1), work, lambda: True, canaries=["t-0"])]
    assert found == ["deployed", "not touched", "not touched"]
