"""Training runs on a host, or over several, handled as one: start, stop, resume."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host
from fleet.lock import locked
from fleet.runs.files import DeployedRelease, RunFiles, RunRequest
from fleet.runs.hosts import places, refuse_taken_port, refuse_unlike
from fleet.runs.runs import active_runs, find_run, read_release, resume_run, start_new_run, stop, stop_run
from fleet.runs.state import TrainingRun, read_runs
from fleet.ssh.connection_pool import Session, on_every_host

log = logging.getLogger("fleet")

Connect = Callable[[Host], AbstractContextManager[Session]]


def start_everywhere(hosts: Sequence[Host], connect: Connect, wanted: Sequence[RunRequest]) -> tuple[RunFiles, ...]:
    """Start a new run on all hosts, under their locks; where one start fails, the others are stopped.

    `wanted` has the request of each host. Raises HostFailedError or FleetError.
    """

    def begin(place: int, session: Session, given: DeployedRelease) -> RunFiles:
        return start_new_run(session, hosts[place].name, wanted[place], given)

    return _everywhere(hosts, connect, wanted[0].run, "train", begin)


def resume_everywhere(
    hosts: Sequence[Host],
    connect: Connect,
    run: str,
    change: Callable[[RunRequest], RunRequest] = lambda it: it,
) -> tuple[RunFiles, ...]:
    """Resume a run that has ended on all its hosts, as `start_everywhere`. `change` modifies each request."""
    placed = places(hosts) if len(hosts) > 1 else (None,)

    def begin(place: int, session: Session, given: DeployedRelease) -> RunFiles:
        found = find_run(session, hosts[place].name, run)
        return resume_run(session, found, given, lambda it: replace(change(it), hosts=placed[place]))

    return _everywhere(hosts, connect, run, "resume run", begin)


def stop_everywhere(hosts: Sequence[Host], connect: Connect, run: str) -> tuple[TrainingRun, ...]:
    """Stop a run on all its hosts, at once, with a checkpoint. Raises HostFailedError; the other hosts are stopped."""

    def stop(host: Host) -> TrainingRun:
        with connect(host) as session:
            found = find_run(session, host.name, run)
            if not found.active and not found.drained:
                return found
            with locked(session, host.name, f"stop run {run}"):
                log.info("%s: stopping %s (up to %d s for the checkpoint)", host.name, run, found.stop_seconds)
                return stop_run(session, found, drained=False)

    result = on_every_host(hosts, stop)
    if result.failed:
        raise HostFailedError("\n".join(str(error) for error in result.failed.values()))
    return tuple(result.succeeded.values())


def _everywhere(
    hosts: Sequence[Host],
    connect: Connect,
    run: str,
    what: str,
    begin: Callable[[int, Session, DeployedRelease], RunFiles],
) -> tuple[RunFiles, ...]:
    with ExitStack() as held:
        sessions = [held.enter_context(connect(host)) for host in hosts]
        for host, session in zip(hosts, sessions, strict=True):
            held.enter_context(locked(session, host.name, f"{what} {run}"))
        given = read_releases(hosts, sessions)
        for host, session in zip(hosts, sessions, strict=True):
            if active := next((each for each in active_runs(session) if each.id == run), None):
                raise HostFailedError(f"{host.name}: the run {run} is already active ({active.state})")
            if len(hosts) > 1:
                refuse_taken_port(session, host.name)
        files: list[RunFiles] = []
        try:
            for place, session in enumerate(sessions):
                files.append(begin(place, session, given[place]))
        except (FleetError, KeyboardInterrupt):
            begun = hosts[: len(files) + 1] if len(hosts) > 1 else ()  # alone it goes on without the connection
            for host, session in zip(begun, sessions, strict=False):
                _halt_there(session, host.name, run)
            raise
    return tuple(files)


def read_releases(hosts: Sequence[Host], sessions: Sequence[Session]) -> tuple[DeployedRelease, ...]:
    """The part of each host's release that runs use. Raises HostFailedError where their trainer images differ."""
    given = {host.name: read_release(session, host.name) for host, session in zip(hosts, sessions, strict=True)}
    refuse_unlike({name: each.image for name, each in given.items()})
    return tuple(given.values())


def _halt_there(session: Session, host: str, run: str) -> None:
    try:
        for found in read_runs(session):
            if found.id == run and found.active:
                log.warning("%s: stopping %s, which does not run on all its hosts", host, run)
                session.run([stop(run, found.stop_seconds)])
    except FleetError as error:
        log.warning("%s", error)
