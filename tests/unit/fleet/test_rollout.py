"""Acting: the order of the steps, the gate, and what a failure leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from fleet_doubles import IMAGE, RememberingSession

from fleet.batch import Answer
from fleet.change import Change
from fleet.errors import HostFailedError
from fleet.release import Release
from fleet.rollout import HEALTHY_SECONDS, apply

FILES = (("exporter.yaml", b"services: {}\n"), ("voxyard.env", b"A=b\n"))
RELEASE = Release("0123456789ab", IMAGE, ("exporter.yaml",), FILES, "192.0.2.11", 9410)
EVERYTHING = Change(RELEASE, None, send_image=True, write_files=True, start=True, set_current=True)
METRICS = Answer("HTTP/1.0 200 OK\r\n\r\nvoxyard_exporter_collect_success 1.0\n")


def running(health: str = "healthy", *, release: str = RELEASE.id, state: str = "running") -> Answer:
    found = {
        "Name": "/voxyard-exporter-1",
        "Image": "sha256:aa",
        "State": {"Status": state, "StartedAt": "2026-01-05T08:00:00Z", "Health": {"Status": health}},
        "Config": {"Labels": {"voxyard.role": "exporter", "voxyard.release": release}},
        "HostConfig": {},
    }
    return Answer(json.dumps([found]))


def carry_out(session: RememberingSession, change: Change = EVERYTHING) -> list[float]:
    """Applies the change on a clock that only waiting moves; the waits."""
    waits: list[float] = []
    apply("gpu-01", session, change, image, wait=waits.append, now=lambda: sum(waits))
    return waits


def image() -> Iterable[bytes]:
    yield b"layer one"
    yield b"layer two"


def test_the_steps_come_in_order_and_the_release_becomes_current_last() -> None:
    session = RememberingSession({"containers": running(), "metrics": METRICS})
    carry_out(session)
    assert session.asked == ["load-image", "write-release", "start", "containers", "metrics", "set-current"]
    assert session.received["load-image"] == b"layer onelayer two"
    assert session.received["write-release"] == RELEASE.archive()


@pytest.mark.parametrize(
    ("missing", "left_out"),
    [
        ("send_image", {"load-image"}),
        ("write_files", {"write-release"}),
        ("start", {"start", "containers", "metrics"}),
        ("set_current", {"set-current"}),
    ],
)
def test_what_need_not_change_is_left_alone(missing: str, left_out: set[str]) -> None:
    session = RememberingSession({"containers": running(), "metrics": METRICS})
    less: Any = {missing: False}
    carry_out(session, replace(EVERYTHING, **less))
    assert left_out.isdisjoint(session.asked)


def test_the_service_is_started_by_exactly_this_command() -> None:
    session = RememberingSession({"containers": running(), "metrics": METRICS})
    carry_out(session)
    assert session.texts["start"] == (
        'cd "$HOME/.voxyard"/releases/0123456789ab && docker compose --project-name voxyard --env-file voxyard.env '
        "--file exporter.yaml up --detach --force-recreate --no-build --no-deps --quiet-pull exporter"
    )
    assert session.texts["set-current"] == (
        'cd "$HOME/.voxyard" && ln -sfn releases/0123456789ab .current.next && mv -T .current.next current'
    )


def test_the_gate_waits_until_container_and_metrics_are_well() -> None:
    session = RememberingSession(
        {
            "containers": [Answer("[]"), running("starting"), running(release="older"), running()],
            "metrics": [Answer("", "nothing listens", 1), Answer("", "nothing listens", 1), METRICS],
        }
    )
    assert len(carry_out(session)) == 3
    assert session.asked[-1] == "set-current"


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"containers": running("unhealthy"), "metrics": METRICS}, "is running, health: unhealthy"),
        (
            {"containers": running(state="exited"), "metrics": Answer("", "refused", 1)},
            "exited, health: healthy; /metrics",
        ),
        ({"containers": running("starting"), "metrics": METRICS}, "health: starting"),
        ({"containers": running(), "metrics": Answer("", "nothing listens", 1)}, "/metrics: nothing listens"),
        ({"containers": Answer("[]"), "metrics": METRICS}, "is not there"),
        ({"containers": running(release="older"), "metrics": METRICS}, "is running"),
    ],
)
def test_a_release_that_is_not_well_never_becomes_current(answers: dict[str, Answer], said: str) -> None:
    session = RememberingSession({**answers, "logs": Answer("no driver\nlast words\n")})
    with pytest.raises(HostFailedError) as caught:
        carry_out(session)
    assert said in str(caught.value)
    assert "no driver\nlast words" in str(caught.value)
    assert "set-current" not in session.asked


def test_a_release_that_ended_is_not_waited_for() -> None:
    session = RememberingSession({"containers": running("unhealthy"), "metrics": METRICS})
    with pytest.raises(HostFailedError):
        carry_out(session)
    assert session.asked.count("containers") == 1


def test_the_gate_gives_up_after_its_time() -> None:
    session = RememberingSession({"containers": running("starting"), "metrics": METRICS})
    with pytest.raises(HostFailedError):
        carry_out(session)
    assert HEALTHY_SECONDS <= session.asked.count("containers") <= HEALTHY_SECONDS + 2


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("load-image", "could not take the image: no space left"),
        ("write-release", "could not write the release: no space left"),
        ("start", "could not start exporter: no space left"),
    ],
)
def test_a_step_that_fails_ends_the_rollout_on_this_host(step: str, said: str) -> None:
    session = RememberingSession({step: Answer("", "no space left\n", 1)})
    with pytest.raises(HostFailedError, match=f"gpu-01 {said}"):
        carry_out(session)
    assert session.asked[-1] == step
