"""Facts about the machine: login, clock, ports, disks, Docker engine, containers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.facts.fact import Fact
from fleet.ssh.command_batch import verb

RELEASE_LABEL = "voxyard.release"
ROLE_LABEL = "voxyard.role"
CONFIG_LABEL = "voxyard.config"
_SYS_RESOURCE = 24  # linux/capability.h
TOOLS = ("bash", "flock", "rsync", "sha256sum", "tar")
TLS_TOOL = "openssl"
"""Needed where services speak TLS."""
_NETWORK = (
    "nfs",
    "cifs",
    "smb",
    "lustre",
    "ceph",
    "gpfs",
    "beegfs",
    "afs",
    "fuse.",
    "panfs",
    "9p",
    "virtiofs",
    "wekafs",
)
_DF = re.compile(r".+?\s+(\d+)\s+\d+\s+(-?\d+)\s+\S+\s+(/.*)")  # names of shares and directories may have blanks
_LISTEN = "0A"  # state LISTEN in /proc/net/tcp


@dataclass(frozen=True, slots=True)
class Login:
    """Login of the operator; `address` is the host's own address of the SSH connection."""

    uid: int
    home: str
    address: str


@dataclass(frozen=True, slots=True)
class State:
    """Directory of everything that a deployment keeps on the host, or the next one above it that is there.

    `writable`: the login can make and change files there. The others tell whether it is that of another host, too.
    """

    folder: str
    at: str
    writable: bool
    boot: str  # id of the running kernel
    device: str
    inode: str
    changed: str
    kind: str  # of the file system, as df names it
    source: str  # of the file system: a device, or an export of a server

    @property
    def over_a_network(self) -> bool:
        """True where the file system is, or may be, that of other machines, too."""
        return self.kind.lower().startswith(_NETWORK) or ":" in self.source or self.source.startswith("//")

    def is_that_of(self, other: State) -> bool:
        """True where both are one directory: on one machine, of one export, or of an export and its server."""
        if self.inode != other.inode:
            return False
        if self.boot == other.boot and self.device == other.device:
            return True
        if self.over_a_network and other.over_a_network and self.source == other.source:
            return True
        # Twins of one image have equal directories on disks of their own.
        return self.changed == other.changed and (self.over_a_network or other.over_a_network)


@dataclass(frozen=True, slots=True)
class Docker:
    """Docker engine: versions, data directory, cgroup driver, security options, and where it is."""

    client: str
    server: str
    root: str
    cgroup_driver: str
    architecture: str = ""  # as in uname -m
    security: frozenset[str] = frozenset()  # rootless, userns, selinux, …
    system: str = ""  # that the engine runs on, in its words
    program: str = ""  # path of `docker`
    endpoint: str = ""  # URL of the engine that `docker` talks to
    limits_memory: bool = True

    @property
    def of_snap(self) -> bool:
        """True where engine or program are snap's, which sees no hidden directory of a home."""
        return self.root.startswith("/var/snap/") or self.program.startswith("/snap/")

    @property
    def elsewhere(self) -> bool:
        """True where the engine is, or may be, that of another machine: by DOCKER_HOST, or by a context."""
        return bool(self.endpoint) and not self.endpoint.startswith("unix:")


@dataclass(frozen=True, slots=True)
class Toolkit:
    """NVIDIA container toolkit: hook, Docker runtime or CDI specification.

    `links`: True where /dev/char lists NVIDIA's devices; without it systemd revokes them at a reload.
    """

    hook: bool
    runtime: bool
    cdi: bool
    links: bool = False

    @property
    def present(self) -> bool:
        """True where containers can get GPUs."""
        return self.hook or self.runtime or self.cdi


@dataclass(frozen=True, slots=True)
class Disk:
    """File system of a directory; `path` is its mount point."""

    path: str
    size_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """memlock limit of the engine; `raises`: it has the capability to raise it."""

    locked_bytes: int | None  # None: unlimited
    raises: bool


@dataclass(frozen=True, slots=True)
class Container:
    """Container of voxyard."""

    name: str
    role: str
    release: str
    image_id: str
    state: str  # running, exited, restarting, …
    health: str | None  # starting, healthy, unhealthy; None: it has no health check
    started: str
    ports: tuple[int, ...]  # on the host
    config: str = ""  # configuration hash
    id: str = ""
    host_network: bool = False  # network mode host

    @property
    def healthy(self) -> bool:
        """True where it runs and is healthy."""
        return self.state == "running" and self.health == "healthy"


def _login(text: str) -> Login:
    uid, home, connection, *more = *text.splitlines(), ""
    if more != [""] or len(connection.split()) != 4:
        raise ValueError("expected a user, a home and SSH_CONNECTION, which sshd sets")
    return Login(int(uid), home, connection.split()[2])


def _state(text: str) -> State:
    folder, at, writable, boot, stat, df = text.splitlines()
    device, inode, changed = stat.split()
    row = re.match(r"(.+?)\s+(\S+)\s+\d+\s+\d+\s+-?\d+\s+\S+\s+/", df)
    if row is None:
        raise ValueError("expected a line of df")
    return State(folder, at, writable == "writable", boot, device, inode, changed, row[2], row[1])


