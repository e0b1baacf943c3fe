"""GPU assignment: the roles of the inventory on the GPUs of a host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fleet_doubles import facts, gpu, host, uuid

from fleet.checks.gpu_use import limits_by_gpu
from fleet.checks.gpus import expects_gpus
from fleet.checks.host_report import HostReport
from fleet.facts.fact import Unknown
from fleet.facts.gpus import with_host_memory
from fleet.inventory.custom_settings import Custom, HealthUrl
from fleet.release.gpu_assignment import Workload, assign
from fleet.release.memory import RESERVED_MIB, memory_limits
from fleet.release.plan import plan_document
from voxyard.host.limits import BARK_WORKER_MIB, HEADROOM_MIB

OWN = Custom("tts:1", Path("tts.yaml"), HealthUrl("127.0.0.1", 8200, "/"))
FOUR = """\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tSYS\tNV4\tSYS\t0-7\t0
GPU1\tSYS\t X \tSYS\tPIX\t8-15\t1
GPU2\tNV4\tSYS\t X \tSYS\t0-7\t0
GPU3\tSYS\tPIX\tSYS\t X \t8-15\t1
"""


def test_the_trainer_has_the_best_pair_and_bark_the_others() -> None:
    found = facts(gpus=tuple(gpu(index) for index in range(4)), topology=FOUR, p2p=Unknown("old"))
    assignment = assign(found, host(roles=("trainer", "bark")))
    assert assignment.workloads == (
        Workload("trainer", "data", uuid(0)),
        Workload("trainer", "model", uuid(2)),
        Workload("bark", "bark", uuid(1)),
        Workload("bark", "bark", uuid(3)),
    )
    assert "NV4" in assignment.reason
    assert assignment.limits is not None
    assert assignment.limits.model.uuid == uuid(2)


def test_a_gpu_that_the_drivers_topology_lacks_is_named() -> None:
    one = "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t0\n"
    assignment = assign(facts(gpus=(gpu(0), gpu(1)), topology=one, p2p=Unknown("old")), host(roles=("trainer",)))
    assert "nvidia-smi topo -m lacks GPU1" in " ".join(assignment.notes)


def test_bark_alone_has_every_gpu_that_is_fit() -> None:
    found = facts(gpus=(gpu(0), gpu(1, mig=True)))
    assert assign(found, host(roles=("bark",))).workloads == (Workload("bark", "bark", uuid(0)),)


def test_one_gpu_is_shared_and_leaves_room_for_bark() -> None:
    found = facts(gpus=(gpu(0),))
    alone, shared = (assign(found, host(roles=roles)) for roles in (("trainer",), ("trainer", "bark")))
    assert alone.workloads == (Workload("trainer", "model", uuid(0)),)
    assert shared.workloads == (Workload("trainer", "model", uuid(0)), Workload("bark", "bark", uuid(0)))
    assert alone.limits is not None
    assert shared.limits is not None
    assert shared.limits.model.limit_mib < alone.limits.model.limit_mib
    assert alone.limits.data is None


def test_a_host_whose_second_gpu_is_broken_shares_the_first() -> None:
    found = facts(gpus=(gpu(0), gpu(1, remap_failed=True)))
    assert assign(found, host()).workloads == (Workload("trainer", "model", uuid(0)),)
    assignment = assign(found, host(roles=("trainer", "bark")))
    assert assignment.workloads == (Workload("trainer", "model", uuid(0)), Workload("bark", "bark", uuid(0)))
    assert assignment.bark_limits == {uuid(0): BARK_WORKER_MIB["large"] - HEADROOM_MIB}


def test_of_two_gpus_without_room_for_both_each_gets_one() -> None:
    assignment = assign(facts(), host(roles=("trainer", "bark")))
    assert assignment.workloads == (Workload("trainer", "model", uuid(0)), Workload("bark", "bark", uuid(1)))
    assert assignment.bark_limits == {uuid(1): 16384}
    assert assignment.reason == "GPU0 trains alone, the other GPUs are assigned to Bark"


def test_a_pair_with_room_for_both_is_shared() -> None:
    large = (gpu(0, memory_total_mib=81559), gpu(1, memory_total_mib=81559))
    assignment = assign(facts(gpus=large), host(roles=("trainer", "bark")))
    assert [each.gpu for each in assignment.workloads if each.workload == "bark"] == [uuid(0), uuid(1)]
    assert assignment.limits is not None
    for card in (assignment.limits.data, assignment.limits.model):
        assert card is not None
        assert card.limit_mib + assignment.bark_limits[card.uuid] + 2 * HEADROOM_MIB <= card.memory_total_mib


@pytest.mark.parametrize(("policy", "limit"), [("recommended", 16384), ("full", 24564 - 1024)])
def test_bark_alone_is_limited_by_the_policy(policy: str, limit: int) -> None:
    assignment = assign(facts(), host(roles=("bark",), memory_policy=policy))
    assert assignment.bark_limits == {uuid(0): limit, uuid(1): limit}


def test_beside_a_trainer_bark_has_what_the_trainer_leaves() -> None:
    assignment = assign(facts(gpus=(gpu(0),)), host(roles=("trainer", "bark"), memory_policy="full"))
    assert assignment.bark_limits == {uuid(0): BARK_WORKER_MIB["large"] - HEADROOM_MIB}


def test_a_card_that_does_not_tell_its_memory_is_not_for_bark() -> None:
    unknown = facts(gpus=(gpu(0, memory_total_mib=None), gpu(1)))
    assert assign(unknown, host(roles=("bark",))).bark_limits == {uuid(1): 16384}


@pytest.mark.parametrize("free", [200, 24000])
def test_what_is_free_now_does_not_change_the_plan(free: int) -> None:
    busy = facts(gpus=(gpu(0, memory_free_mib=free), gpu(1, memory_free_mib=free)))
    assert assign(busy, host()) == assign(facts(), host())


def test_the_policy_of_the_inventory_decides_the_limits() -> None:
    full = assign(facts(), host(memory_policy="full")).limits
    assert full is not None
    assert full.data is not None
    assert full.data.limit_mib == full.model.limit_mib == 24564 - 1024


@pytest.mark.parametrize("roles", [(), ("monitoring",)])
def test_other_roles_get_no_gpus(roles: tuple[str, ...]) -> None:
    assert assign(facts(), host(roles=roles)).workloads == ()


@pytest.mark.parametrize(
    ("given", "gpus", "total"),
    [
        (None, (gpu(0), gpu(1)), 2),
        (8, (gpu(0), gpu(1)), 8),  # the others fell off the bus
        ((uuid(0), uuid(1)), (gpu(0), gpu(2)), 3),  # one is missing, one is not to be used
        (None, (), 0),
        (None, Unknown("nvidia-smi fails"), None),
        (8, Unknown("nvidia-smi fails"), 8),
    ],
)
def test_the_plan_counts_the_gpus_that_the_host_should_have(given: Any, gpus: Any, total: int | None) -> None:
    document = plan_document(assign(facts(gpus=gpus), host(roles=(), gpus=given)))
    assert document.get("gpus") == total


def test_without_any_fit_gpu_the_problem_is_named() -> None:
    assignment = assign(facts(gpus=(gpu(0, mig=True), gpu(1, mig=True))), host())
    assert assignment.workloads == ()
    assert assignment.problem is not None
    assert "MIG is on" in assignment.problem


@pytest.mark.parametrize("roles", [("trainer",), ("bark",), ("trainer", "bark")])
@pytest.mark.parametrize("policy", ["recommended", "full"])
def test_a_gpu_in_its_machines_memory_and_the_containers_get_no_more_than_there_is(roles: Any, policy: Any) -> None:
    total = 125513584 // 1024
    own = replace(gpu(0), name="NVIDIA GB10", memory_total_mib=None, memory_free_mib=None)
    known = facts(gpus=with_host_memory([own], total), memory_mib=total)
    on = host(roles=roles, memory_policy=policy)
    found = assign(known, on)
    report = HostReport(on, known, found, ())
    containers = memory_limits(on, report.memory_mib if isinstance(report.memory_mib, int) else None)
    assert found.problem is None
    assert sum(limits_by_gpu(found).values()) + sum(containers.values()) <= total - HEADROOM_MIB - RESERVED_MIB
    assert min(*limits_by_gpu(found).values(), *containers.values(), total) > 16 * 1024


def test_gpus_without_memory_of_their_own_share_half_of_the_machines() -> None:
    own = [replace(gpu(index), memory_total_mib=None) for index in range(2)]
    assert [each.memory_total_mib for each in with_host_memory([*own, gpu(2)], 4000)] == [
        1000, 1000, gpu(2).memory_total_mib,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"roles": ("trainer",)}, True),
        ({"roles": ("monitoring",)}, False),
        ({"roles": ("custom",), "custom": {"tts": replace(OWN, gpus=1)}}, True),
        ({"roles": ("custom",), "custom": {"tts": OWN}}, False),
        ({"roles": ("trainer",), "gpus": 0}, False),
        ({"roles": ("monitoring",), "gpus": 1}, True),
    ],
)
def test_a_host_has_gpus_where_the_inventory_says_so_or_a_role_needs_them(given: Any, expected: bool) -> None:
    assert expects_gpus(host(**given)) == expected
