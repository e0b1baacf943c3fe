"""The only place that changes a host: image, files, service, and the gate that says whether it is well."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from fleet import commands
from fleet.batch import Answer
from fleet.change import ROLE, Change, exporter_of, metrics_fact
from fleet.errors import HostFailedError
from fleet.fact import Unknown
from fleet.machine_facts import CONTAINERS
from fleet.release import ENVIRONMENT_FILE, Release
from fleet.remote import Session

log = logging.getLogger("fleet")

HEALTHY_SECONDS = 90.0  # a first start reads the drivers of all GPUs
_POLL_SECONDS = 1.0


def apply(
    name: str,
    session: Session,
    change: Change,
    image: Callable[[], Iterable[bytes]],
    *,
    wait: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Carry out `change` on the host `name`; `image` gives the image's bytes where they must be sent.

    The release becomes the current one only when it is healthy. Raises HostFailedError, with what the service wrote
    last, otherwise; what was there before is still named as current then.
    """
    release = change.release
    if change.send_image:
        log.info("%s: sending image %s", name, release.image.release_tag)
        _must(name, "take the image", session.send(commands.load_image(), image()))
    if change.write_files:
        log.info("%s: writing release %s", name, release.id)
        command = commands.write_release(release.id, release.checksums)
        _must(name, "write the release", session.send(command, [release.archive()]))
    if change.start:
        log.info("%s: starting %s", name, ROLE)
        command = commands.start(release.id, release.compose_files, ENVIRONMENT_FILE, ROLE)
        _must(name, f"start {ROLE}", session.run([command])[command.name])
        _gate(name, session, release, wait, now)
    if change.set_current:
        command = commands.set_current(release.id)
        _must(name, "set the current release", session.run([command])[command.name])


def _gate(
    name: str, session: Session, release: Release, wait: Callable[[float], None], now: Callable[[], float]
) -> None:
    """Waits until the container is healthy and its metrics answer. Raises HostFailedError."""
    metrics = metrics_fact(release.address, release.port)
    end = now() + HEALTHY_SECONDS
    while True:
        answers = session.run([CONTAINERS.command, metrics.command])
        container, answered = exporter_of(CONTAINERS.among(answers)), metrics.among(answers)
        healthy = container is not None and container.release == release.id and container.healthy
        if healthy and not isinstance(answered, Unknown):
            return
        ended = container is not None and (container.state in ("exited", "dead") or container.health == "unhealthy")
        if ended or now() >= end:
            break
        wait(_POLL_SECONDS)
    state = "is not there" if container is None else f"is {container.state}, health: {container.health or 'unknown'}"
    said = f"; /metrics: {answered.why}" if isinstance(answered, Unknown) else ""
    logs = commands.logs(ROLE)
    tail = session.run([logs])[logs.name].out.strip() or "(nothing)"
    raise HostFailedError(
        f"{name}: {ROLE} of release {release.id} {state}{said}. It wrote last:\n{tail}\n"
        "Correct what it says and deploy again; the release before it is still named as current"
    )


def _must(name: str, what: str, answer: Answer) -> None:
    if not answer.ok:
        raise HostFailedError(f"{name} could not {what}: {answer.said}")
