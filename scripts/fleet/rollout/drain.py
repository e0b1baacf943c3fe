"""Drains a host: stops training runs with a checkpoint and services gracefully."""

from __future__ import annotations

import logging

from fleet.command_line import fab
from fleet.errors import FleetError, HostFailedError
from fleet.facts.fact import Unknown
from fleet.lock import locked
from fleet.release.manifest import MANIFEST_FILE, Manifest, parse
from fleet.rollout import commands
from fleet.rollout.apply import drain_runs, record_outcome, run_names
from fleet.rollout.context import RolloutCancelledError, RolloutContext
from fleet.rollout.hooks import HostHooks
from fleet.rollout.host_state import CONTAINERS, CURRENT, CURRENT_FILES, container_of
from fleet.rollout.outcome import Outcome
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must

log = logging.getLogger("fleet")

_STOP_SECONDS = 60  # for a service that is not in the release


def drain_host(session: Session, host: str, context: RolloutContext) -> Outcome:
    """Stop runs and services of the host, except the exporters; a deploy starts them again.

    Raises HostFailedError where the host is locked.
    """
    with locked(session, host, "drain"):
        context.silencer.begin([host], "drain")  # expires by itself: the end of the drain is not known
        current, release = _release(session)
        hooks = HostHooks(host, "drain", current, context)
        with hooks.unexpected():
            outcome = _carry_out(session, host, context, current, release, hooks)
        return record_outcome(session, hooks.after(outcome), "drain")


def _carry_out(
    session: Session, host: str, context: RolloutContext, current: str, release: Manifest | None, hooks: HostHooks
) -> Outcome:
    try:
        hooks.before()
        active = context.runs.active(session)
        drain_runs(host, session, active, context)
        stopped = _stop_services(session, host, release)
    except RolloutCancelledError as error:
        return Outcome(host, "interrupted", current, current, str(error))
    except FleetError as error:
        return Outcome(host, "failed", current, current, str(error))
    runs = f"{run_names(active)} with a checkpoint" if active else "no runs"
    note = f"stopped: {', '.join([runs, *stopped])}; undo with: {fab()} deploy --drain --host {host}"
    return Outcome(host, "drained", current, current, note)


def _stop_services(session: Session, host: str, release: Manifest | None) -> list[str]:
    containers = CONTAINERS.among(session.run([CONTAINERS.command]))
    if isinstance(containers, Unknown):
        raise HostFailedError(f"{host}: its containers cannot be listed, so services may run on: {containers.reason}")
    stopped = []
    for name in sorted({each.service for each in containers} - {*commands.STATELESS, ""}):
        container = container_of(containers, name)
        if container is None or container.state != "running":
            continue
        entry = None if release is None else release.service(name)
        seconds = _STOP_SECONDS if entry is None else entry.stop_seconds
        log.info("%s: stopping %s (timeout %d s)", host, name, seconds)
        must(session, host, f"stop {name}", commands.stop(name, seconds))
        stopped.append(name)
    return stopped


def _release(session: Session) -> tuple[str, Manifest | None]:
    answers = session.run([CURRENT.command, CURRENT_FILES.command])
    current, files = CURRENT.among(answers), CURRENT_FILES.among(answers)
    name = "" if current is None or isinstance(current, Unknown) else current
    if isinstance(files, Unknown) or MANIFEST_FILE not in files:
        return name, None
    return name, parse(files[MANIFEST_FILE])
