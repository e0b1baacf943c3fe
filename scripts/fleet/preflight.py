"""The preflight: what speaks against running on a host, by what is known of it. Nothing here asks or changes a host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fleet import gpu_checks
from fleet.assignment import Assignment
from fleet.fact import Unknown
from fleet.facts import HostFacts
from fleet.finding import Finding, acknowledged
from fleet.inventory import Host

DOCKER_MINIMUM = (20, 10)  # BuildKit in the engine, and the stop timeouts that Compose v2 relies on
COMPOSE_MINIMUM = (2, 24, 4)  # `!reset`, with which a host without GPUs takes back their reservation
SPARE_BYTES = 1 << 30  # for logs and layers, beside the image
SKEW_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Needs:
    """What is to run, as far as a host must fit it."""

    image_bytes: int = 0
    cuda: int = 12  # the major version in the images of trainer and Bark


def preflight(facts: HostFacts, host: Host, needs: Needs, assignment: Assignment) -> tuple[Finding, ...]:
    """Everything found, worst first; the inventory's acknowledged warnings are marked."""
    found = (
        *login(facts, host),
        *docker(facts, host),
        *compose(facts),
        *disk(facts, needs),
        *port(facts, host),
        *clock(facts),
        *gpu_checks.all_of(facts, host, needs.cuda, assignment),
    )
    return acknowledged(found, host)


def docker(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """The engine answers this user, and is not too old."""
    if isinstance(facts.docker, Unknown):
        remedy = "install Docker, start it, and see that `docker version` works there"
        if "permission denied" in facts.docker.why.lower():
            remedy = f"add the user to the group docker there: sudo usermod -aG docker {host.user}; then log in anew"
        yield Finding("FAIL", "docker", f"docker does not answer: {facts.docker.why}", remedy)
    elif _version(facts.docker.server) < DOCKER_MINIMUM:
        found = f"Docker {facts.docker.server}, at least {_text(DOCKER_MINIMUM)} is needed"
        yield Finding("FAIL", "docker", found, "install a newer Docker Engine")


def compose(facts: HostFacts) -> Iterator[Finding]:
    """Compose v2 is there, as the plug-in `docker compose`."""
    if isinstance(facts.compose, Unknown):
        absent = "unknown flag" in facts.compose.why or "not a docker command" in facts.compose.why
        found = "docker has no command compose" if absent else f"docker compose does not answer: {facts.compose.why}"
        yield Finding("FAIL", "compose", found, "install the Compose plug-in, version 2 (docker-compose-plugin)")
    elif _version(facts.compose) < COMPOSE_MINIMUM:
        found = f"Compose {facts.compose}, at least {_text(COMPOSE_MINIMUM)} is needed"
        yield Finding("FAIL", "compose", found, "install a newer Compose plug-in (docker-compose-plugin)")


def disk(facts: HostFacts, needs: Needs) -> Iterator[Finding]:
    """The image fits under Docker's root, with something to spare."""
    if isinstance(facts.disk, Unknown):
        if not isinstance(facts.docker, Unknown):
            found = f"the free space under Docker's root is not known: {facts.disk.why}"
            yield Finding("WARN", "disk", found, "look with df on the host")
        return
    wanted = needs.image_bytes + SPARE_BYTES
    if facts.disk.free_bytes < wanted:
        found = f"{_gib(facts.disk.free_bytes)} free under Docker's root ({facts.disk.path}), {_gib(wanted)} needed"
        yield Finding("FAIL", "disk", found, "make room: docker system df shows what images take, docker image prune")


def port(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """Nobody else listens where the exporter will."""
    if isinstance(facts.ports, Unknown) or host.exporter_port not in facts.ports:
        return
    ours = () if isinstance(facts.containers, Unknown) else facts.containers
    if any(host.exporter_port in container.ports and container.state == "running" for container in ours):
        return
    number = host.exporter_port
    found = f"port {number} is taken by something that is not voxyard's"
    remedy = f"stop it (sudo ss -ltnp 'sport = :{number}' names it), or set another exporter_port in the inventory"
    yield Finding("FAIL", "port", found, remedy)


def clock(facts: HostFacts) -> Iterator[Finding]:
    """The host's clock is near the operator's."""
    if isinstance(facts.clock_skew, Unknown):
        found = f"the clock cannot be read: {facts.clock_skew.why}"
        yield Finding("WARN", "clock", found, "look with date on the host")
    elif abs(facts.clock_skew) > SKEW_SECONDS:
        way = "ahead of" if facts.clock_skew > 0 else "behind"
        found = f"the clock is {abs(facts.clock_skew):.1f} s {way} yours"
        yield Finding("WARN", "clock", found, "let the host (or this machine) synchronise: timedatectl set-ntp true")


def login(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """The login says who it is; root is more than a deployment needs."""
    if isinstance(facts.login, Unknown):
        remedy = f"the login shell must run commands and say nothing of its own: ssh {host.user}@{host.address} true"
        yield Finding("FAIL", "login", f"the login is not understood: {facts.login.why}", remedy)
    elif facts.login.uid == 0:
        remedy = "make a user of its own in the group docker, and name it as user in the inventory"
        yield Finding("INFO", "login", "the remote user is root, more than is needed", remedy)


def _version(text: str) -> tuple[int, ...]:
    """`20.10.24+dfsg1` as (20, 10, 24)."""
    return tuple(int(number) for number in re.findall(r"\d+", re.split(r"[+~-]", text)[0])[:3])


def _text(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version)


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
