"""Drains a host: its runs write a checkpoint and end, its services finish what they have begun."""

from __future__ import annotations

import logging

from fleet.errors import FleetError
from fleet.facts.fact import Unknown
from fleet.lock import locked
from fleet.release.manifest import MANIFEST_FILE, Manifest, parse
from fleet.rollout import commands
from fleet.rollout.apply import drain_runs, record_outcome, run_checked, run_names
from fleet.rollout.context import RolloutContext
from fleet.rollout.host_state import CONTAINERS, CURRENT, CURRENT_FILES, container_of
from fleet.rollout.outcome import Outcome
from fleet.ssh.connection_pool import Session

log = logging.getLogger("fleet")

_STOP_SECONDS = 60  # for a service of which the release says nothing


def drain_host(session: Session, host: str, context: RolloutContext) -> Outcome:
    """Stop all that works on the host; the exporter stays, so that one sees it. A deploy brings it back.

    Raises HostFailedError where somebody else changes the host.
    """
    with locked(session, host, "drain"):
        context.silencer.begin([host], "drain")  # it ends by itself: nobody knows when the host is back
        current, release = _release(session)
        try:
            active = context.runs.active(session)
            drain_runs(host, session, active, context)
            stopped = _stop_services(session, host, release)
        except FleetError as error:
            return record_outcome(session, Outcome(host, "failed", current, current, str(error)), "drain")
        runs = f"{run_names(active)} with a checkpoint" if active else "no run"
        note = f"stopped: {', '.join([runs, *stopped])}; back with: fab deploy --drain --host {host}"
        return record_outcome(session, Outcome(host, "drained", current, current, note), "drain")


def _stop_services(session: Session, host: str, release: Manifest | None) -> list[str]:
    containers = CONTAINERS.among(session.run([CONTAINERS.command]))
    found = () if isinstance(containers, Unknown) else containers
    stopped = []
    for name in sorted({each.service for each in found} - {commands.EXPORTER, ""}):
        container = container_of(found, name)
        if container is None or container.state != "running":
            continue
        entry = None if release is None else release.service(name)
        seconds = _STOP_SECONDS if entry is None else entry.stop_seconds
        log.info("%s: stopping %s (it has %d s to end in order)", host, name, seconds)
        run_checked(host, session, f"stop {name}", commands.stop(name, seconds))
        stopped.append(name)
    return stopped


def _release(session: Session) -> tuple[str, Manifest | None]:
    answers = session.run([CURRENT.command, CURRENT_FILES.command])
    current, files = CURRENT.among(answers), CURRENT_FILES.among(answers)
    name = "" if current is None or isinstance(current, Unknown) else current
    if isinstance(files, Unknown) or MANIFEST_FILE not in files:
        return name, None
    return name, parse(files[MANIFEST_FILE])
