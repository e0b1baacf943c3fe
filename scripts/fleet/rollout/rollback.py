"""Rollback to an earlier release, from the files and images on the host."""

from __future__ import annotations

from fleet.errors import HostFailedError
from fleet.facts.fact import Unknown
from fleet.release import manifest
from fleet.release.diff import limit_changes
from fleet.release.manifest import Manifest
from fleet.rollout import commands
from fleet.rollout.change_plan import ChangePlan, removals, starts
from fleet.rollout.host_state import PREVIOUS, HostState, endpoints, read_state
from fleet.ssh.connection_pool import Session


def plan_rollback(session: Session, host: str, release: str | None) -> ChangePlan:
    """Plan a rollback to `release`, or to the previous release; changes nothing.

    Raises HostFailedError where the release, or a part of it, is missing on the host.
    """
    wanted = _manifest(session, host, release or _previous(session, host))
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


def _previous(session: Session, host: str) -> str:
    found = PREVIOUS.among(session.run([PREVIOUS.command]))
    if found is None or isinstance(found, Unknown):
        raise HostFailedError(f"{host} has no previous release: name one with --release")
    return found


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
    return images + [name for name in wanted.artefacts if name not in state.artefacts]
