"""Planned changes of `fab monitoring`: differences only, everything after an interrupted attempt."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from fleet_doubles import host
from local_session import LocalSession

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.inventory.hosts import Inventory
from fleet.monitoring.commands import releases_there
from fleet.monitoring.release import MonitoringImage, MonitoringManifest, MonitoringRelease, Program
from fleet.monitoring.report import document
from fleet.monitoring.state import MonitoringState, plan_change
from fleet.rollout.host_state import HostImage, ServiceContainer
from tasks.monitoring import _monitoring_hosts

IMAGE = LocalImage("sha256:1", ("sha256:a", "sha256:b"), 1 << 20, "voxyard-prometheus")
PICTURES = (MonitoringImage("voxyard-prometheus:1", IMAGE), MonitoringImage("prom/alertmanager@sha256:2"))
PROMETHEUS = Program("prometheus", "config-p", "files-p", "voxyard-prometheus:1")
ALERTMANAGER = Program("alertmanager", "config-a", "files-a", "prom/alertmanager@sha256:2")
MANIFEST = MonitoringManifest("new", ("monitoring.yaml",), (PROMETHEUS, ALERTMANAGER), frozenset(), frozenset())
RELEASE = MonitoringRelease(MANIFEST, (("a", b"1"),), PICTURES, {"alert-chat": b"secret"})


def container(program: Program, **other: str) -> ServiceContainer:
    made = ServiceContainer(
        f"id-{program.name}", program.name, "old", program.config, program.image, "", "running", "healthy", "then"
    )
    return replace(made, **other)  # type: ignore[arg-type]


AS_WANTED = MonitoringState(
    live="new",
    current="new",
    manifest=MANIFEST,
    whole=True,
    checksums=RELEASE.checksums,
    images=(
        HostImage("1", frozenset({"voxyard-prometheus:1"}), IMAGE.layers),
        HostImage("2", frozenset({"prom/alertmanager@sha256:2"}), ()),
    ),
    secrets={"alert-chat": ("600", hashlib.sha256(b"secret").hexdigest())},
    containers=(container(PROMETHEUS), container(ALERTMANAGER)),
)


def test_nothing_is_done_where_everything_is_as_wanted() -> None:
    found = plan_change(RELEASE, AS_WANTED)
    assert found.nothing
    assert found.lines() == ("nothing to do: monitoring new runs",)


def test_the_report_for_programs_has_each_host_with_its_error_or_its_steps() -> None:
    change = plan_change(RELEASE, replace(AS_WANTED, whole=False))
    found = document(["a", "b"], {"a": change}, {"b": FleetError("no answer")}, done=True)
    assert (found["ok"], found["changes"]) == (False, True)
    assert found["hosts"] == [
        {"name": "a", "error": None, "current": "new", "wanted": "new", "steps": list(change.lines()), "done": True},
        {"name": "b", "error": "no answer", "current": None, "wanted": None, "steps": [], "done": False},
    ]
    still = document(["a"], {"a": plan_change(RELEASE, AS_WANTED)}, {}, done=False)
    assert (still["ok"], still["changes"]) == (True, False)


def test_other_files_are_a_reload_of_who_reads_them() -> None:
    before = replace(MANIFEST, id="old", programs=(replace(PROMETHEUS, files="other"), ALERTMANAGER))
    found = plan_change(RELEASE, replace(AS_WANTED, live="old", current="old", manifest=before, whole=False))
    assert (found.reloads, dict(found.starts), found.publish, found.write) == (("prometheus",), {}, True, True)


@pytest.mark.parametrize("live", ["old", None])
def test_after_an_attempt_that_was_cut_off_all_read_their_files_again(live: str | None) -> None:
    assert plan_change(RELEASE, replace(AS_WANTED, live=live)).reloads == ("prometheus", "alertmanager")


def test_a_file_that_somebody_changed_is_written_and_read_again() -> None:
    found = plan_change(RELEASE, replace(AS_WANTED, whole=False))
    assert (found.write, found.reloads) == (True, ("prometheus", "alertmanager"))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"config": "x"}, "configuration x, expected config-p"),
        ({"health": "unhealthy"}, "running, health: unhealthy"),
        ({"state": "exited"}, "exited"),
    ],
)
def test_a_container_that_differs_or_is_unhealthy_is_recreated_and_not_reloaded(
    other: dict[str, str], said: str
) -> None:
    found = plan_change(
        RELEASE,
        replace(AS_WANTED, live="old", containers=(container(PROMETHEUS, **other), container(ALERTMANAGER))),
    )
    assert found.starts["prometheus"].startswith(said)
    assert (set(found.starts), found.reloads) == ({"prometheus"}, ("alertmanager",))


def test_one_that_is_starting_is_not_started_again() -> None:
    state = replace(AS_WANTED, containers=(container(PROMETHEUS, health="starting"), container(ALERTMANAGER)))
    assert plan_change(RELEASE, state).nothing


def test_images_are_sent_or_pulled_where_they_lack_and_secrets_written_where_they_differ() -> None:
    state = replace(AS_WANTED, images=(), secrets={"alert-chat": ("644", AS_WANTED.secrets["alert-chat"][1])})
    found = plan_change(RELEASE, state)
    assert [each.image for each in found.image_transfers] == [IMAGE]
    assert [each.reference for each in found.pulls] == ["prom/alertmanager@sha256:2"]
    assert "write secrets: alert-chat" in found.lines()
    assert "secret'" not in repr(found)


def test_a_program_that_is_not_wanted_any_more_is_stopped() -> None:
    grafana = container(replace(PROMETHEUS, name="grafana"))
    found = plan_change(RELEASE, replace(AS_WANTED, containers=(*AS_WANTED.containers, grafana)))
    assert found.removals == ("grafana",)


def test_the_links_are_no_releases(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("home")
    folder = home / ".voxyard/monitoring"
    (folder / "0123456789ab").mkdir(parents=True)
    for name in ("current", "live"):
        (folder / name).symlink_to("0123456789ab")
    command = releases_there()
    assert LocalSession(home).run([command])[command.name].out.split() == ["0123456789ab"]


def test_without_a_host_that_watches_it_is_reported_how_to_have_one() -> None:
    watcher = host(name="watch-01", roles=("monitoring",))
    fleet = Inventory(Path("hosts.yaml"), (host(), watcher))
    assert _monitoring_hosts(fleet, None) == (watcher,)
    with pytest.raises(FleetError, match="gpu-01 does not have the role monitoring"):
        _monitoring_hosts(fleet, ["gpu-01", "watch-01"])
    with pytest.raises(FleetError, match="no host has the role monitoring"):
        _monitoring_hosts(Inventory(Path("hosts.yaml"), (host(),)), None)
