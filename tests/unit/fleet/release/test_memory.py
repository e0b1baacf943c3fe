"""Memory limits of containers: a share of the host's memory, or what the inventory says."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_doubles import host

from fleet.errors import FleetError
from fleet.inventory.hosts import Bark, Trainer
from fleet.release.memory import memory_limits

GIB = 1024


@pytest.mark.parametrize(
    ("roles", "total", "expected"),
    [
        ((), 64, {}),
        (("monitoring",), 64, {}),
        (("bark",), 64, {"bark": 60}),
        (("trainer",), 16, {"trainer": 14}),
        (("trainer", "bark"), 256, {"trainer": 120, "bark": 120}),
        (("bark",), 4, {"bark": 3}),
    ],
)
def test_the_system_keeps_its_part_and_the_rest_is_shared(roles: Any, total: int, expected: dict[str, int]) -> None:
    found = memory_limits(host(roles=roles), total * GIB)
    assert found == {role: gib * GIB for role, gib in expected.items()}


def test_the_inventory_decides_where_it_says_something() -> None:
    on = host(roles=("trainer", "bark"), bark=Bark(memory_gib=16), trainer=Trainer())
    assert memory_limits(on, 64 * GIB) == {"bark": 16 * GIB, "trainer": 30 * GIB}


def test_without_the_hosts_memory_only_the_inventory_limits_any() -> None:
    assert memory_limits(host(roles=("trainer", "bark"), trainer=Trainer(memory_gib=8)), None) == {"trainer": 8 * GIB}


def test_a_limit_that_the_host_does_not_have_is_refused() -> None:
    with pytest.raises(FleetError, match=r"gpu-01: trainer\.memory_gib is 65, the host has 64 GiB: lower it"):
        memory_limits(host(trainer=Trainer(memory_gib=65)), 64 * GIB)
