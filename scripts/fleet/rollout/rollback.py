"""Rollback to an earlier release, from the files and images on the host."""

from __future__ import annotations

import logging

from fleet.audit import LAST_CHANGE, AuditEntry
from fleet.errors import HostFailedError
from fleet.facts.fact import known
from fleet.release import manifest
from fleet.release.diff import limit_changes
from fleet.release.manifest import Manifest
from fleet.rollout import commands
from fleet.rollout.change_plan import ChangePlan, removals, starts
from fleet.rollout.host_state import CURRENT, PREVIOUS, HostState, endpoints, read_state
from fleet.ssh.connection_pool import Session

log = logging.getLogger("fleet")


def plan_rollback(session: Session, host: str, release: str | None) -> ChangePlan:
    """Plan a rollback to `release`; without it, the last deploy is undone. Changes nothing.

    A deploy that became the current release is undone by the previous release. One that was interrupted or failed is
    undone by the current release, which it has not replaced. Raises HostFailedError where the release, or a part of
    it, is missing on the host.
    """
    wanted = _manifest(session, host, release or _before_the_last_deploy(session, host))
    state = read_state(session, host, wanted.id, endpoints(wanted))
    if missing := _missing(wanted, state):
        raise HostFailedError(
            f"{host}: parts of release {wanted.id} are missing: {', '.join(missing)}: "
            "deploy it again from its original commit and inventory"
        )
    return ChangePlan(
        release=None,
        manifest=wanted,
        current=state.current,
        current_manifest=state.manifest,
        starts=starts(wanted, state),
        removals=tuple(removals(wanted, state)),
        publish=state.current != wanted.id or state.expected != wanted.expected.strip(),
        limits=limit_changes(state.manifest, wanted),
    )


def _before_the_last_deploy(session: Session, host: str) -> str:
    answers = session.run([PREVIOUS.command, CURRENT.command, LAST_CHANGE.command])
    previous = known(PREVIOUS.among(answers), None)
    current, last = known(CURRENT.among(answers), None), known(LAST_CHANGE.among(answers), None)
    if current is not None and last is not None and _is_unfinished(session, host, current, last):
        log.info(
            "%s: the last deploy%s did not become current: going back to %s, which is%s", host,
            f", of release {last.after}," if last.what == "deploy" else "", current,
            "" if previous is None else f" (--release {previous} goes to the one before)",
        )  # fmt: skip
        return current
    if previous is None:
        raise HostFailedError(f"{host} has no previous release: name one with --release")
    return previous


def _is_unfinished(session: Session, host: str, current: str, last: AuditEntry) -> bool:
    """True where the last change is a deploy that has not replaced the release `current`."""
    if last.what == "deploy":
        return last.result != "ok" and last.before == current != last.after
    if last.what != "unlock" or not last.note.endswith("(deploy)"):
        return False
    wanted = _manifest(session, host, current)  # a deploy that left its lock may have ended before or after it
    return bool(starts(wanted, read_state(session, host, current, endpoints(wanted))))


def _manifest(session: Session, host: str, release: str) -> Manifest:
    read, whole = commands.release_file(release, manifest.MANIFEST_FILE), commands.whole(release)
    there = commands.list_releases()
    answers = session.run([read, whole, there])
    if not answers[read.name].ok:
        names = ", ".join(answers[there.name].out.split()) or "none"
        raise HostFailedError(f"{host} has no release {release}: expected one of {names}")
    if not answers[whole.name].ok:
        raise HostFailedError(
            f"{host}: release {release} has changed files: {answers[whole.name].message}: deploy it again"
        )
    return manifest.parse(answers[read.name].out)


def _missing(wanted: Manifest, state: HostState) -> list[str]:
    services = {each.image for each in wanted.services}
    images = [f"image {name}" for name in wanted.images if state.image(name) is None and name in services]
    secrets = [f"secret {name}" for name in wanted.secrets if name not in state.secrets]
    return images + [name for name in wanted.artefacts if name not in state.artefacts] + secrets
