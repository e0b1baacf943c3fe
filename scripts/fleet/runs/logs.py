"""Logs of services and runs: last lines, and follow mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fleet.command_line import fab
from fleet.errors import HostFailedError
from fleet.rollout.health_gate import Clock
from fleet.runs import commands
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must

FOLLOW_SECONDS = 2.0


def service_labels(service: str) -> Mapping[str, str]:
    """Labels of a service's container."""
    return {"com.docker.compose.project": "voxyard", "voxyard.role": service}


def run_labels(run: str) -> Mapping[str, str]:
    """Labels of a run's containers."""
    return {"voxyard.run": run}


def show_logs(
    session: Session,
    host: str,
    labels: Mapping[str, str],
    say: Callable[[str], None],
    *,
    lines: int,
    follow: bool = False,
    clock: Clock | None = None,
) -> None:
    """Print the last `lines` of the containers with these labels, in order of time.

    With `follow`, continues until no container is running. Raises HostFailedError.
    """
    clock = clock or Clock()
    newest, written = _written(session, host, labels, lines=lines)
    if not newest:
        there = commands.running_containers(labels)
        if not session.run([there])[there.name].out.strip() and not follow:
            raise HostFailedError(
                f"{host}: no container with a log ({_shown(labels)}): see {fab()} status, {fab()} runs"
            )
    for line in written[-lines:]:
        say(line)
    while follow:
        there = commands.running_containers(labels)
        runs = bool(session.run([there])[there.name].out.strip())
        newest, written = _written(session, host, labels, lines=lines, since=newest)
        for line in written:
            say(line)
        if not runs:
            return
        clock.wait(FOLLOW_SECONDS)


def _written(
    session: Session, host: str, labels: Mapping[str, str], *, lines: int, since: str = ""
) -> tuple[str, list[str]]:
    """Timestamp of the newest line, and the lines after `since` without timestamps."""
    command = commands.logs(labels, lines=lines, since=since)
    answer = must(session, host, "show its logs", command)
    rows = [line.partition(" ") for line in answer.out.splitlines()]
    dated = sorted(((time, text) for time, _, text in rows if time > since), key=lambda row: row[0])
    return (dated[-1][0] if dated else since), [text for _, text in dated]


def _shown(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())
