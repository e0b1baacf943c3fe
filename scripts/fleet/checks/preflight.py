"""Preflight: reasons against running on a host, from its facts alone. Nothing here asks or changes a host."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleet.checks import gpu_use, gpus, space
from fleet.checks.finding import ALL_SERVICES, BARK, EXPORTER, MONITORING, ON_GPUS, TRAINER, Finding, acknowledged
from fleet.checks.requirements import HostRequirements
from fleet.facts.fact import Unknown, known
from fleet.facts.host import HostFacts
from fleet.facts.machine import TOOLS
from fleet.inventory.hosts import Host
from fleet.release.gpu_assignment import Assignment

__all__ = ["HostRequirements", "preflight"]

DOCKER_MINIMUM = (20, 10)  # BuildKit in the engine, and the stop timeouts that Compose v2 relies on
COMPOSE_MINIMUM = (2, 24, 4)  # `!reset`, with which a host without GPUs takes back their reservation
SKEW_SECONDS = 2.0
# Whose port it is, by the words of Host.ports; all else is monitoring's.
_LISTENERS = {"the exporter": EXPORTER, "the speech service": BARK, "a training run's metrics": TRAINER}


def preflight(
    facts: HostFacts, host: Host, requirements: HostRequirements, assignment: Assignment
) -> tuple[Finding, ...]:
    """Everything found, worst first; the inventory's acknowledged warnings are marked."""
    found = (
        *login(facts, host),
        *programs(facts, host),
        *docker(facts, host, requirements),
        *compose(facts),
        *space.check_all(facts, host, requirements),
        *ports(facts, host),
        *clock(facts),
        *gpus.check_all(facts, host, requirements.cuda, assignment),
        *gpu_use.check_all(facts, assignment),
    )
    return acknowledged(found, host)


def docker(facts: HostFacts, host: Host, requirements: HostRequirements) -> Iterator[Finding]:
    """The engine answers this user, is not too old, and runs containers as this user on this user's files."""
    if isinstance(facts.docker, Unknown):
        remedy = "install Docker, start it, and see that `docker version` works there"
        if "permission denied" in facts.docker.reason.lower():
            remedy = f"add the user to the group docker there: sudo usermod -aG docker {host.user}; then log in anew"
        yield Finding("FAIL", "docker", f"docker does not answer: {facts.docker.reason}", remedy)
        return
    if _version(facts.docker.server) < DOCKER_MINIMUM:
        found = f"Docker {facts.docker.server}, at least {_text(DOCKER_MINIMUM)} is needed"
        yield Finding("FAIL", "docker", found, "install a newer Docker Engine")
    if (
        requirements.architecture
        and facts.docker.architecture
        and facts.docker.architecture != requirements.architecture
    ):
        found = f"the host is {facts.docker.architecture}, the images are made for {requirements.architecture}"
        yield Finding("FAIL", "architecture", found, "build the images on a machine like the host, deploy it by --host")
    for option, words in (("rootless", "runs without root"), ("userns", "maps users (userns-remap)")):
        if option in facts.docker.security:
            found = f"Docker {words}: in a container the login is another user, and cannot read its own files"
            remedy = "let a Docker Engine of root's serve the host, without userns-remap in /etc/docker/daemon.json"
            yield Finding("FAIL", "docker_users", found, remedy, services=ON_GPUS)
    if "selinux" in facts.docker.security:
        found = "Docker confines containers by SELinux: what is mounted from the login's home may not be readable"
        yield Finding(
            "WARN", "selinux", found, "sudo semanage fcontext -a -t container_file_t '~/.voxyard(/.*)?', restorecon"
        )


def compose(facts: HostFacts) -> Iterator[Finding]:
    """Compose v2 is there, as the plug-in `docker compose`."""
    if isinstance(facts.docker, Unknown):
        return
    if isinstance(facts.compose, Unknown):
        absent = "unknown flag" in facts.compose.reason or "not a docker command" in facts.compose.reason
        found = "docker has no command compose" if absent else f"docker compose does not answer: {facts.compose.reason}"
        yield Finding("FAIL", "compose", found, "install the Compose plug-in, version 2 (docker-compose-plugin)")
    elif _version(facts.compose) < COMPOSE_MINIMUM:
        found = f"Compose {facts.compose}, at least {_text(COMPOSE_MINIMUM)} is needed"
        yield Finding("FAIL", "compose", found, "install a newer Compose plug-in (docker-compose-plugin)")


def ports(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """Nobody else listens where a service of ours will."""
    if isinstance(facts.ports, Unknown):
        return
    running = [each for each in known(facts.containers, ()) if each.state == "running"]
    held = {port for each in running for port in each.ports}
    on_the_host = {each.role for each in running if each.host_network}
    for listener, number in host.ports.items():
        service = _LISTENERS.get(listener, MONITORING)
        if number in facts.ports and number not in held and service not in on_the_host:
            found = f"port {number}, for {listener}, is taken by something that is not voxyard's"
            remedy = f"stop it (sudo ss -ltnp 'sport = :{number}' names it){_other_port(service)}"
            yield Finding("FAIL", "port", found, remedy, services=(service,))


def clock(facts: HostFacts) -> Iterator[Finding]:
    """The host's clock is near the operator's."""
    if isinstance(facts.clock_skew, Unknown):
        found = f"the clock cannot be read: {facts.clock_skew.reason}"
        yield Finding("WARN", "clock", found, "look with date on the host")
    elif abs(facts.clock_skew) > SKEW_SECONDS:
        way = "ahead of" if facts.clock_skew > 0 else "behind"
        found = f"the clock is {abs(facts.clock_skew):.1f} s {way} yours"
        yield Finding("WARN", "clock", found, "let the host (or this machine) synchronise: timedatectl set-ntp true")


def login(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """The login says who it is. As root, what speaks and trains would run as root too, on files of root's."""
    remedy = "make a user of its own in the group docker, and name it as user in the inventory"
    if isinstance(facts.login, Unknown):
        shell = f"the login shell must run commands and say nothing of its own: ssh {host.user}@{host.address} true"
        yield Finding("FAIL", "login", f"the login is not understood: {facts.login.reason}", shell)
    elif facts.login.uid == 0 and {"trainer", "bark"} & set(host.roles):
        found = "the remote user is root, and containers run as the remote user"
        yield Finding("FAIL", "login", found, remedy, services=ON_GPUS)
    elif facts.login.uid == 0:
        yield Finding("INFO", "login", "the remote user is root, more than is needed", remedy)


def programs(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """Check: the programs that a deployment calls on the host are there."""
    if isinstance(facts.programs, Unknown):
        yield Finding(
            "WARN", "programs", f"it is not known which programs are there: {facts.programs.reason}", "log in and look"
        )
        return
    for name in (name for name in TOOLS if name not in facts.programs):
        if name == "rsync" and "trainer" not in host.roles:
            continue
        services = (TRAINER,) if name == "rsync" else ALL_SERVICES
        found = f"{name} is not there" + (", with which a corpus comes to the host" if name == "rsync" else "")
        yield Finding("FAIL", "programs", found, f"install the package of {name} there", services=services)


def _other_port(service: str) -> str:
    names = {EXPORTER: "exporter_port", BARK: "bark.port", TRAINER: "trainer.metrics_port"}
    return f", or set another {names[service]} in the inventory" if service in names else ""


def _version(text: str) -> tuple[int, ...]:
    """`20.10.24+dfsg1` as (20, 10, 24)."""
    return tuple(int(number) for number in re.findall(r"\d+", re.split(r"[+~-]", text)[0])[:3])


def _text(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version)
