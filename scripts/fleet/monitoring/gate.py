"""The gate of monitoring: its programs are well, Prometheus has loaded the rules and knows the targets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from fleet.batch import Answer
from fleet.errors import HostFailedError
from fleet.monitoring import commands
from fleet.monitoring.api import ALERTMANAGER_PORT, PROMETHEUS_PORT, reply, request
from fleet.monitoring.release import Manifest
from fleet.monitoring.state import read_containers
from fleet.remote import Session
from fleet.rollout.gate import POLL_SECONDS, Clock
from fleet.rollout.host_state import ServiceContainer

HEALTHY_SECONDS = 180.0  # Prometheus reads what it wrote before an end that was not in order
_QUESTIONS = {
    "ready": request("prometheus-ready", PROMETHEUS_PORT, "GET", "/-/ready"),
    "rules": request("rules", PROMETHEUS_PORT, "GET", "/api/v1/rules"),
    "targets": request("targets", PROMETHEUS_PORT, "GET", "/api/v1/targets?state=active"),
}
_ALERTMANAGER = request("alertmanager-ready", ALERTMANAGER_PORT, "GET", "/-/ready")


def pass_gate(host: str, session: Session, manifest: Manifest, clock: Clock) -> None:
    """Wait until everything is well. Raises HostFailedError with what is not, and the last words of who it is."""
    end = clock.now() + HEALTHY_SECONDS
    while True:
        containers = {each.service: each for each in read_containers(session, host)}
        problems = dict(_not_well(manifest, containers))
        hopeless = [name for name in problems if _ended(containers.get(name))]
        if not problems:
            problems = dict(_not_loaded(session, manifest))
        if not problems:
            return
        if hopeless or clock.now() >= end:
            break
        clock.wait(POLL_SECONDS)
    name = (hopeless or list(problems))[0]
    command = commands.logs(name)
    last = session.run([command])[command.name].out.strip() or "(nothing)"
    said = "; ".join(f"{each} {problem}" for each, problem in problems.items())
    raise HostFailedError(f"{host}: {said}. {name} wrote last:\n{last}")


def _not_well(manifest: Manifest, containers: Mapping[str, ServiceContainer]) -> Iterator[tuple[str, str]]:
    for program in manifest.programs:
        container = containers.get(program.name)
        if container is None:
            yield program.name, "has no container"
        elif container.config != program.config:
            yield program.name, f"runs with the configuration {container.config}, {program.config} is wanted"
        elif not container.healthy:
            yield program.name, f"is {container.said}"


def _ended(container: ServiceContainer | None) -> bool:
    """Whether waiting longer is in vain."""
    if container is None:
        return False
    crashed = container.state == "restarting" and container.exit_code != 0
    return crashed or container.state in ("exited", "dead") or container.health == "unhealthy"


def _not_loaded(session: Session, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """What Prometheus and Alertmanager lack, though their containers are well."""
    answers = session.run([*_QUESTIONS.values(), _ALERTMANAGER])
    if manifest.program("alertmanager") is not None and (said := _unready(answers[_ALERTMANAGER.name])):
        yield "alertmanager", f"is not ready: {said}"
    if manifest.program("prometheus") is None:
        return
    if said := _unready(answers[_QUESTIONS["ready"].name]):
        yield "prometheus", f"is not ready: {said}"
        return
    try:
        groups = _data(answers[_QUESTIONS["rules"].name])["groups"]
        targets = _data(answers[_QUESTIONS["targets"].name])["activeTargets"]
        loaded = {("/".join(PurePosixPath(each["file"]).parts[-2:]), each["name"]) for each in groups}
        known = {(each["labels"]["job"], each["labels"]["instance"]) for each in targets}
    except (ValueError, LookupError, TypeError) as error:
        yield "prometheus", f"does not tell its rules and targets: {error}"
        return
    if missing := sorted(f"{name} of {file}" for file, name in manifest.groups - loaded):
        yield "prometheus", f"has not loaded the rules {', '.join(missing)}"
    elif missing := sorted(f"{instance} of {job}" for job, instance in manifest.targets - known):
        yield "prometheus", f"does not know the targets {', '.join(missing)}"


def _unready(answer: Answer) -> str | None:
    try:
        found = reply(answer)
    except ValueError as error:
        return str(error)
    return None if found.good else f"it answers {found.status}: {found.body.strip()[:200]}"


def _data(answer: Answer) -> Any:
    found = reply(answer)
    if not found.good:
        raise ValueError(f"it answers {found.status}: {found.body.strip()[:200]}")
    return json.loads(found.body)["data"]
