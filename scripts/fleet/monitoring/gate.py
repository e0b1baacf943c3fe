"""Health gate of monitoring: programs stay healthy, rules are loaded, targets are known."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from fleet.errors import HostFailedError
from fleet.inventory.rollout_settings import MIN_HEALTHY_SECONDS
from fleet.monitoring.api import ALERTMANAGER_PORT, PROMETHEUS_PORT, reply, request
from fleet.monitoring.release import MonitoringManifest
from fleet.monitoring.state import read_containers
from fleet.rollout.health_gate import POLL_SECONDS, REPORT_SECONDS, Clock, HealthWatch, failure_message
from fleet.rollout.host_state import ServiceContainer
from fleet.ssh.command_batch import Answer
from fleet.ssh.connection_pool import Session

log = logging.getLogger("fleet")

HEALTHY_SECONDS = 180.0  # includes the WAL replay of Prometheus after a crash
_PROBES = {
    "ready": request("prometheus-ready", PROMETHEUS_PORT, "GET", "/-/ready"),
    "rules": request("rules", PROMETHEUS_PORT, "GET", "/api/v1/rules"),
    "targets": request("targets", PROMETHEUS_PORT, "GET", "/api/v1/targets?state=active"),
}
_ALERTMANAGER = request("alertmanager-ready", ALERTMANAGER_PORT, "GET", "/-/ready")


def pass_gate(
    host: str,
    session: Session,
    manifest: MonitoringManifest,
    clock: Clock,
    *,
    started: Collection[str] = (),
    min_healthy_seconds: float = MIN_HEALTHY_SECONDS,
) -> None:
    """Wait until all programs have been healthy for long enough; `started`: programs with new containers.

    Raises HostFailedError with the problems and the last log lines; immediately where a program has exited.
    """
    watches = {each.name: HealthWatch(min_healthy_seconds, each.name in started) for each in manifest.programs}
    said = clock.now()
    end = said + HEALTHY_SECONDS
    while True:
        now = clock.now()
        containers = {each.service: each for each in read_containers(session, host)}
        failure = {
            name: reason for name, each in watches.items() if (reason := each.failure(containers.get(name))) is not None
        }
        problems = failure or dict(_not_well(manifest, containers)) or dict(_not_loaded(session, manifest))
        steady = [each.stable(now, healthy_now=not problems) for each in watches.values()]
        if all(steady):
            return
        if failure or (problems and now >= end):
            name = next(iter(problems))
            last = failure_message(session, containers.get(name), watches[name], f"{name} {problems[name]}")
            others = "; ".join(f"{each} {problem}" for each, problem in problems.items() if each != name)
            raise HostFailedError(f"{host}: {f'{others}; ' if others else ''}{last}")
        if now - said >= REPORT_SECONDS:
            words = "; ".join(f"{each} {problem}" for each, problem in problems.items())
            log.info("%s: waiting for monitoring: %s", host, next(iter(watches.values())).progress(now, words))
            said = now
        clock.wait(POLL_SECONDS)


def _not_well(manifest: MonitoringManifest, containers: Mapping[str, ServiceContainer]) -> Iterator[tuple[str, str]]:
    for program in manifest.programs:
        container = containers.get(program.name)
        if container is None:
            yield program.name, "has no container"
        elif container.config != program.config:
            yield program.name, f"runs configuration {container.config}, expected {program.config}"
        elif not container.healthy:
            yield program.name, f"is {container.description}"


def _not_loaded(session: Session, manifest: MonitoringManifest) -> Iterator[tuple[str, str]]:
    """Programs that are not ready, and rules and targets that Prometheus has not loaded."""
    answers = session.run([*_PROBES.values(), _ALERTMANAGER])
    if manifest.program("alertmanager") is not None and (said := _unready(answers[_ALERTMANAGER.name])):
        yield "alertmanager", f"is not ready: {said}"
    if manifest.program("prometheus") is None:
        return
    if said := _unready(answers[_PROBES["ready"].name]):
        yield "prometheus", f"is not ready: {said}"
        return
    try:
        groups = _data(answers[_PROBES["rules"].name])["groups"]
        targets = _data(answers[_PROBES["targets"].name])["activeTargets"]
        loaded = {("/".join(PurePosixPath(each["file"]).parts[-2:]), each["name"]) for each in groups}
        known = {(each["labels"]["job"], each["labels"]["instance"]) for each in targets}
    except (ValueError, LookupError, TypeError) as error:
        yield "prometheus", f"rules and targets cannot be read: {error}"
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
    return None if found.good else f"status {found.status}: {found.body.strip()[:200]}"


def _data(answer: Answer) -> Any:
    found = reply(answer)
    if not found.good:
        raise ValueError(f"status {found.status}: {found.body.strip()[:200]}")
    return json.loads(found.body)["data"]
