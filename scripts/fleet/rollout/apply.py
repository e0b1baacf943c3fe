"""Deploys a release on one host, in steps that an interruption leaves consistent; rolls back on failure."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from fleet.audit import AuditEntry, record
from fleet.errors import FleetError, HostFailedError
from fleet.release.manifest import Manifest
from fleet.rollout import commands
from fleet.rollout.change_plan import ChangePlan
from fleet.rollout.context import RolloutCancelledError, RolloutContext
from fleet.rollout.outcome import GOOD, Outcome, Result
from fleet.rollout.prune import prune
from fleet.rollout.restart import ServiceRestart
from fleet.rollout.transfer import Transfer
from fleet.ssh.command_batch import Command
from fleet.ssh.connection_pool import Session

log = logging.getLogger("fleet")

_SHORTEST_SECRET = 6  # characters; shorter ones are words of every text


def apply(
    host: str,
    session: Session,
    change: ChangePlan,
    active: Sequence[Any],
    context: RolloutContext,
    *,
    what: str = "deploy",
) -> Outcome:
    """Carry out `change` on the host, whose lock is held; every way in which it can end is in the outcome.

    What is needed is brought first; then services are stopped and started, and only when all are well does the
    release become the current one. At the first failure the host goes back to what it had. `active` are the runs
    that train there: with them, nothing is done unless they are to be drained.
    """
    before, after = change.current or "", change.manifest.id
    try:
        if active and not context.drain:
            note = f"{run_names(active)} trains here: use --drain, or wait until it has ended"
            return _record(session, Outcome(host, "skipped", before, after, note), change, what)
        _transfer(host, session, change, context)
        limits = _restart_services(host, session, change, context, active, what)
        if change.publish:
            _publish(host, session, change.manifest, change.current)
    except RolloutCancelledError as error:
        note = f"{error}; the same command goes on with what is there"
        return _record(session, Outcome(host, "interrupted", before, after, note), change, what)
    except FleetError as error:
        return _record(session, Outcome(host, "failed", before, after, str(error)), change, what)
    _prune(host, session, context)
    note = "" if not active else f"drained and started again: {run_names(active)}"
    result: Result = "rolled back" if what == "rollback" else "deployed"
    return _record(session, Outcome(host, result, before, after, note, limits), change, what)


def _transfer(host: str, session: Session, change: ChangePlan, context: RolloutContext) -> None:
    """Brings all that the release needs to the host, while everything runs as before."""
    transfer = Transfer(host, session, context.cache, context.cancellation.check)
    context.cancellation.check()
    for image_transfer in change.image_transfers:
        transfer.image(image_transfer)
        context.cancellation.check()
    for artefact in change.artefacts:
        transfer.artefact(artefact)
        context.cancellation.check()
    if change.write_files and change.release is not None:
        transfer.files(change.release)


def _restart_services(
    host: str, session: Session, change: ChangePlan, context: RolloutContext, active: Sequence[Any], what: str
) -> tuple[str, ...]:
    """Services from one release to the next, the runs drained for the time of it; what was verified, in words."""
    secrets = {} if change.release is None else change.release.secrets
    restart = ServiceRestart(
        host, session, context.cancellation, context.min_healthy_seconds, secrets=tuple(secrets),
        say=lambda text: log.info("%s", redact(text, secrets)),
    )  # fmt: skip
    touched = bool(active) or change.touches_services
    silenced = context.silencer.silenced([host], f"{what} {change.manifest.id}") if touched else nullcontext()
    with silenced:
        drain_runs(host, session, active, context)
        try:
            if change.secrets:
                context.cancellation.check()
                Transfer(host, session, context.cache).secrets(change.secrets)
            restart.carry_out(change.manifest, change.starts, change.removals)
        except FleetError as error:
            back = _roll_back(restart, change)
            resumed = _resume_runs(session, active, context)
            kind = RolloutCancelledError if isinstance(error, RolloutCancelledError) else HostFailedError
            raise kind(f"{error}\n{back}{resumed}") from error
        if context.drain:  # those too that another deploy has drained before it was cut off
            context.runs.resume_drained(session, change.manifest.id)
    return tuple(restart.limits)


def drain_runs(host: str, session: Session, active: Sequence[Any], context: RolloutContext) -> None:
    """Every run writes a checkpoint and ends. Raises FleetError where one does not."""
    for run in active:
        context.cancellation.check()
        log.info("%s: draining %s: a checkpoint, then it stops", host, run_names([run]))
        context.runs.stop(session, run, drained=True)


def _roll_back(restart: ServiceRestart, change: ChangePlan) -> str:
    before = change.current_manifest
    if change.current is not None and before is None:
        return f"the current release {change.current} has no manifest that can be read, so nothing went back to it"
    if change.current == change.manifest.id:
        said = f"release {change.manifest.id} was the current one already: fab rollback goes to the one before it"
        return f"{said}; {restart.services()}" if restart.touched else said
    return restart.roll_back_to(before)


def _resume_runs(session: Session, active: Sequence[Any], context: RolloutContext) -> str:
    if not active:
        return ""
    try:
        context.runs.resume_drained(session, None)
    except FleetError as error:
        return f"; the drained {run_names(active)} did not start again: {error}"
    return f"; the drained {run_names(active)} is started again"


def _publish(host: str, session: Session, wanted: Manifest, before: str | None) -> None:
    command = commands.set_current(wanted.id, before=before, expected=wanted.expected)
    run_checked(host, session, "set the current release", command)


def run_checked(host: str, session: Session, what: str, command: Command) -> None:
    """Run a command that has to succeed. Raises HostFailedError."""
    answer = session.run([command])[command.name]
    if not answer.ok:
        raise HostFailedError(f"{host} could not {what}: {answer.message}")


def _prune(host: str, session: Session, context: RolloutContext) -> None:
    """Removes old parts; a failure to do so is no reason to call a good release bad."""
    try:
        for line in prune(host, session, keep=context.keep):
            log.info("%s: %s", host, line)
    except FleetError as error:
        log.warning("%s: nothing old was removed: %s", host, error)


def _record(session: Session, outcome: Outcome, change: ChangePlan, what: str) -> Outcome:
    """The outcome, in which no secret stands even where a service has written one, and its line in the audit log."""
    secrets = {} if change.release is None else change.release.secrets
    return record_outcome(session, replace(outcome, note=redact(outcome.note, secrets)), what)


def redact(text: str, secrets: Mapping[str, bytes]) -> str:
    """The text with every secret, and every line of one, taken out."""
    for value in secrets.values():
        lines = value.decode(errors="replace").splitlines()
        for part in sorted({line.strip() for line in lines if len(line.strip()) >= _SHORTEST_SECRET}, key=len)[::-1]:
            text = text.replace(part, "[secret]")
    return text


def run_names(runs: Sequence[Any]) -> str:
    """Runs, for a message."""
    return ", ".join(f"run {getattr(run, 'id', run)}" for run in runs)


def record_outcome(session: Session, outcome: Outcome, what: str) -> Outcome:
    """Writes the outcome into the host's audit log; where that fails, says so."""
    result = "ok" if outcome.result in GOOD else outcome.result
    try:
        entry = AuditEntry(what, outcome.before, outcome.after, result, outcome.note)
        record(session, outcome.host, entry)
    except FleetError as error:
        log.warning("%s: the audit log has no line of this: %s", outcome.host, error)
    return outcome
