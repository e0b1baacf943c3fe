"""Facts about the machine: login, clock, ports, disks, Docker engine, containers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.facts.fact import Fact, UnexpectedError
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
    storage: str = ""  # driver of its images
    backing: str = ""  # file system below that, in its words
    in_containerd: bool = False  # its images are in containerd's directory, not below `root`

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
    free_files: int | None = None  # inodes; None: it makes them as it needs them, or does not tell


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """memlock limit of the engine; `raises`: it has the capability to raise it."""

    locked_bytes: int | None  # None: unlimited
    raises: bool


@dataclass(frozen=True, slots=True)
class Container:
    """Container of voxyard: of a service, or of a training run."""

    id: str
    name: str
    service: str
    release: str
    config: str  # configuration hash
    image: str  # as in the compose file
    image_id: str
    state: str  # running, exited, restarting, …
    health: str | None  # starting, healthy, unhealthy; None: it has no health check, and what it answers decides
    started: str
    exit_code: int = 0
    restarts: int = 0  # by the engine, since its creation
    out_of_memory: bool = False  # killed by the kernel
    run: str = ""  # training run that it is of
    finished: str = ""
    ports: tuple[int, ...] = ()  # on the host
    host_network: bool = False  # network mode host

    @property
    def alive(self) -> bool:
        """True while its process exists."""
        return self.state in ("running", "restarting", "paused")

    @property
    def healthy(self) -> bool:
        """True where it runs, and its health check, where it has one, says so."""
        return self.state == "running" and self.health in ("healthy", None)

    @property
    def starting(self) -> bool:
        """True while its health check is starting."""
        return self.state == "running" and self.health == "starting"

    @property
    def description(self) -> str:
        """State, health and exit code as text."""
        ended = f", {describe_exit(self.exit_code, out_of_memory=self.out_of_memory)}" if self.ended else ""
        return f"{self.state}, health: {self.health or 'no health check'}{ended}"

    @property
    def ended(self) -> bool:
        """True where its process has exited, even if the engine restarts it."""
        return self.state in ("exited", "dead", "restarting")


@dataclass(frozen=True, slots=True)
class HostImage:
    """Image on the host."""

    id: str
    names: frozenset[str]  # tags, and references with digest
    layers: tuple[str, ...]


def describe_exit(code: int | str, *, out_of_memory: bool) -> str:
    """Exit code as text."""
    return f"exit code {code}{', out of memory (OOM)' if out_of_memory else ''}"


def container_of(containers: Iterable[Container], service: str) -> Container | None:
    """Container of the service; the running one of several."""
    found = [each for each in containers if each.service == service]
    return min(found, key=lambda each: each.state != "running", default=None)


def _login(text: str) -> Login:
    uid, home, connection, *more = *text.splitlines(), ""
    if more != [""] or len(connection.split()) != 4:
        raise UnexpectedError("expected a user, a home and SSH_CONNECTION, which sshd sets")
    return Login(int(uid), home, connection.split()[2])


def _state(text: str) -> State:
    folder, at, writable, boot, stat, df = text.splitlines()
    device, inode, changed = stat.split()
    row = re.match(r"(.+?)\s+(\S+)\s+\d+\s+\d+\s+-?\d+\s+\S+\s+/", df)
    if row is None:
        raise UnexpectedError("expected a line of df")
    return State(folder, at, writable == "writable", boot, device, inode, changed, row[2], row[1])


def _clock(text: str) -> float:
    return float(text.strip().removesuffix(".%N"))  # BusyBox has no nanoseconds


def _ports(text: str) -> frozenset[int]:
    rows = [row.split() for row in text.splitlines()]
    if not any(row[:1] == ["sl"] for row in rows):
        raise UnexpectedError("expected the table of /proc/net/tcp")
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
        raise UnexpectedError("Podman answers in place of Docker")
    if not version.get("Server"):
        raise UnexpectedError("no Docker Engine answers")
    if errors := info.get("ServerErrors"):
        raise UnexpectedError("; ".join(errors))
    status = dict(each[:2] for each in info.get("DriverStatus") or ())
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
        storage=info.get("Driver", ""),
        backing=status.get("Backing Filesystem", ""),
        in_containerd=status.get("driver-type", "").startswith("io.containerd.snapshotter"),
    )


def _compose(text: str) -> str:
    version = text.strip().removeprefix("v")
    if not version[:1].isdigit():
        raise UnexpectedError("expected a version")
    return version


def _toolkit(text: str) -> Toolkit:
    words = text.split()
    return Toolkit("hook" in words, "runtime" in words, "cdi" in words, "links" in words)


def _disk(text: str) -> Disk:
    rows = [row for line in text.splitlines() if (row := _DF.fullmatch(line.rstrip()))]
    if not rows:
        raise UnexpectedError("expected a line of df")
    blocks, files = rows[0], rows[1] if len(rows) > 1 else None
    free = int(files[2]) if files is not None and int(files[1]) else None
    return Disk(blocks[3], int(blocks[1]) * 1024, int(blocks[2]) * 1024, free)


def _images(text: str) -> tuple[HostImage, ...]:
    return tuple(_image(json.loads(line)) for line in text.splitlines() if line.strip())


def _image(found: Mapping[str, Any]) -> HostImage:
    names = frozenset([*(found["tags"] or ()), *(found["digests"] or ())])
    return HostImage(found["id"], names, tuple(found["layers"] or ()))


def _tools(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _engine_limits(text: str) -> EngineLimits:
    words = text.split()
    if len(words) != 2:
        raise UnexpectedError("expected a limit and a set of capabilities")
    locked = None if words[0] == "unlimited" else int(words[0])
    return EngineLimits(locked, bool(int(words[1], 16) >> _SYS_RESOURCE & 1))


def containers_of(text: str) -> tuple[Container, ...]:
    """Containers in the output of `docker inspect`. Raises LookupError, ValueError for another text."""
    return tuple(_container(each) for each in json.loads(text or "[]"))


def _container(found: Mapping[str, Any]) -> Container:
    labels, state, settings = found["Config"]["Labels"], found["State"], found.get("HostConfig") or {}
    bindings = (settings.get("PortBindings") or {}).values()
    return Container(
        id=found["Id"],
        name=found.get("Name", "").removeprefix("/"),
        service=labels.get(ROLE_LABEL, ""),
        release=labels.get(RELEASE_LABEL, ""),
        config=labels.get(CONFIG_LABEL, ""),
        image=found["Config"]["Image"],
        image_id=found["Image"],
        state=state["Status"],
        health=(state.get("Health") or {}).get("Status"),
        started=state["StartedAt"],
        exit_code=int(state.get("ExitCode", 0)),
        restarts=int(found.get("RestartCount", 0)),
        out_of_memory=bool(state.get("OOMKilled", False)),
        run=labels.get("voxyard.run", ""),
        finished=state.get("FinishedAt", ""),
        ports=tuple(int(each["HostPort"]) for binding in bindings for each in binding or () if each["HostPort"]),
        host_network=settings.get("NetworkMode") == "host",
    )


def _memory(text: str) -> int:
    (kib,) = [line.split()[1] for line in text.splitlines() if line.startswith("MemTotal:")]
    return int(kib) // 1024


_IMAGE = (
    '{"id": {{json .Id}}, "tags": {{json .RepoTags}}, "digests": {{json .RepoDigests}}, '
    '"layers": {{json .RootFS.Layers}}}'
)
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
IMAGES = Fact("images", verb("image_list", _IMAGE), _images, seconds=60)
PROGRAMS = Fact("programs", verb("fact_programs", *TOOLS, TLS_TOOL), _tools)
ENGINE_LIMITS = Fact("engine-limits", verb("fact_engine_limits"), _engine_limits)
CONTAINERS = Fact("containers", verb("container_inspect", ROLE_LABEL), containers_of)
