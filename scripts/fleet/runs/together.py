"""Training runs over several hosts, handled as one: start, stop, resume, and again from the checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

from fleet.command_line import fab
from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host
from fleet.lock import locked
from fleet.rollout.health_gate import Clock
from fleet.runs import commands
from fleet.runs.files import DeployedRelease, RunFiles, RunRequest
from fleet.runs.hosts import places, refuse_taken_port, refuse_unlike
from fleet.runs.runs import (
    failure,
    find_run,
    is_training,
    last_log_lines,
    read_release,
    resume_run,
    start_new_run,
    stop_run,
)
from fleet.runs.state import TrainingRun, read_runs
from fleet.ssh.connection_pool import Session, on_every_host

log = logging.getLogger("fleet")

Connect = Callable[[Host], AbstractContextManager[Session]]

HOST_LOST = 75  # exit code of the trainer where another host has gone
RESTARTS, RESTARTS_SECONDS = 3, 3600.0
POLL_SECONDS = 10.0
ALONE_SECONDS = 60.0  # until all have noticed that one has ended; then the others are stopped
SILENT_SECONDS = 1800.0  # without an answer of a host


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
    placed = places(hosts)

    def begin(place: int, session: Session, given: DeployedRelease) -> RunFiles:
        found = find_run(session, hosts[place].name, run)
        return resume_run(session, found, given, lambda it: replace(change(it), hosts=placed[place]))

    return _everywhere(hosts, connect, run, "resume run", begin)


def stop_everywhere(hosts: Sequence[Host], connect: Connect, run: str) -> tuple[TrainingRun, ...]:
    """Stop a run on all its hosts, at once, with a checkpoint. Raises HostFailedError; the other hosts are stopped."""

    def stop(host: Host) -> TrainingRun:
        with connect(host) as session, locked(session, host.name, f"stop run {run}"):
            found = find_run(session, host.name, run)
            return stop_run(session, found, drained=False) if found.active else found

    result = on_every_host(hosts, stop)
    if result.failed:
        raise HostFailedError("\n".join(str(error) for error in result.failed.values()))
    return tuple(result.succeeded.values())


def keep_training(
    hosts: Sequence[Host],
    run: str,
    connect: Connect,
    trains: Callable[[Mapping[str, TrainingRun]], None],
    clock: Clock | None = None,
) -> tuple[TrainingRun, ...]:
    """Watch a run until it has ended on all hosts; returns its states, in their order.

    `trains` is called once, when all have done a step. Where a host is lost, so that another ends with `HOST_LOST`, the
    run is resumed on all of them from the last checkpoint, at most RESTARTS times in RESTARTS_SECONDS. Raises
    HostFailedError where it ends otherwise, or a host does not answer for SILENT_SECONDS after others have ended.
    """
    clock = clock or Clock()
    watch = _Watch(clock)
    told, restarts = False, list[float]()
    while True:
        states, stepped, missing = _look(hosts, run, connect)
        watch.report(states, missing)
        active = [name for name, each in states.items() if each.active]
        ended = [each for each in states.values() if not each.active]
        failed = [each for each in ended if each.state not in ("finished", "stopped")]
        if not told and not missing and all(stepped.values()):
            told = True
            trains(states)
        if missing:
            if ended and watch.since("silent") >= SILENT_SECONDS:
                raise HostFailedError("\n".join(str(error) for error in missing.values()))
        elif not active and not failed:
            return tuple(states.values())
        elif not active:
            lost = any(each.train is not None and each.train.code == HOST_LOST for each in failed)
            if not lost or any(each.state == "stopped" for each in ended):
                raise HostFailedError("\n".join(_ended_badly(host, states, connect) for host in hosts))
            now = clock.now()
            restarts = [each for each in restarts if now - each < RESTARTS_SECONDS]
            if len(restarts) >= RESTARTS:
                raise HostFailedError(
                    f"the run {run} has lost a host {RESTARTS + 1} times in an hour and stays ended: see "
                    f"{fab()} logs --host {hosts[0].name} --run {run}, then "
                    f"{fab()} train --host {hosts[0].name} --resume {run}"
                )
            restarts.append(now)
            step = states[hosts[0].name].checkpoint or 0
            log.warning("%s lost a host: resuming it on all of them from step %d", run, step)
            resume_everywhere(hosts, connect, run)
        elif failed and watch.since("alone") >= ALONE_SECONDS:
            _halt([host for host in hosts if host.name in active], connect, run)
        if not missing:
            watch.forget("silent")
        if not (failed and active):
            watch.forget("alone")
        clock.wait(POLL_SECONDS)


class _Watch:
    """Reports of the hosts of a run so far, and since when something lasts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[str, str] = {}
        self._begun: dict[str, float] = {}

    def report(self, states: Mapping[str, TrainingRun], missing: Mapping[str, FleetError]) -> None:
        """Log each change of a host's state."""
        now = {name: f"{each.id} is {each.state}" for name, each in states.items()}
        now |= {name: str(error) for name, error in missing.items()}
        for name, said in now.items():
            if self._said.get(name) != said:
                log.info("%s: %s", name, said)
        self._said |= now

    def since(self, what: str) -> float:
        """Seconds since this was asked for first."""
        return self._clock.now() - self._begun.setdefault(what, self._clock.now())

    def forget(self, what: str) -> None:
        """It does not last any more."""
        self._begun.pop(what, None)


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
            refuse_taken_port(session, host.name)
        files: list[RunFiles] = []
        try:
            for place, session in enumerate(sessions):
                files.append(begin(place, session, given[place]))
        except (FleetError, KeyboardInterrupt):
            for host, session in zip(hosts[: len(files) + 1], sessions, strict=False):
                _halt_there(session, host.name, run)
            raise
    return tuple(files)


