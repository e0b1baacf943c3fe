"""What would change: nothing on a host that is as it should be, and only what is not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from fleet_doubles import IMAGE, RememberingSession, container

from fleet.batch import Answer
from fleet.change import Change, HostState, change, exporter_of, read_state
from fleet.fact import Unknown
from fleet.release import Release

RELEASE = Release("0123456789ab", IMAGE, ("exporter.yaml",), (("exporter.yaml", b"a"),), "192.0.2.11", 9410)
GOOD = HostState(RELEASE.id, RELEASE.checksums, IMAGE.layers, container(), metrics=True)


def steps(found: Change) -> list[str]:
    names = ("send_image", "write_files", "start", "set_current")
    return [name for name in names if getattr(found, name)]


def test_nothing_is_done_where_everything_is_as_it_should_be() -> None:
    found = change(RELEASE, GOOD)
    assert found.nothing
    assert found.lines() == ("nothing to do: release 0123456789ab runs",)


def test_a_new_host_gets_everything() -> None:
    found = change(RELEASE, HostState(None, {}, None, None, metrics=False))
    assert steps(found) == ["send_image", "write_files", "start", "set_current"]
    assert found.lines() == (
        "send image voxyard-exporter:abababababab (180 MB)",
        "write release 0123456789ab: exporter.yaml",
        "start exporter, wait until it is healthy",
        "make 0123456789ab the current release, after none",
    )


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"layers": ("sha256:99",)}, ["send_image"]),
        ({"checksums": {"exporter.yaml": "0" * 64}}, ["write_files", "start"]),
        ({"checksums": {**RELEASE.checksums, "more.yaml": "0" * 64}}, ["write_files", "start"]),
        ({"container": None}, ["start"]),
        ({"container": container(release="ba9876543210")}, ["start"]),
        ({"container": container(state="exited")}, ["start"]),
        ({"container": container(health="starting")}, ["start"]),
        ({"container": container(health=None)}, ["start"]),
        ({"metrics": False}, ["start"]),
        ({"current": "ba9876543210"}, ["set_current"]),
        ({"current": None}, ["set_current"]),
    ],
)
def test_only_what_differs_is_changed(other: dict[str, Any], expected: list[str]) -> None:
    assert steps(change(RELEASE, replace(GOOD, **other))) == expected


def test_the_state_is_read_in_one_exchange() -> None:
    running = {
        "Name": "/voxyard-exporter-1",
        "Image": "sha256:aa",
        "State": {"Status": "running", "StartedAt": "2026-01-05T08:00:00Z", "Health": {"Status": "healthy"}},
        "Config": {"Labels": {"voxyard.role": "exporter", "voxyard.release": RELEASE.id}},
        "HostConfig": {"PortBindings": {"9410/tcp": [{"HostIp": "", "HostPort": "9410"}]}},
    }
    session = RememberingSession(
        {
            "current": Answer("releases/0123456789ab\n"),
            "checksums": Answer("".join(f"{value}  {name}\n" for name, value in RELEASE.checksums.items())),
            "layers": Answer(json.dumps(IMAGE.layers)),
            "containers": Answer(json.dumps([running])),
            "metrics": Answer("HTTP/1.0 200 OK\r\n\r\nvoxyard_exporter_collect_success 1.0\n"),
        }
    )
    assert change(RELEASE, read_state(session, RELEASE)).nothing


def test_a_host_that_has_nothing_yet_is_no_error() -> None:
    session = RememberingSession({"layers": Answer("null\n"), "metrics": Answer("", "nothing listens", 1)})
    assert read_state(session, RELEASE) == HostState(None, {}, None, None, metrics=False)


def test_of_two_exporters_the_running_one_counts() -> None:
    old, new = container(state="exited", release="old"), container(release="new")
    assert exporter_of((old, new, container(role="trainer"))) == new
    assert exporter_of(Unknown("x")) is None
