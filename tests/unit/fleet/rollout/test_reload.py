"""Reload of a service whose files changed: no new container, seen to work, taken back, noticed when changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from leaping_clock import LeapingCancellation
from release_doubles import release, saved
from shell_host import FakeServices, ShellHost

from fleet.images.archive import ImageCache
from fleet.release.manifest import manifest_of, parse
from fleet.release.release import Release
from fleet.rollout.apply import apply
from fleet.rollout.change_plan import ChangePlan, plan_change, plan_rollback
from fleet.rollout.commands import config_refusal
from fleet.rollout.context import Outcome, RolloutContext
from fleet.rollout.host_state import read_state
from fleet.rollout.status import read_status


@pytest.fixture
def services() -> Iterator[FakeServices]:
    """Address of the services."""
    found = FakeServices()
    yield found
    found.close()


@pytest.fixture
def host(tmp_path: Path, services: FakeServices) -> Iterator[ShellHost]:
    """A host on which release `first` runs."""
    found = ShellHost(tmp_path / "host")
    services.rules, services.loaded = found.folder / "config/exporter/current/rules/a.yaml", b"one"
    assert deploy(found, first(services), tmp_path).result == "deployed"
    found.reconnect()
    yield found
    found.close()


def first(services: FakeServices) -> Release:
    return release(services.port, rules="one")


def second(services: FakeServices) -> Release:
    return release(services.port, rules="two")


def planned(host: ShellHost, wanted: Release) -> ChangePlan:
    return plan_change(wanted, read_state(host, "watch-01", manifest_of(wanted)))


def deploy(host: ShellHost, wanted: Release | ChangePlan, folder: Path) -> Outcome:
    context = RolloutContext(
        cancellation=LeapingCancellation(), cache=ImageCache(folder / "cache", saved), min_healthy_seconds=1
    )
    change = planned(host, wanted) if isinstance(wanted, Release) else wanted
    return apply("watch-01", host, change, (), context)


def read_by_service(host: ShellHost) -> str:
    return (host.folder / "config/exporter/current/rules/a.yaml").read_text()


def test_other_files_are_a_reload_in_the_same_container(
    host: ShellHost, services: FakeServices, tmp_path: Path
) -> None:
    containers = host.engine.made
    change = planned(host, second(services))
    assert "reload exporter: other files than it works with" in change.lines()
    assert (len(change.starts), change.touches_services) == (1, False)
    assert deploy(host, change, tmp_path).result == "deployed"
    assert (host.engine.made, services.reloads, services.loaded) == (containers, 1, b"two")
    assert planned(host, second(services)).nothing
    assert len(list((host.folder / "config/exporter").glob("?" * 12))) == 1, "older versions are gone"


def test_its_program_checks_the_files_first_and_anybody_inside_can_read_them(host: ShellHost) -> None:
    (mounts, words) = host.engine.ran[0]
    assert mounts[0].endswith("/exporter:/etc/voxyard/config/current")
    assert words[-1] == "check"
    there = host.folder / "config/exporter/current/rules"
    assert (there.stat().st_mode & 0o777, (there / "a.yaml").stat().st_mode & 0o777) == (0o755, 0o644)


def test_files_that_the_service_does_not_take_are_taken_back_without_a_restart(
    host: ShellHost, services: FakeServices, tmp_path: Path
) -> None:
    containers = host.engine.made
    before = manifest_of(first(services)).id
    services.bad.add("/-/reload")
    outcome = deploy(host, second(services), tmp_path)
    assert outcome.result == "failed"
    assert "exporter does not take its new files: answers 503" in outcome.note
    assert "the rollback failed, too" in outcome.note, "it does not take the old ones either"
    services.bad.clear()
    assert deploy(host, first(services), tmp_path).result == "deployed"
    assert (host.current, host.engine.made, services.loaded) == (before, containers, b"one")


def test_files_that_do_not_show_are_taken_back(host: ShellHost, services: FakeServices, tmp_path: Path) -> None:
    containers, rules = host.engine.made, services.rules
    services.rules = None  # it answers, and keeps the old ones
    outcome = deploy(host, second(services), tmp_path)
    services.rules = rules
    assert "/rules: does not show two" in outcome.note
    assert f"rolled back to release {first(services).id}" in outcome.note
    assert (host.engine.made, read_by_service(host)) == (containers, "one")


@pytest.mark.parametrize("what", ["changed", "unfinished"])
def test_files_changed_on_the_host_and_a_cut_reload_are_drift_and_made_good(
    host: ShellHost, services: FakeServices, tmp_path: Path, what: str
) -> None:
    if what == "changed":
        (host.folder / "config/exporter/current/rules/a.yaml").write_text("mine")
    else:
        (host.folder / "config/exporter/loaded").unlink()
    (drift,) = [each.drift for each in read_status(host, "gpu-01").services if each.name == "exporter"]
    assert drift == ("it does not work with the files of its release",)
    change = planned(host, first(services))
    assert [str(each) for each in change.starts] == ["reload exporter: other files than it works with"]
    assert deploy(host, change, tmp_path).result == "deployed"
    assert (read_by_service(host), planned(host, first(services)).nothing) == ("one", True)


def test_a_rollback_reloads_the_files_of_the_release_before(
    host: ShellHost, services: FakeServices, tmp_path: Path
) -> None:
    deploy(host, second(services), tmp_path)
    change = plan_rollback(host, "watch-01", None)
    assert [each.kind for each in change.starts] == ["reload"]
    deploy(host, change, tmp_path)
    assert (services.loaded, host.current) == (b"one", first(services).id)


def test_a_check_that_fails_stops_before_anything_changes(
    host: ShellHost, services: FakeServices, tmp_path: Path
) -> None:
    host.engine.refusal = "Checking a.yaml\n  FAILED:\n/etc/voxyard/config/current/rules/a.yaml: 1:5: bad"
    outcome = deploy(host, second(services), tmp_path)
    assert outcome.note == "watch-01: exporter rejects its configuration: rules/a.yaml: 1:5: bad"
    assert (read_by_service(host), services.reloads, host.current) == ("one", 0, first(services).id)


def test_the_manifest_keeps_what_a_reload_needs(services: FakeServices) -> None:
    files = dict(first(services).files)
    (entry,) = [each for each in parse(files["release.json"]).services if each.name == "exporter"]
    assert entry.files == first(services).services[0].files


def test_a_refusal_is_its_reason_alone() -> None:
    said = "Checking prometheus.yml\n SUCCESS: 1 rule files found\n\nChecking a.yaml\n  FAILED:\na.yaml: 1:5: bad\n"
    assert config_refusal(said) == "a.yaml: 1:5: bad"
    assert config_refusal("Error response from daemon") == "Error response from daemon"
