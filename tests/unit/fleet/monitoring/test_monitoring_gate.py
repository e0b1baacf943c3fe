"""Health gate of monitoring: programs must stay healthy in the same containers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from leaping_clock import LeapingCancellation

from fleet.errors import HostFailedError
from fleet.monitoring.gate import pass_gate
from fleet.monitoring.release import MonitoringManifest, Program
from fleet.rollout.health_gate import Clock
from fleet.ssh.command_batch import Answer, Command

PROGRAMS = (Program("grafana", "c-1", "", "grafana:1"), Program("node-exporter", "c-2", "", "node:1"))
MANIFEST = MonitoringManifest("m-1", ("monitoring.yaml",), PROGRAMS, frozenset(), frozenset())


class Host:
    """A host whose Grafana is, at a second, as `state` says."""

    def __init__(self, state: Callable[[float], Mapping[str, Any]]) -> None:
        self.time, self.state = LeapingCancellation(), state

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        """Answers to the commands."""
        return {command.name: self._answer(command.name) for command in commands}

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        """Nothing is sent."""
        raise AssertionError(command)

    def _answer(self, name: str) -> Answer:
        if name == "programs":
            return Answer(json.dumps([self._container(each) for each in PROGRAMS]))
        return Answer({"logs": "no room for the database\n", "deaths": "die 2\n"}.get(name, ""))

    def _container(self, program: Program) -> dict[str, Any]:
        own = self.state(self.time.now()) if program.name == "grafana" else {}
        state = {"Status": "running", "StartedAt": "first", "ExitCode": 0, "Health": {"Status": "healthy"}, **own}
        labels = {"voxyard.role": program.name, "voxyard.config": program.config}
        config = {"Image": program.image, "Labels": labels}
        found = {"Id": program.name, "Image": "", "Config": config, "State": state}
        return {**found, "RestartCount": own.get("RestartCount", 0)}


def gate(host: Host) -> float:
    clock = Clock(host.time.wait, host.time.now)
    pass_gate("watch-01", host, MANIFEST, clock, started=["grafana"])
    return host.time.now()


def test_programs_that_stay_well_pass_after_half_a_minute() -> None:
    assert gate(Host(lambda _: {})) == 30
    assert gate(Host(lambda time: {} if time != 10 else {"Health": {"Status": "starting"}})) == 41


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (
            {"StartedAt": "second", "RestartCount": 1},
            "grafana was restarted, exit code 2. Last log lines:",
        ),
        ({"Status": "exited", "ExitCode": 2}, "grafana is exited, health: healthy, exit code 2. Last log lines:"),
    ],
)
def test_a_program_that_ends_fails_at_once_with_its_last_log_lines(after: Mapping[str, Any], said: str) -> None:
    host = Host(lambda time: {} if time < 6 else after)
    with pytest.raises(HostFailedError) as caught:
        gate(host)
    assert str(caught.value) == f"watch-01: {said}\nno room for the database"
    assert host.time.now() == 6