def _clock(text: str) -> float:
    return float(text.strip().removesuffix(".%N"))  # BusyBox has no nanoseconds


def _ports(text: str) -> frozenset[int]:
    rows = [row.split() for row in text.splitlines()]
    if not any(row[:1] == ["sl"] for row in rows):
        raise ValueError("expected the table of /proc/net/tcp")
    return frozenset(int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == _LISTEN)


def _document(text: str) -> tuple[Any, str]:
    """JSON document that the text begins with, and what follows it."""
    text = text.lstrip()
    found, end = json.JSONDecoder().raw_decode(text)
    return found, text[end:]


def _docker(text: str) -> Docker:
    version, rest = _document(text[text.find("{") :])  # podman-docker may speak before it
    info, rest = _document(rest)
    more = rest.split()
    parts = (version.get("Server") or {}).get("Components") or ()
    if "RemoteAPIVersion" in version or "store" in info or any("podman" in str(each).lower() for each in parts):
        raise ValueError("Podman answers in place of Docker")
    if not version.get("Server"):
        raise ValueError("no Docker Engine answers")
    if errors := info.get("ServerErrors"):
        raise ValueError("; ".join(errors))
    options = (option.partition(",")[0] for option in info.get("SecurityOptions") or ())
    return Docker(
        client=version["Client"]["Version"],
        server=version["Server"]["Version"],
        root=info["DockerRootDir"],
        cgroup_driver=info.get("CgroupDriver", ""),
        architecture=info.get("Architecture", ""),
        security=frozenset(option.removeprefix("name=") for option in options),
        system=info.get("OperatingSystem", ""),
        program=next((each for each in more if "://" not in each), ""),
        endpoint=next((each for each in more if "://" in each), ""),
        limits_memory=info.get("MemoryLimit") is not False,
    )


def _compose(text: str) -> str:
    version = text.strip().removeprefix("v")
    if not version[:1].isdigit():
        raise ValueError("expected a version")
    return version


def _toolkit(text: str) -> Toolkit:
    words = text.split()
    return Toolkit("hook" in words, "runtime" in words, "cdi" in words, "links" in words)


def _disk(text: str) -> Disk:
    row = _DF.fullmatch(text.splitlines()[-1].rstrip())
    if row is None:
        raise ValueError("expected a line of df")
    return Disk(row[3], int(row[1]) * 1024, int(row[2]) * 1024)


def _images(text: str) -> frozenset[str]:
    found = frozenset(text.split())
    if odd := [each for each in found if not each.startswith("sha256:")]:
        raise ValueError(f"expected image ids, found {odd[0]}")
    return found


def _tools(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _engine_limits(text: str) -> EngineLimits:
    words = text.split()
    if len(words) != 2:
        raise ValueError("expected a limit and a set of capabilities")
    locked = None if words[0] == "unlimited" else int(words[0])
    return EngineLimits(locked, bool(int(words[1], 16) >> _SYS_RESOURCE & 1))


def _containers(text: str) -> tuple[Container, ...]:
    return tuple(_container(each) for each in json.loads(text or "[]"))


def _container(found: Mapping[str, Any]) -> Container:
    labels = found["Config"]["Labels"]
    bindings = (found["HostConfig"].get("PortBindings") or {}).values()
    return Container(
        name=found["Name"].removeprefix("/"),
        role=labels.get(ROLE_LABEL, ""),
        release=labels.get(RELEASE_LABEL, ""),
        image_id=found["Image"],
        state=found["State"]["Status"],
        health=(found["State"].get("Health") or {}).get("Status"),
        started=found["State"]["StartedAt"],
        ports=tuple(int(each["HostPort"]) for binding in bindings for each in binding or () if each["HostPort"]),
        config=labels.get(CONFIG_LABEL, ""),
        id=found.get("Id", ""),
        host_network=found["HostConfig"].get("NetworkMode") == "host",
    )


def _memory(text: str) -> int:
    (kib,) = [line.split()[1] for line in text.splitlines() if line.startswith("MemTotal:")]
    return int(kib) // 1024


LOGIN = Fact("login", verb("fact_login"), _login)
STATE = Fact("state", verb("fact_state"), _state)
CLOCK = Fact("clock", "date +%s.%N", _clock)  # seconds since the epoch
PORTS = Fact("ports", verb("fact_ports"), _ports)
DOCKER = Fact("docker", verb("fact_docker"), _docker)
COMPOSE = Fact("compose", "docker compose version --short", _compose)
TOOLKIT = Fact("toolkit", verb("fact_toolkit"), _toolkit)
DISK = Fact("disk", verb("fact_disk"), _disk)
MEMORY = Fact("memory", "cat /proc/meminfo", _memory)  # MiB
HOME_DISK = Fact("home-disk", verb("fact_home_disk"), _disk)
KEPT = Fact("kept", verb("fact_kept"), lambda text: int(text) * 1024)
IMAGES = Fact("images", "docker image ls --quiet --no-trunc", _images)
PROGRAMS = Fact("programs", verb("fact_programs", *TOOLS, TLS_TOOL), _tools)
ENGINE_LIMITS = Fact("engine-limits", verb("fact_engine_limits"), _engine_limits)
CONTAINERS = Fact("containers", verb("container_inspect", ROLE_LABEL), _containers)
