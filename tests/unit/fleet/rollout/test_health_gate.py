"""Health gate, second by second: stable services pass, exits and restarts fail immediately."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from leaping_clock import LeapingCancellation

from fleet.errors import HostFailedError
from fleet.inventory.rollout_settings import MIN_HEALTHY_SECONDS
from fleet.release.manifest import ServiceEntry
from fleet.rollout.health_gate import Clock, HealthWatch, last_log_lines, pass_gate
from fleet.ssh.command_batch import TIMED_OUT, Answer, Command
from voxyard.service.healthcheck import CANNOT_WORK

BARK = ServiceEntry("bark", "b-1", "voxyard-bark:1", "127.0.0.1", 8080, "/readyz", 60, 900, {})
LOG = "loading\nno GPU is seen by torch\n"
PROBES = '127.0.0.1 - - [22/Nov/2026] "GET /readyz HTTP/1.0" 503 -\n' + (
    '{"level": "info", "message": "answered", "method": "GET", "path": "/readyz", "status": 503}\n' * 30
)


def container(**other: Any) -> dict[str, Any]:
    """A container as `docker inspect` has it; `other` are the keys of its state, `Id` and `RestartCount`."""
    state = {"Status": "running", "StartedAt": "first", "ExitCode": 0, "OOMKilled": False, "Health": "healthy", **other}
    return {
        "Id": other.get("Id", "c-1"),
        "Image": "sha256:1",
        "RestartCount": other.get("RestartCount", 0),
        "Config": {"Image": BARK.image, "Labels": {"voxyard.role": "bark", "voxyard.config": BARK.config}},
        "State": {**state, "Health": {"Status": state["Health"]}},
    }


@dataclass
class Host:
    """A host with one service: how its container is, and whether it can work, by the second."""

    time: LeapingCancellation
    container: Callable[[float], dict[str, Any] | None]
    ready: Callable[[float], bool] = lambda _: True
    reason: Callable[[float], str] = lambda _: "no model"
    events: str = ""
    unreadable: Callable[[float], bool] = lambda _: False
    asked: list[str] = field(default_factory=list)

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        """Answers to the commands."""
        self.asked += [command.text for command in commands]
        return {command.name: self._answer(command.name) for command in commands}

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        """Nothing is sent."""
        raise AssertionError(command)

    def _answer(self, name: str) -> Answer:
        if name == "services":
            if self.unreadable(self.time.now()):
                return Answer("", code=TIMED_OUT)
            found = self.container(self.time.now())
            return Answer(json.dumps([] if found is None else [found]))
        if name == "ready-bark":
            good = self.ready(self.time.now())
            return Answer(f"HTTP/1.0 {'200 OK' if good else '503 Unavailable'}\r\n\r\n{self.reason(self.time.now())}")
        return Answer(
            {
                "metrics-bark": "HTTP/1.0 200 OK\r\n\r\nvoxyard_up 1.0\n",
                "logs": LOG + PROBES,
                "container-deaths": self.events,
            }[name]
        )


def gate(host: Host, *, fresh: bool = True, say: Callable[[str], None] = lambda _: None) -> float:
    """Pass it with the seconds that an inventory without any word of it gives; when that was."""
    clock = Clock(host.time.wait, host.time.now)
    pass_gate("gpu-01", host, BARK, clock, HealthWatch(MIN_HEALTHY_SECONDS, fresh), say)
    return host.time.now()


def refused(host: Host, *, fresh: bool = True) -> str:
    with pytest.raises(HostFailedError) as caught:
        gate(host, fresh=fresh)
    return str(caught.value)


def test_what_is_healthy_passes_after_half_a_minute_and_not_before() -> None:
    assert gate(Host(LeapingCancellation(), lambda _: container())) == MIN_HEALTHY_SECONDS == 30


def test_an_engine_that_does_not_answer_in_time_is_asked_again() -> None:
    """Half a minute begins anew: nobody saw whether the service was well."""
    assert gate(Host(LeapingCancellation(), lambda _: container(), unreadable=lambda time: time in (20, 21))) == 52


def test_an_engine_that_never_answers_in_time_fails() -> None:
    host = Host(LeapingCancellation(), lambda _: container(), unreadable=lambda time: time >= 20)
    assert refused(host) == "gpu-01: services cannot be read: timed out"
    assert host.time.now() == 22


def test_half_a_minute_begins_when_it_is_well() -> None:
    def slow(time: float) -> dict[str, Any]:
        return container(Health="healthy" if time >= 100 else "starting")

    assert gate(Host(LeapingCancellation(), slow, lambda time: time >= 120)) == 150


def test_what_cannot_work_for_a_moment_begins_anew() -> None:
    assert gate(Host(LeapingCancellation(), lambda _: container(), lambda time: time != 20)) == 51


@pytest.mark.parametrize("state", ["exited", "restarting", "dead"])
@pytest.mark.parametrize("code", [0, 3])
def test_what_ends_fails_at_once_with_its_last_log_lines(state: str, code: int) -> None:
    host = Host(LeapingCancellation(), lambda time: container() if time < 6 else container(Status=state, ExitCode=code))
    assert refused(host) == (
        f"gpu-01: bark (b-1) is {state}, health: healthy, exit code {code}. "
        "Last log lines:\nloading\nno GPU is seen by torch"
    )
    assert host.time.now() == 6


def test_what_was_ended_for_want_of_memory_says_so() -> None:
    host = Host(LeapingCancellation(), lambda _: container(Status="exited", ExitCode=137, OOMKilled=True))
    assert "exit code 137, out of memory (OOM). Last log lines" in refused(host)


def test_what_is_started_again_fails_at_once_with_the_end_of_its_first_life() -> None:
    def crashes(time: float) -> dict[str, Any]:
        return container() if time < 6 else container(StartedAt="second", RestartCount=1)

    host = Host(LeapingCancellation(), crashes, events="oom \ndie 137\n")
    assert refused(host) == (
        "gpu-01: bark (b-1) was restarted, exit code 137, out of memory (OOM). "
        "Last log lines:\nloading\nno GPU is seen by torch"
    )
    assert host.time.now() == 6
    assert [text for text in host.asked if "docker logs" in text] == ["docker logs --tail 400 --until second c-1 2>&1"]


def test_what_is_started_again_while_its_log_is_read_shows_the_log_of_the_one_that_ended() -> None:
    lives = iter([container(Status="restarting", ExitCode=7), container(StartedAt="second", RestartCount=1)])
    host = Host(LeapingCancellation(), lambda _: next(lives))
    assert "is restarting, health: healthy, exit code 7. Last log lines:" in refused(host)
    assert [text for text in host.asked if "docker logs" in text] == [
        "docker logs --tail 400 c-1 2>&1",
        "docker logs --tail 400 --until second c-1 2>&1",
    ]


def test_what_was_started_again_before_anybody_looked_fails_too() -> None:
    host = Host(LeapingCancellation(), lambda _: container(StartedAt="second", RestartCount=1))
    assert "was restarted. Last log lines" in refused(host)
    assert host.time.now() == 0


def test_a_container_that_was_there_before_may_have_been_started_again_long_ago() -> None:
    assert gate(Host(LeapingCancellation(), lambda _: container(RestartCount=4)), fresh=False) == 30
    host = Host(LeapingCancellation(), lambda time: container(RestartCount=4 if time < 6 else 5))
    assert "was restarted" in refused(host, fresh=False)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (None, "bark (b-1) has no container any more"),
        (container(Id="c-2"), "bark (b-1) was replaced by another container"),
        (container(Health="unhealthy"), "bark (b-1) is running, health: unhealthy. Last log lines:"),
    ],
)
def test_what_is_not_the_same_container_in_health_fails_at_once(after: dict[str, Any] | None, said: str) -> None:
    host = Host(LeapingCancellation(), lambda time: container() if time < 6 else after)
    assert said in refused(host)
    assert host.time.now() == 6


@pytest.mark.parametrize(("config", "image"), [("b-0", BARK.image), (BARK.config, "voxyard-bark:0")])
def test_a_healthy_container_of_another_configuration_or_image_does_not_pass(config: str, image: str) -> None:
    old = container()
    old["Config"] = {"Image": image, "Labels": {"voxyard.role": "bark", "voxyard.config": config}}
    host = Host(LeapingCancellation(), lambda _: old)
    assert f"runs configuration {config} of {image}, is running, health: healthy" in refused(host)
    assert host.time.now() == BARK.healthy_seconds


def test_what_is_not_well_in_its_time_fails_with_what_it_lacks() -> None:
    host = Host(LeapingCancellation(), lambda _: container(), lambda _: False)
    assert "bark (b-1) is running, health: healthy; /readyz: answers 503: no model. Last log lines" in refused(host)
    assert host.time.now() == BARK.healthy_seconds


def test_what_reports_that_it_cannot_work_fails_at_once_with_its_own_words() -> None:
    said = json.dumps({"error": {"message": f"{CANNOT_WORK}: no worker could be started (cuda:0: torch sees no GPU)"}})
    host = Host(
        LeapingCancellation(), lambda _: container(), lambda _: False, reason=lambda time: said if time >= 9 else "no"
    )
    message = refused(host)
    assert "(cuda:0: torch sees no GPU)" in message
    assert message.endswith(f"Last log lines:\n{LOG.strip()}")
    assert host.time.now() == 9
    other = Host(host.time, lambda _: container() | {"Config": {"Image": "x", "Labels": {"voxyard.role": "bark"}}})
    other.ready, other.reason = (lambda _: False), lambda _: said
    refused(other)
    assert host.time.now() == 9 + BARK.healthy_seconds, "of another configuration: what runs until ours is there"


def test_what_becomes_well_just_in_time_is_watched_beyond_it() -> None:
    assert gate(Host(LeapingCancellation(), lambda _: container(), lambda time: time >= 890)) == 920


def test_every_few_seconds_the_gate_reports_its_progress() -> None:
    said: list[str] = []
    gate(Host(LeapingCancellation(), lambda _: container(), lambda time: time >= 12), say=said.append)
    assert said[:3] == [
        "gpu-01: waiting for bark: is running, health: healthy; /readyz: answers 503: no model",
        "gpu-01: waiting for bark: is running, health: healthy; /readyz: answers 503: no model",
        "gpu-01: waiting for bark: healthy for 3 of 30 s",
    ]
    assert len(said) == 8


def test_last_log_lines_leave_a_trace_and_drop_what_only_asked() -> None:
    failed = '{"path": "/readyz", "status": 500, "trace": "ValueError"}'
    assert last_log_lines(f"{PROBES}{failed}\n{PROBES}") == failed
    assert last_log_lines(PROBES) == "(none)"
    assert last_log_lines("".join(f"{number}\n" for number in range(50))).split() == [
        str(each) for each in range(30, 50)
    ]