def read_releases(hosts: Sequence[Host], sessions: Sequence[Session]) -> tuple[DeployedRelease, ...]:
    """The part of each host's release that runs use. Raises HostFailedError where their trainer images differ."""
    given = {host.name: read_release(session, host.name) for host, session in zip(hosts, sessions, strict=True)}
    refuse_unlike({name: each.image for name, each in given.items()})
    return tuple(given.values())


def _look(
    hosts: Sequence[Host], run: str, connect: Connect
) -> tuple[dict[str, TrainingRun], dict[str, bool], Mapping[str, FleetError]]:
    """State of the run by host, whether it has done a step there, and the errors of hosts that did not answer."""

    def read(host: Host) -> tuple[TrainingRun, bool]:
        with connect(host) as session:
            found = find_run(session, host.name, run)
            return found, found.state == "finished" or is_training(session, found)

    result = on_every_host(hosts, read)
    states = {name: found for name, (found, _) in result.succeeded.items()}
    return states, {name: stepped for name, (_, stepped) in result.succeeded.items()}, result.failed


def _halt(hosts: Sequence[Host], connect: Connect, run: str) -> None:
    """Stop the run on these hosts, as far as it works: others of its hosts have ended."""
    for host in hosts:
        try:
            with connect(host) as session:
                _halt_there(session, host.name, run)
        except FleetError as error:
            log.warning("%s", error)


def _halt_there(session: Session, host: str, run: str) -> None:
    try:
        for found in read_runs(session):
            if found.id == run and found.active:
                log.warning("%s: stopping %s, which does not run on all its hosts", host, run)
                session.run([commands.stop(run, found.stop_seconds)])
    except FleetError as error:
        log.warning("%s", error)


def _ended_badly(host: Host, states: Mapping[str, TrainingRun], connect: Connect) -> str:
    found = states[host.name]
    with connect(host) as session:
        return f"{host.name}: the run {found.id} {failure(found)}{last_log_lines(session, found)}"
