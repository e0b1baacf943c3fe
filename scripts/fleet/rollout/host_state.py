"""State of a host: releases, images, artefacts, secrets, service health; read in one exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import FleetError
from fleet.facts.fact import Fact, known
from fleet.facts.machine import IMAGES, ROLE_LABEL, Container, HostImage, container_of, containers_of
from fleet.lock import LOCK, Lock
from fleet.release import manifest
from fleet.release.manifest import Manifest, ServiceEntry
from fleet.ssh.command_batch import Answer, Command, verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import files_of, http, must_know, reply

OUR_PROJECT = "com.docker.compose.project=voxyard"  # training runs have others
HANDED_OVER = "-"
"""In place of the SHA-256 of a secret that only its container can read; its name has its version."""


@dataclass(frozen=True, slots=True)
class HostState:
    """State of a host."""

    current: str | None  # last healthy release
    previous: str | None
    checksums: Mapping[str, str]  # of the files of the planned release, by name
    changed_files: tuple[str, ...]  # release/file
    files: Mapping[str, bytes]  # of the current release
    images: tuple[HostImage, ...]
    artefacts: frozenset[str]
    secrets: Mapping[str, tuple[str, str]]  # mode and SHA-256, by file name
    containers: tuple[Container, ...]
    not_answering: Mapping[str, str]  # services of the planned release that do not answer, with the reason
    expected: bytes  # state/expected.json
    lock: Lock | None
    loaded: Mapping[str, str] = field(default_factory=dict)  # version of the files that a service works with

    def container(self, service: str) -> Container | None:
        """Container of the service; the running one of several."""
        return container_of(self.containers, service)

    def image(self, name: str) -> HostImage | None:
        """Image with this name."""
        return next((each for each in self.images if name in each.names), None)

    @property
    def manifest(self) -> Manifest | None:
        """Manifest of the current release; None where it is missing or invalid."""
        return manifest_in(self.files)


def manifest_in(files: Mapping[str, bytes]) -> Manifest | None:
    """Manifest among the files of a release; None where it is missing or invalid."""
    try:
        return manifest.parse(files[manifest.MANIFEST_FILE])
    except (KeyError, FleetError):
        return None


def read_current(session: Session) -> tuple[str | None, Manifest | None]:
    """Current release and its manifest, None where there is none. Raises HostFailedError."""
    answers = session.run([CURRENT.command, CURRENT_FILES.command])
    return known(CURRENT.among(answers), None), manifest_in(known(CURRENT_FILES.among(answers), {}))


def probes(service: ServiceEntry) -> tuple[Command, ...]:
    """Requests to a service: readiness, metrics, and the paths that show what is loaded."""
    paths = {"ready": service.ready} | ({"metrics": "/metrics"} if service.metrics else {})
    paths |= {f"shown{number}": path for number, path in enumerate(_shown(service))}
    return tuple(
        http(f"{what}-{service.name}", service.address, service.port, path, tls=service.tls)
        for what, path in paths.items()
    )


def problem(service: ServiceEntry, answers: Mapping[str, Answer]) -> str | None:
    """Reason why the service is not ready, from the answers to its probes; None where it is."""
    ready, *shown = (answers[command.name] for command in probes(service))
    said = http_problem(ready)
    if said is not None:
        return f"{service.ready}: {said}"
    if not service.metrics:
        return None
    metrics, *shown = shown
    said = http_problem(metrics)
    if said is None and not any(line.startswith(service.metrics) for line in metrics.out.splitlines()):
        said = f"no metrics named {service.metrics}…: another program listens on this port"
    if said is not None:
        return f"/metrics: {said}"
    for (path, texts), answer in zip(_shown(service).items(), shown, strict=True):
        said = http_problem(answer)
        if said is None and (missing := [text for text in texts if text not in answer.out]):
            said = f"does not show {', '.join(missing)}"
        if said is not None:
            return f"{path}: {said}"
    return None


def _shown(service: ServiceEntry) -> Mapping[str, tuple[str, ...]]:
    """Texts that must be in what the service answers at each path."""
    return {} if service.files is None else service.files.shown


def read_state(session: Session, host: str, wanted: Manifest) -> HostState:
    """Read the state of the host, compared with the planned release.

    Raises HostFailedError when the connection breaks, or essential facts are unavailable.
    """
    checksums = Fact("checksums", verb("release_sums", wanted.id), _checksums)
    facts: tuple[Fact[Any], ...] = (
        CURRENT, PREVIOUS, checksums, CHANGED_FILES, CURRENT_FILES, IMAGES, ARTEFACTS, SECRETS, CONTAINERS, LOCK,
        EXPECTED, LOADED,
    )  # fmt: skip
    asked = [command for each in wanted.services for command in probes(each)]
    answers = session.run([*(fact.command for fact in facts), *asked])
    for fact in (CONTAINERS, IMAGES, CURRENT, CURRENT_FILES):
        must_know(fact, answers, f"{host}: its {fact.name} cannot be read")
    problems = {each.name: problem(each, answers) for each in wanted.services}
    return HostState(
        current=known(CURRENT.among(answers), None),
        previous=known(PREVIOUS.among(answers), None),
        checksums=known(checksums.among(answers), {}),
        changed_files=known(CHANGED_FILES.among(answers), ()),
        files=known(CURRENT_FILES.among(answers), {}),
        images=known(IMAGES.among(answers), ()),
        artefacts=known(ARTEFACTS.among(answers), frozenset()),
        secrets=known(SECRETS.among(answers), {}),
        containers=known(CONTAINERS.among(answers), ()),
        not_answering={service: said for service, said in problems.items() if said is not None},
        expected=known(EXPECTED.among(answers), b""),
        lock=known(LOCK.among(answers), None),
        loaded=known(LOADED.among(answers), {}),
    )


def http_problem(answer: Answer) -> str | None:
    """Reason why a response is not 200; None where it is."""
    try:
        found = reply(answer)
    except ValueError as error:
        return str(error)
    return None if found.status == 200 else f"answers {found.status}: {' '.join(found.body.split())[:200]}"


def _link(text: str) -> str | None:
    return text.strip().rpartition("/")[2] or None


def _checksums(text: str) -> Mapping[str, str]:
    rows = (line.split(maxsplit=1) for line in text.splitlines())
    return {name.lstrip("*"): checksum for checksum, name in rows}


def _secrets(text: str) -> Mapping[str, tuple[str, str]]:
    lines = text.splitlines()
    rows = [(mode, line.split(maxsplit=1)) for mode, line in zip(lines[::2], lines[1::2], strict=True)]
    return {name.lstrip("*"): (mode, checksum) for mode, (checksum, name) in rows}


CURRENT: Fact[str | None] = Fact("current", verb("release_link", "current"), _link)
PREVIOUS: Fact[str | None] = Fact("previous", verb("release_link", "previous"), _link)
CHANGED_FILES = Fact("changed-files", verb("release_changes"), lambda text: tuple(text.split()))  # release/file
CURRENT_FILES = Fact("current-files", verb("release_current"), files_of)
ARTEFACTS = Fact("artefacts", verb("artefact_list"), lambda text: frozenset(text.split()))
SECRETS = Fact("secrets", verb("secrets_list"), _secrets)  # their names are not to be logged
EXPECTED = Fact("expected", verb("state_expected"), lambda text: text.strip().encode())
LOADED: Fact[Mapping[str, str]] = Fact(
    "loaded", verb("config_list"), lambda text: dict(line.split() for line in text.splitlines())
)
CONTAINERS = Fact("services", verb("container_inspect", OUR_PROJECT, ROLE_LABEL), containers_of)
