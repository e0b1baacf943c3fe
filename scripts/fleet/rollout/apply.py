"""Deploys a release on one host: transfer, restart, publish, prune; rolls back on failure. Drains a host."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from fleet.audit import AuditEntry, record
from fleet.checks.finding import BARK, TRAINER
from fleet.command_line import fab
from fleet.errors import FleetError, HostFailedError
from fleet.facts.machine import container_of
from fleet.lock import locked
from fleet.release.manifest import Manifest, ServiceEntry
from fleet.rollout import commands
from fleet.rollout.change_plan import STOP_SECONDS, ChangePlan
from fleet.rollout.context import GOOD, Outcome, Result, RolloutCancelledError, RolloutContext
from fleet.rollout.hooks import HostHooks
from fleet.rollout.host_state import CONTAINERS, read_current
from fleet.rollout.prune import prune
from fleet.rollout.restart import ServiceRestart, stop
from fleet.rollout.transfer import Transfer
from fleet.ssh.command_batch import host_verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must, must_know

log = logging.getLogger("fleet")

_SHORTEST_SECRET = 6  # characters; shorter values could match ordinary words


def apply(
    host: str,
    session: Session,
    change: ChangePlan,
    active: Sequence[Any],
    context: RolloutContext,
    *,
    what: str = "deploy",
) -> Outcome:
    """Apply `change` to the host, whose lock is held; the outcome covers failures, too.

    Transfers all files first, then restarts services; the release becomes current only when all are healthy. The
    first failure rolls the host back. `active` are running training runs: unless they are to be drained, the host is
    skipped. The operator's hooks run around the time in which services or runs are stopped.
    """
    hooks = HostHooks(host, what, change.manifest.id, context)
    with hooks.unexpected():
        outcome = _carry_out(host, session, change, active, context, what, hooks)
    outcome = hooks.after(replace(outcome, withheld=change.manifest.withheld))
    if outcome.result in GOOD:
        _prune(host, session, context)
    return _record(session, outcome, change, what)


def _carry_out(
    host: str,
    session: Session,
    change: ChangePlan,
    active: Sequence[Any],
    context: RolloutContext,
    what: str,
    hooks: HostHooks,
) -> Outcome:
    before, after = change.current or "", change.manifest.id
    try:
        blocked = TRAINER in change.manifest.withheld  # a drained run could not be resumed under this release
        if active and (blocked or not context.drain):
            how = "the preflight blocks the trainer: repair that" if blocked else "use --drain"
            note = f"{run_names(active)} is active: {how}, or wait until it has ended"
            return Outcome(host, "skipped", before, after, note)
        _transfer(host, session, change, context)
        limits = _restart_services(host, session, change, context, active, what, hooks)
        if change.touches_services:
            must(session, host, "end the maintenance", host_verb("maintenance_end"))
        if change.publish:
            _publish(host, session, change.manifest, change.current)
    except RolloutCancelledError as error:
        note = f"{error}; run the same command again to continue"
        return Outcome(host, "interrupted", before, after, note)
    except FleetError as error:
        return Outcome(host, "failed", before, after, str(error))
    notes = [] if not active else [f"drained and resumed: {run_names(active)}"]
    notes += [f"{name} is left as it is: the preflight blocks it" for name in change.manifest.withheld]
    result: Result = "rolled back" if what == "rollback" else "deployed"
    return Outcome(host, result, before, after, "\n".join(notes), limits)


def _transfer(host: str, session: Session, change: ChangePlan, context: RolloutContext) -> None:
    """Transfers images, artefacts, secrets and files to the host; services keep running."""
    transfer = Transfer(host, session, context.cache, context.cancellation.check)
    context.cancellation.check()
    for image_transfer in change.image_transfers:
        transfer.image(image_transfer)
        context.cancellation.check()
    for artefact in change.artefacts:
        transfer.artefact(artefact)
        context.cancellation.check()
    if change.secrets:
        transfer.secrets(change.secrets)
        context.cancellation.check()
    if change.write_files and change.release is not None:
        transfer.files(change.release)
    for start in change.starts:
        if start.kind != "wait for":
            _check_files(host, session, change.manifest.id, start.service)


def _check_files(host: str, session: Session, release: str, service: ServiceEntry) -> None:
    """Raises HostFailedError where the program of the service rejects its new files."""
    if (command := commands.check_config(release, service)) is not None:
        answer = session.run([command])[command.name]
        if not answer.ok:
            said = commands.config_refusal(f"{answer.out}\n{answer.err}")
            raise HostFailedError(f"{host}: {service.name} rejects its configuration: {said}")


def _restart_services(
    host: str,
    session: Session,
    change: ChangePlan,
    context: RolloutContext,
    active: Sequence[Any],
    what: str,
    hooks: HostHooks,
) -> tuple[str, ...]:
    """Restart services with alerts silenced and runs drained; returns the verified GPU memory limits as text."""
    secrets = {} if change.release is None else change.release.secrets
    restart = ServiceRestart(
        host, session, context.cancellation, context.min_healthy_seconds,
        say=lambda text: log.info("%s", redact(text, secrets)),
        not_ready_yet=(BARK,) if host in context.before_workers else (),
    )  # fmt: skip
    touched = bool(active) or change.touches_services
    silenced = context.silencer.silenced([host], f"{what} {change.manifest.id}") if touched else nullcontext()
    with silenced:
        if touched:
            hooks.before()
        drain_runs(host, session, active, context)
        try:
            restart.carry_out(change.manifest, change.starts, change.removals)
            if (complete := context.cluster_gate(host, session, context.cancellation)) is not None:
                log.info("%s: %s", host, complete)
        except FleetError as error:
            back = _roll_back(restart, change)
            resumed = _resume_runs(session, active, context)
            kind = RolloutCancelledError if isinstance(error, RolloutCancelledError) else HostFailedError
            raise kind(f"{error}\n{back}{resumed}") from error
        if context.drain and TRAINER not in change.manifest.withheld:  # also runs drained by an interrupted deploy
            context.runs.resume_drained(session, change.manifest.id)
    return tuple(restart.limits)


def drain_runs(host: str, session: Session, active: Sequence[Any], context: RolloutContext) -> None:
    """Stop all runs with a checkpoint. Raises FleetError where one fails."""
    for run in active:
        context.cancellation.check()
        log.info("%s: draining %s: saving a checkpoint, then stopping", host, run_names([run]))
        context.runs.stop(session, run, drained=True)


def _roll_back(restart: ServiceRestart, change: ChangePlan) -> str:
    before = change.current_manifest
    if change.current is not None and before is None:
        return f"no rollback: the manifest of the current release {change.current} cannot be read"
    if change.current == change.manifest.id:
        said = f"release {change.manifest.id} was already current: {fab()} rollback restores the previous one"
        return f"{said}; {restart.services()}" if restart.touched else said
    return restart.roll_back_to(before)


def _resume_runs(session: Session, active: Sequence[Any], context: RolloutContext) -> str:
    if not active:
        return ""
    try:
        context.runs.resume_drained(session, None)
    except FleetError as error:
        return f"; the drained {run_names(active)} could not be resumed: {error}"
    return f"; the drained {run_names(active)} was resumed"


def _publish(host: str, session: Session, wanted: Manifest, before: str | None) -> None:
    replaced = [before] if before is not None and before != wanted.id else []
    command = host_verb("release_publish", wanted.id, wanted.expected.decode(), *replaced)
    must(session, host, "set the current release", command)


def _prune(host: str, session: Session, context: RolloutContext) -> None:
    """Prunes old releases; a failure is logged and does not fail the deploy."""
    try:
        for line in prune(host, session, keep=context.keep):
            log.info("%s: %s", host, line)
    except FleetError as error:
        log.warning("%s: pruning failed: %s", host, error)


def _record(session: Session, outcome: Outcome, change: ChangePlan, what: str) -> Outcome:
    """Records the outcome, with secrets redacted."""
    secrets = {} if change.release is None else change.release.secrets
    return record_outcome(session, replace(outcome, note=redact(outcome.note, secrets)), what)


def redact(text: str, secrets: Mapping[str, bytes]) -> str:
    """Text with secrets, and lines of secrets, replaced."""
    for value in secrets.values():
        lines = value.decode(errors="replace").splitlines()
        for part in sorted({line.strip() for line in lines if len(line.strip()) >= _SHORTEST_SECRET}, key=len)[::-1]:
            text = text.replace(part, "[secret]")
    return text


def run_names(runs: Sequence[Any]) -> str:
    """Names of runs, for messages."""
    return ", ".join(f"run {getattr(run, 'id', run)}" for run in runs)


def record_outcome(session: Session, outcome: Outcome, what: str) -> Outcome:
    """Write the outcome to the audit log of the host; a failure is logged."""
    result = "ok" if outcome.result in GOOD else outcome.result
    try:
        entry = AuditEntry(what, outcome.before, outcome.after, result, outcome.note)
        record(session, outcome.host, entry)
    except FleetError as error:
        log.warning("%s: could not write the audit log: %s", outcome.host, error)
    return outcome


def drain_host(session: Session, host: str, context: RolloutContext) -> Outcome:
    """Stop runs and services of the host, except the exporters; a deploy starts them again.

    Raises HostFailedError where the host is locked.
    """
    with locked(session, host, "drain"):
        context.silencer.begin([host], "drain")  # expires by itself, if no deploy ends it
        begin = host_verb("maintenance_begin", str(round(context.maintenance_seconds)))
        must(session, host, "begin the maintenance", begin)
        current, release = read_current(session)
        hooks = HostHooks(host, "drain", current or "", context)
        with hooks.unexpected():
            outcome = _drain(session, host, context, current or "", release, hooks)
        return record_outcome(session, hooks.after(outcome), "drain")


def _drain(
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
    note += f"; its alerts are silent for {context.maintenance_seconds / 60:.0f} minutes at most"
    return Outcome(host, "drained", current, current, note)


def _stop_services(session: Session, host: str, release: Manifest | None) -> list[str]:
    otherwise = f"{host}: its containers cannot be listed, so services may run on"
    containers = must_know(CONTAINERS, session.run([CONTAINERS.command]), otherwise)
    stopped = []
    for name in sorted({each.service for each in containers} - {*commands.EXPORTERS, ""}):
        container = container_of(containers, name)
        if container is None or container.state != "running":
            continue
        entry = None if release is None else release.service(name)
        seconds = STOP_SECONDS if entry is None else entry.stop_seconds
        log.info("%s: stopping %s (timeout %d s)", host, name, seconds)
        must(session, host, f"stop {name}", stop(name, seconds))
        stopped.append(name)
    return stopped
