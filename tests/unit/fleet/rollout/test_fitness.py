"""Fitness of hosts: findings of one service keep that service, unfit hosts are skipped, locks of others are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fleet_doubles import facts, host
from leaping_clock import LeapingCancellation
from release_doubles import image, release, saved
from shell_host import FakeServices, ShellHost

from fleet.checks.finding import ALL_SERVICES, ON_GPUS, Finding
from fleet.checks.host_report import HostReport
from fleet.errors import HostFailedError
from fleet.images.archive import ImageCache
from fleet.inventory.hosts import Host
from fleet.lock import locked
from fleet.release.environment import LoginInfo
from fleet.release.gpu_assignment import Assignment
from fleet.release.manifest import manifest_of
from fleet.release.release import Release
from fleet.rollout.change_plan import plan_change, plan_rollback
from fleet.rollout.context import Outcome, RolloutContext
from fleet.rollout.fitness import HostSnapshot, unfit_hosts, withheld_services, without
from fleet.rollout.fleet import RolloutTask, run_rollout
from fleet.rollout.host_state import read_state
from fleet.rollout.status import read_status
from fleet.ssh.connection_pool import Connections, GroupResult

BOTH = host(roles=("trainer", "bark"), node_exporter=True)


def failure(*services: str, check: str = "port") -> Finding:
    return Finding("FAIL", check, f"{check} is bad", "repair it", services=services)


@pytest.mark.parametrize(
    ("findings", "kept"),
    [
        ([], set()),
        ([failure("bark")], {"bark"}),
        ([failure("exporter")], {"exporter"}),
        ([failure("monitoring")], set()),
        ([failure(*ON_GPUS)], {"bark", "trainer"}),
        ([replace(failure("bark"), level="WARN")], set()),
        ([failure("node-exporter")], {"node-exporter"}),
        ([failure(*ALL_SERVICES)], {"exporter", "node-exporter", "bark", "trainer"}),
    ],
)
def test_a_failure_keeps_the_services_that_it_concerns(findings: Sequence[Finding], kept: set[str]) -> None:
    assert set(withheld_services(BOTH, findings)) == kept


def test_the_reason_of_a_kept_service_has_all_failures_with_their_fixes() -> None:
    found = withheld_services(BOTH, [failure("bark"), failure("bark", "trainer", check="ecc"), failure("trainer")])
    assert found["bark"] == "port: port is bad: repair it; ecc: ecc is bad: repair it"


def test_services_that_are_kept_are_no_roles_for_a_canary() -> None:
    assert without(BOTH, {"bark"}).roles == ("trainer",)


def snapshot(of: Host, *findings: Finding) -> HostSnapshot:
    report = HostReport(of, facts(), Assignment(), findings)
    return HostSnapshot(report, LoginInfo("192.0.2.11", gpus=False, memory_mib=64 << 10))


def test_a_host_is_unfit_where_no_service_is_left_or_it_does_not_answer() -> None:
    hosts = [replace(BOTH, name=name) for name in ("good", "half", "bad", "off")]
    seen = {
        "good": snapshot(hosts[0]),
        "half": snapshot(hosts[1], failure("bark")),
        "bad": snapshot(hosts[2], failure("exporter"), failure(*ON_GPUS, check="mig")),
    }
    unfit = unfit_hosts(hosts, GroupResult(seen, {"off": HostFailedError("off cannot be reached")}))
    assert {name: str(error) for name, error in unfit.items()} == {
        "off": "off cannot be reached",
        "bad": "preflight failed: port: port is bad: repair it; mig: mig is bad: repair it",
    }


# -- a rollout to hosts of which one is bad ------------------------------------------------------------------------


@pytest.fixture
def services() -> Iterator[FakeServices]:
    """Address of the services."""
    found = FakeServices()
    yield found
    found.close()


class Fleet:
    """Hosts that are directories; those in `off` are switched off when they are locked."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.shells = {name: ShellHost(folder / name) for name in names}
        self.hosts = [Host(name, "192.0.2.1", "voxyard", roles=("bark",)) for name in names]
        self.off: set[str] = set()
        self.context = RolloutContext(
            cancellation=LeapingCancellation(), cache=ImageCache(folder / "cache", saved), min_healthy_seconds=1
        )

    @contextmanager
    def connect(self, to: Host) -> Iterator[ShellHost]:
        """Connection to a host."""
        if to.name in self.off:
            raise HostFailedError(f"{to.name} cannot be reached")
        yield self.shells[to.name]

    def deploy(self, wanted: Release, **options: Any) -> dict[str, Outcome]:
        """Outcomes of a rollout, by host."""
        found = manifest_of(wanted)
        task = RolloutTask("deploy", lambda to, at: plan_change(wanted, read_state(at, to.name, found)), 2, **options)
        with Connections(self.connect) as connections:
            return {each.host: each for each in run_rollout(self.hosts, connections, task, self.context)}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Four hosts."""
    found = Fleet(tmp_path, "a", "b", "c", "d")
    yield found
    for each in found.shells.values():
        each.close()


@pytest.mark.parametrize("off", ["a", "c"])
def test_a_host_that_cannot_be_locked_is_skipped_where_that_is_wanted(
    fleet: Fleet, services: FakeServices, off: str
) -> None:
    fleet.off = {off}
    with pytest.raises(HostFailedError, match=f"{off} cannot be reached\nnothing was changed"):
        fleet.deploy(release(services.port))
    assert all(shell.current is None for shell in fleet.shells.values())
    found = fleet.deploy(release(services.port), skip_unfit=True)
    assert {name: each.result for name, each in found.items()} == {
        name: "unfit" if name == off else "deployed" for name in "abcd"
    }
    assert (found[off].note, found[off].good) == (f"{off} cannot be reached", False)


def test_a_host_that_another_rollout_has_just_locked_is_not_skipped(fleet: Fleet, services: FakeServices) -> None:
    with (
        locked(fleet.shells["c"], "c", "deploy of somebody"),
        pytest.raises(HostFailedError, match=r"c is locked by .*\(deploy of somebody\)"),
    ):
        fleet.deploy(release(services.port), skip_unfit=True)
    assert all(shell.current is None for shell in fleet.shells.values())
    assert not (fleet.shells["a"].folder / "lock").exists()


def test_the_batches_go_on_after_a_failed_host_where_the_inventory_allows_it(
    fleet: Fleet, services: FakeServices
) -> None:
    fleet.shells["b"].engine.modes = {image("bark").reference: "unhealthy"}
    found = fleet.deploy(release(services.port), max_failed=1)
    assert [found[name].result for name in "abcd"] == ["deployed", "failed", "deployed", "deployed"]
    newer = release(services.port, configs={"exporter": "e-2", "bark": "b-2"})
    found = fleet.deploy(newer)
    assert [found[name].result for name in "abcd"] == ["deployed", "failed", "deployed", "not touched"]


# -- a service that the preflight keeps from the release -----------------------------------------------------------


def keeps_bark(port: int) -> Release:
    """Release of an exporter, from which the preflight keeps Bark."""
    made = release(port, configs={"exporter": "e-2"}, more="half")
    files = dict(made.files)
    body = files["release.json"].decode().rstrip("}") + ', "withheld": ["bark"]}'
    return replace(made, files=tuple({**files, "release.json": body.encode()}.items()))


def test_a_service_that_is_kept_from_the_release_runs_on_and_is_named(fleet: Fleet, services: FakeServices) -> None:
    fleet.deploy(release(services.port))
    shell, wanted = fleet.shells["a"], keeps_bark(services.port)
    assert manifest_of(wanted).withheld == ("bark",)
    planned = plan_change(wanted, read_state(shell, "a", manifest_of(wanted)))
    assert "leave bark as it is: the preflight blocks it" in planned.lines()
    outcome = fleet.deploy(wanted)["a"]
    assert (outcome.result, outcome.withheld, outcome.good) == ("deployed", ("bark",), False)
    assert outcome.note == "bark is left as it is: the preflight blocks it"
    assert shell.services() == {"exporter": "e-2", "bark": "b-1"}
    assert shell.audit()[-1]["note"] == outcome.note
    again = fleet.deploy(wanted)["a"]
    assert (again.result, again.good, again.note) == ("unchanged", False, outcome.note)


def test_the_status_of_a_host_names_the_service_that_its_release_lacks(fleet: Fleet, services: FakeServices) -> None:
    fleet.deploy(keeps_bark(services.port))
    status = read_status(fleet.shells["a"], "a")
    assert not status.healthy
    bark = status.services[-1]
    assert (bark.name, bark.well, bark.state) == ("bark", False, "no container")
    assert bark.answers == "not in the release: the preflight blocked it (fab check)"


@pytest.mark.slow
def test_a_rollback_to_a_release_without_a_service_leaves_that_service(fleet: Fleet, services: FakeServices) -> None:
    fleet.deploy(keeps_bark(services.port))
    fleet.deploy(release(services.port))
    found = plan_rollback(fleet.shells["a"], "a", None)
    assert (found.removals, [each.service.name for each in found.starts]) == ((), ["exporter"])


@pytest.mark.slow
def test_a_failed_deploy_over_a_release_without_a_service_says_that_it_was_stopped(
    fleet: Fleet, services: FakeServices
) -> None:
    fleet.deploy(keeps_bark(services.port))
    fleet.shells["a"].engine.modes = {image("bark").reference: "unhealthy"}
    outcome = fleet.deploy(release(services.port))["a"]
    assert outcome.result == "failed"
    assert outcome.note.endswith(", which has no bark: stopped")
    assert fleet.shells["a"].services() == {"exporter": "e-2"}


class Training:
    """Host on which a run trains."""

    def active(self, _: Any) -> Sequence[str]:
        return ("r-1",)

    def waiting(self, _: Any) -> Sequence[str]:
        return ()

    def stop(self, _: Any, run: str, *, drained: bool) -> None:
        raise AssertionError(run)

    def resume_drained(self, _: Any, release: str | None) -> None:
        raise AssertionError(release)


def test_a_run_is_not_drained_for_a_release_that_could_not_resume_it(fleet: Fleet, services: FakeServices) -> None:
    fleet.context = replace(fleet.context, runs=Training(), drain=True)
    wanted = keeps_bark(services.port)
    files = {name: body.replace(b'["bark"]', b'["trainer"]') for name, body in wanted.files}
    outcome = fleet.deploy(replace(wanted, files=tuple(files.items())))["a"]
    assert outcome.result == "skipped"
    assert (
        "run r-1 is active: the preflight blocks the trainer: repair that, or wait until it has ended" in outcome.note
    )
