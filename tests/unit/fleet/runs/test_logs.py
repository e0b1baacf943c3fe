"""Logs over the open connection: in order of time, each line once."""

from __future__ import annotations

import pytest
from fleet_doubles import RecordingSession

from fleet.errors import HostFailedError
from fleet.rollout.health_gate import Clock
from fleet.runs import logs
from fleet.ssh.command_batch import Answer

PREPARE = "2026-01-05T08:00:00.1Z 24 clips\n"
TRAIN = "2026-01-05T08:00:03.5Z step 1\n2026-01-05T08:00:02.5Z Model training\n2026-01-05T08:00:04.5Z step 2\n"


def shown(session: RecordingSession, *, lines: int = 100, follow: bool = False) -> list[str]:
    said: list[str] = []
    clock = Clock(wait=lambda _: None)
    logs.show_logs(session, "gpu-01", logs.run_labels("demo-1"), said.append, lines=lines, follow=follow, clock=clock)
    return said


def test_lines_of_several_containers_come_in_the_order_of_their_times() -> None:
    session = RecordingSession({"logs": Answer(TRAIN + PREPARE)})
    assert shown(session) == ["24 clips", "Model training", "step 1", "step 2"]
    assert "--filter label=voxyard.run=demo-1" in session.texts["logs"]
    assert "--tail 100" in session.texts["logs"]


def test_only_the_last_lines_are_shown() -> None:
    assert shown(RecordingSession({"logs": Answer(TRAIN + PREPARE)}), lines=2) == ["step 1", "step 2"]


def test_what_comes_is_followed_to_the_end_each_line_once() -> None:
    last = "2026-01-05T08:00:04.5Z step 2\n2026-01-05T08:00:09.0Z the end\n"
    session = RecordingSession(
        {"logs": [Answer(TRAIN), Answer(last), Answer(last)], "still-there": [Answer("id\n"), Answer("")]}
    )
    assert shown(session, follow=True) == ["Model training", "step 1", "step 2", "the end"]
    assert "--since 2026-01-05T08:00:09.0Z" in session.texts["logs"]


def test_a_service_that_is_not_there_is_reported() -> None:
    with pytest.raises(HostFailedError, match=r"no container with a log \(voxyard.run=demo-1\)"):
        shown(RecordingSession({}))


def test_a_service_that_is_silent_is_no_error() -> None:
    assert shown(RecordingSession({"still-there": Answer("id\n")})) == []


def test_an_engine_that_fails_is_reported() -> None:
    with pytest.raises(HostFailedError, match="could not show its logs: no daemon"):
        shown(RecordingSession({"logs": Answer("", "no daemon", 1)}))


def test_a_service_is_found_by_its_role_in_our_project() -> None:
    assert logs.service_labels("bark") == {"com.docker.compose.project": "voxyard", "voxyard.role": "bark"}
