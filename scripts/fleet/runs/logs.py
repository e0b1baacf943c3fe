"""Logs of services and runs: last lines, and follow mode."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from fleet.command_line import fab
from fleet.errors import HostFailedError
from fleet.rollout.health_gate import Clock
from fleet.ssh.command_batch import Command, verb
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
        there = _running(labels)
        if not session.run([there])[there.name].out.strip() and not follow:
            raise HostFailedError(
                f"{host}: no container with a log ({_shown(labels)}): see {fab()} status, {fab()} runs"
            )
    for line in written[-lines:]:
        say(line)
    while follow:
        there = _running(labels)
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
    command = logs_of(labels, lines=lines, since=since)
    answer = must(session, host, "show its logs", command)
    rows = [line.partition(" ") for line in answer.out.splitlines()]
    dated = sorted(((time, text) for time, _, text in rows if time > since), key=lambda row: row[0])
    return (dated[-1][0] if dated else since), [text for _, text in dated]


def logs_of(labels: Mapping[str, str], *, lines: int, since: str = "") -> Command:
    """Prints the last `lines` of each container with these labels, with timestamps; with `since` those from then."""
    option = ("--since", since) if since else ("--tail", str(lines))
    return Command("logs", verb("container_logs", *option, *_filters(labels)), 60)


def _running(labels: Mapping[str, str]) -> Command:
    return Command("still-there", shlex.join(["docker", "ps", "-q", *_filters(labels)]))


def _filters(labels: Mapping[str, str]) -> list[str]:
    return [word for name, value in labels.items() for word in ("--filter", f"label={name}={value}")]


def _shown(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())
