"""Preflight checks of a host, computed from its facts; contacts no host."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from fleet.checks import certificates, gpu_start, gpu_use, gpus, ray_clusters, shared_documents, space, state
from fleet.checks.finding import ALL_SERVICES, ON_GPUS, TRAINER, Finding, acknowledged, package
from fleet.checks.requirements import HostRequirements
from fleet.facts.fact import Unknown, known
from fleet.facts.host import HostFacts
from fleet.facts.machine import TOOLS, Docker
from fleet.images.third_party import MONITORING, NODE_EXPORTER
from fleet.inventory.hosts import Host
from fleet.release.gpu_assignment import Assignment

__all__ = ["HostRequirements", "preflight"]

DOCKER_MINIMUM = (20, 10)  # BuildKit in the engine, and the stop timeouts that Compose v2 relies on
COMPOSE_MINIMUM = (2, 24, 4)  # `!reset`, which removes the GPU reservation on hosts without GPUs
_COMPOSE = "apt-get -o DPkg::Lock::Timeout=600 satisfy --yes " + shlex.quote(
    " | ".join(
        f"{name} (>= {'.'.join(map(str, COMPOSE_MINIMUM))})"
        for name in ("docker-compose-plugin", "docker-compose-v2", "docker-compose")  # Docker's, Ubuntu's, Debian's
    )
)
_NO_PLUGIN = ("unknown flag", "not a docker command", "unknown command", "docker COMMAND --help")  # by Docker's age
_PACKAGES = {"flock": "util-linux", "sha256sum": "coreutils"}  # that have another name than their program
_BUSYBOX = ", or is BusyBox's, which knows too few options"
_AS = {"rsync": ", needed to copy corpora", "sha256sum": _BUSYBOX, "tar": _BUSYBOX}
_ENGINE = "install Docker Engine: apt-get install docker.io, or docs.docker.com/engine/install"
_NO_HOME_OF_IMAGES = ("nfs", "smb", "cifs")  # file systems, in Docker's words, that it does not support
SKEW_SECONDS = 2.0


def preflight(
    facts: HostFacts, host: Host, requirements: HostRequirements, assignment: Assignment
) -> tuple[Finding, ...]:
    """All findings, worst first; acknowledged warnings are marked."""
    found = (
        *login(facts, host),
        *state.check_all(facts, host),
        *programs(facts, host),
        *docker(facts, host, requirements),
        *compose(facts),
        *space.check_all(facts, host, requirements),
        *ports(facts, host),
        *clock(facts),
        *certificates.check_all(facts, host),
        *gpus.check_all(facts, host, requirements.cuda, assignment),
        *gpu_start.check_all(facts),
        *gpu_use.check_all(facts, assignment),
        *shared_documents.check_all(facts, host),
        *ray_clusters.check_all(facts, host),
    )
    return acknowledged(found, host)


def docker(facts: HostFacts, host: Host, requirements: HostRequirements) -> Iterator[Finding]:
    """Check: the engine answers, is recent enough, and maps users and files into containers."""
    if isinstance(facts.docker, Unknown):
        yield _no_docker(facts.docker.reason, host)
        return
    if () < _version(facts.docker.server) < DOCKER_MINIMUM:  # a build of the distribution may have no number
        found = f"Docker {facts.docker.server}, expected at least {_text(DOCKER_MINIMUM)}"
        yield Finding("FAIL", "docker", found, "install a newer Docker Engine")
    if (
        requirements.architecture
        and facts.docker.architecture
        and facts.docker.architecture != requirements.architecture
    ):
        found = f"the host is {facts.docker.architecture}, the images are built for {requirements.architecture}"
        yield Finding(
            "FAIL", "architecture", found, "build the images on a machine of that architecture, deploy with --host"
        )
    yield from _engine_of_this_host(facts.docker)
    for option, words in (("rootless", "runs rootless"), ("userns", "remaps users (userns-remap)")):
        if option in facts.docker.security:
            found = f"Docker {words}: containers cannot read the files of ~/.voxyard"
            remedy = "use a rootful Docker Engine, without userns-remap in /etc/docker/daemon.json"
            yield Finding("FAIL", "docker_users", found, remedy, services=(*ON_GPUS, *MONITORING))
    if "selinux" in facts.docker.security:
        found = "SELinux confines containers: mounts from the login's home may not be readable"
        yield Finding(
            "WARN", "selinux", found, "sudo semanage fcontext -a -t container_file_t '~/.voxyard(/.*)?', restorecon"
        )


def _no_docker(reason: str, host: Host) -> Finding:
    found, steps = f"docker does not answer: {reason}", tuple[str, ...]()
    remedy = "install and start Docker; `docker version` must work there"
    if re.search(r"docker: (command )?not found", reason):
        steps = (package("docker.io"),)
    elif re.search("(?i)cannot connect|failed to connect", reason):
        steps = ("systemctl enable --now docker",)
    elif "permission denied" in reason.lower():
        steps = (f"usermod --append --groups docker {shlex.quote(host.user)}",)
        remedy = f"add the user to the group docker there: sudo usermod -aG docker {host.user}; then log in again"
    elif re.search(r"client version \S+ is too (old|new)", reason):
        remedy = (
            "docker and its engine are of different ages: install both from one source (which -a docker shows which)"
        )
    elif "podman" in reason.lower():
        found = "Podman answers in place of Docker"
        remedy = f"remove podman-docker; {_ENGINE}: Podman starts neither our Compose files nor their GPU requests"
    return Finding("FAIL", "docker", found, remedy, steps=steps)


def _engine_of_this_host(engine: Docker) -> Iterator[Finding]:
    """Check: the engine is one of this host itself, which sees its files, GPUs and memory."""
    if engine.of_snap:
        found = "Docker is snap's, which cannot mount hidden directories such as ~/.voxyard"
        yield Finding("FAIL", "docker", found, f"sudo snap remove docker; {_ENGINE}")
    if engine.elsewhere:
        found = f"docker talks to the engine at {engine.endpoint}, not to one of this host"
        remedy = "docker context use default there, and no DOCKER_HOST in what the login's shell reads"
        yield Finding("FAIL", "docker", found, remedy)
    if not engine.limits_memory:
        found = "this kernel does not limit the memory of containers: a leak can take all of the host's"
        remedy = "cgroup_enable=memory on the kernel's command line (for example in /etc/default/grub), then reboot"
        yield Finding("WARN", "docker_limits", found, remedy)
    if engine.storage == "vfs" or engine.backing in _NO_HOME_OF_IMAGES:
        why = (
            f"are on {engine.backing}"
            if engine.storage != "vfs"
            else "have the storage driver vfs, which copies each layer"
        )
        found = f"Docker's images {why}: they take many times their space and time, or do not unpack"
        remedy = "data-root in /etc/docker/daemon.json on a disk of the host (ext4 or xfs), and no storage-driver there"
        yield Finding("WARN", "docker_storage", found, remedy)
    if engine.system == "Docker Desktop":
        found = "Docker Desktop runs containers in a virtual machine, without the GPUs"
        yield Finding("FAIL", "docker", found, f"remove it; {_ENGINE}")


def compose(facts: HostFacts) -> Iterator[Finding]:
    """Check: Compose v2 is installed as the plug-in `docker compose`."""
    if isinstance(facts.docker, Unknown):
        return
    if isinstance(facts.compose, Unknown):
        absent = any(words in facts.compose.reason for words in _NO_PLUGIN)
        found = (
            "docker compose is not installed" if absent else f"docker compose does not answer: {facts.compose.reason}"
        )
        remedy = "install the Compose plug-in, version 2 (docker-compose-plugin; older Debians have none)"
        yield Finding("FAIL", "compose", found, remedy, steps=(_COMPOSE,) if absent else ())
    elif _version(facts.compose) < COMPOSE_MINIMUM:
        found = f"Compose {facts.compose}, expected at least {_text(COMPOSE_MINIMUM)}"
        remedy = "install a newer Compose plug-in (docker-compose-plugin)"
        yield Finding("FAIL", "compose", found, remedy, steps=(_COMPOSE,))


def ports(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """Check: no foreign process listens on a port of our services."""
    if isinstance(facts.ports, Unknown):
        return
    running = [each for each in known(facts.containers, ()) if each.state == "running"]
    own = {port for each in running for port in each.ports}
    on_the_host = {each.service for each in running if each.host_network}
    for each in host.listeners:
        if each.port in facts.ports and each.port not in own and each.service not in on_the_host:
            found = f"port {each.port}, for {each.what}, is used by a foreign process"
            kept = "keep it with node_exporter: false, or " if each.service == NODE_EXPORTER else ""
            other = f", or {kept}change {each.key} in the inventory" if each.key else ""
            remedy = f"stop it (sudo ss -ltnp 'sport = :{each.port}' shows it){other}"
            yield Finding("FAIL", "port", found, remedy, services=(each.service,))


def clock(facts: HostFacts) -> Iterator[Finding]:
    """Check: the host's clock agrees with the operator's."""
    if isinstance(facts.clock_skew, Unknown):
        found = f"the clock cannot be read: {facts.clock_skew.reason}"
        yield Finding("WARN", "clock", found, "check date on the host")
    elif abs(facts.clock_skew) > SKEW_SECONDS:
        direction = "ahead of" if facts.clock_skew > 0 else "behind"
        found = f"the clock is {abs(facts.clock_skew):.1f} s {direction} yours"
        yield Finding(
            "WARN",
            "clock",
            found,
            "enable time synchronisation: timedatectl set-ntp true (on the host or this machine)",
        )


def login(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """Check: the login works; it need not be root."""
    remedy = "create a user in the group docker, and name it as user in the inventory"
    if isinstance(facts.login, Unknown):
        shell = f"the login shell must run commands and print nothing itself: ssh {host.user}@{host.address} true"
        yield Finding("FAIL", "login", f"unexpected output of the login shell: {facts.login.reason}", shell)
    elif facts.login.uid == 0:
        yield Finding("INFO", "login", "the remote user is root, which is not required", remedy)


def programs(facts: HostFacts, host: Host) -> Iterator[Finding]:
    """Check: the programs that a deployment needs are installed."""
    if isinstance(facts.programs, Unknown):
        yield Finding(
            "WARN", "programs", f"installed programs are not known: {facts.programs.reason}", "log in and check"
        )
        return
    for name in (name for name in TOOLS if name not in facts.programs):
        if name == "rsync" and "trainer" not in host.roles:
            continue
        services = (TRAINER,) if name == "rsync" else ALL_SERVICES
        found = f"{name} is not installed{_AS.get(name, '')}"
        remedy, step = f"install the package that contains {name}", package(_PACKAGES.get(name, name))
        yield Finding("FAIL", "programs", found, remedy, services=services, steps=(step,))


def _version(text: str) -> tuple[int, ...]:
    """`20.10.24+dfsg1` as (20, 10, 24)."""
    return tuple(int(number) for number in re.findall(r"\d+", re.split(r"[+~-]", text)[0])[:3])


def _text(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version)
