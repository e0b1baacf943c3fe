"""Simulated hosts: answer the commands of a rollout with realistic delays on a leaping clock."""

from __future__ import annotations

import base64
import hashlib
import heapq
import io
import itertools
import json
import os
import random
import re
import shlex
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from release_doubles import packed

from fleet.inventory.hosts import Host
from fleet.ssh.command_batch import Answer, Command
from fleet.ssh.connection_pool import Session

TOPOLOGY = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-15\t0\nGPU1\tPIX\t X \t0-15\t0\n"
P2P = " \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n"
HTTP = "HTTP/1.0 {}\r\n\r\nvoxyard_simulated 1.0\n"
GONE = Answer("", "nothing listens", 1)
_RELEASE = re.compile(r"releases/([0-9a-f]{12})")


@dataclass(frozen=True)
class HostSpeed:
    """Speed of one host, in seconds of simulated time and bytes per second."""

    connect: float
    exchange: float  # there and back
    command: float  # what a command takes, beside what it does
    bytes_per_second: float
    healthy: Mapping[str, float]  # by service, from its start on
    stop: float

    @classmethod
    def sampled(cls, rng: random.Random) -> HostSpeed:
        """Random host: most are average, some are slow."""
        slow = rng.lognormvariate(0.0, 0.3)
        return cls(
            connect=rng.uniform(0.05, 0.3),
            exchange=rng.uniform(0.005, 0.05),
            command=rng.uniform(0.01, 0.05) * slow,
            bytes_per_second=110e6 / slow,
            healthy={"exporter": 6.0 * slow, "bark": 35.0 * slow},
            stop=rng.uniform(1.0, 5.0),
        )


class LeapingClock:
    """Simulated clock that leaps to the next event when all threads of this process wait.

    Computation takes no simulated time. It runs inside its context manager.
    """

    _LOOK = 0.0003  # seconds between two looks at the threads

    def __init__(self) -> None:
        self.time = 0.0
        self.leaps = 0
        self._sleepers: list[tuple[float, int, threading.Event]] = []
        self._order = itertools.count()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._leap, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def now(self) -> float:
        """Seconds since the beginning."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""
        woken = threading.Event()
        with self._lock:
            heapq.heappush(self._sleepers, (self.time + seconds, next(self._order), woken))
        woken.wait()

    def _leap(self) -> None:
        quiet_since = -1
        while not self._over.wait(self._LOOK):
            asked = next(self._order)
            if _others_wait() and asked == quiet_since + 1:  # twice, and nobody has lain down in between
                with self._lock:
                    if self._sleepers:
                        self.time, _, woken = heapq.heappop(self._sleepers)
                        self.leaps += 1
                        woken.set()
            quiet_since = asked


def _others_wait() -> bool:
    """True where all other threads of this process wait (state S, not R or D)."""
    own = threading.get_native_id()
    for name in os.listdir("/proc/self/task"):  # noqa: PTH208 - thousands of times
        if int(name) != own:
            try:
                with open(f"/proc/self/task/{name}/stat", encoding="utf-8") as file:  # noqa: PTH123
                    if file.read().rpartition(")")[2].split()[0] != "S":
                        return False
            except (FileNotFoundError, ProcessLookupError):
                continue
    return True


@dataclass
class SimulatedHost:
    """Simulated host: state and answers; `image_bytes` scales the size of image archives."""

    host: Host
    speed: HostSpeed
    clock: LeapingClock
    image_bytes: Callable[[int], float]
    images: list[dict[str, Any]] = field(default_factory=list)
    known: Mapping[int, dict[str, Any]] = field(default_factory=dict)  # images by the length of their archive
    releases: dict[str, dict[str, bytes]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    healthy_at: dict[str, float] = field(default_factory=dict)
    secrets: dict[str, bytes] = field(default_factory=dict)
    artefacts: set[str] = field(default_factory=set)
    expected: str = ""
    lock: str | None = None
    audit: list[str] = field(default_factory=list)
    asked: int = 0
    waited: float = 0.0  # seconds of its time, in all that it was asked

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        """One exchange."""
        self._spend(self.speed.exchange + self.speed.command * len(commands))
        return {command.name: self._answer(command) for command in commands}

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        """One exchange in which the host is sent something."""
        self._spend(self.speed.exchange)
        self.asked += 1
        if command.name == "load-image":
            return self._load(data)
        body = b"".join(data)
        self._spend(len(body) / self.speed.bytes_per_second + self.speed.command)
        return self._written(command, body)

    @contextmanager
    def connect(self) -> Iterator[Session]:
        """A connection to it."""
        self._spend(self.speed.connect)
        yield self

    def _spend(self, seconds: float) -> None:
        self.waited += seconds
        self.clock.sleep(seconds)

    def _load(self, data: Iterable[bytes]) -> Answer:
        count = 0
        for chunk in data:
            count += len(chunk)
            self._spend(self.image_bytes(len(chunk)) / self.speed.bytes_per_second)
        self.images.append(self.known[count])
        return Answer("Loaded image\n")

    def _written(self, command: Command, body: bytes) -> Answer:
        if command.name == "artefact-write":
            self.artefacts |= set(re.findall(r"(?:weights|voices)-[0-9a-f]{12}", command.text))
            return Answer("")
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            files = {each.name: (archive.extractfile(each) or io.BytesIO()).read() for each in archive}
        if command.name == "secrets-write":
            self.secrets |= {name: value for name, value in files.items() if name != ".sha256"}
        elif command.name == "release-write":
            self.releases[_words(command)[1]] = files
        else:
            raise AssertionError(f"the simulated host knows no {command.name}, for which it got {sorted(files)}")
        return Answer("")

    def _answer(self, command: Command) -> Answer:
        self.asked += 1
        if command.name in _ALWAYS:
            return Answer(_ALWAYS[command.name])
        kind = command.name.partition("-")[0] if command.name.startswith(("ready-", "metrics-")) else command.name
        answer: Answer = getattr(self, f"_{kind.replace('-', '_')}")(command)
        return answer

    # -- answers, by command name ------------------------------------------

    def _login(self, _: Command) -> Answer:
        return Answer(f"1000\n/home/voxyard\n203.0.113.1 50000 {self.host.address} 22\n")

    def _state(self, _: Command) -> Answer:
        place = "/home/voxyard/.voxyard\n/home/voxyard\nwritable\n"
        return Answer(f"{place}boot-{self.host.name}\n2049 2 1.0\n/dev/sda1 ext4 1 1 1 1% /home\n")

    def _clock(self, _: Command) -> Answer:
        return Answer(f"{time.time()}\n")

    def _images(self, _: Command) -> Answer:
        return Answer("".join(f"{json.dumps(each)}\n" for each in self.images))

    def _current(self, _: Command) -> Answer:
        return Answer(self._link("current"))

    def _previous(self, _: Command) -> Answer:
        return Answer(self._link("previous"))

    def _link(self, name: str) -> str:
        return f"releases/{self.links[name]}\n" if name in self.links else ""

    def _checksums(self, command: Command) -> Answer:
        files = self.releases.get(_words(command)[1], {})
        return Answer("".join(f"{_sum(body)}  {name}\n" for name, body in files.items()))

    def _current_files(self, _: Command) -> Answer:
        files = self.releases.get(self.links.get("current", ""), {})
        return Answer(base64.b64encode(packed(files)).decode() if files else "")

    def _artefacts(self, _: Command) -> Answer:
        return Answer("".join(f"{name}\n" for name in self.artefacts))

    def _secrets(self, _: Command) -> Answer:
        return Answer("".join(f"600\n{_sum(value)}  {name}\n" for name, value in self.secrets.items()))

    def _expected(self, _: Command) -> Answer:
        return Answer(self.expected)

    def _lock(self, command: Command) -> Answer:
        verb, *arguments = _words(command)
        if verb == "lock_show":
            return Answer("" if self.lock is None else f"{self.lock}\n{time.time():.0f}\n")
        if self.lock is not None:
            return Answer(f"{self.lock}\n{time.time():.0f}\n", "", 75)
        content = json.dumps({"owner": "a@b", "reason": "deploy", "token": arguments[1]})
        self.lock = f"{content}\n\n{time.time():.0f}"
        return Answer("")

    def _give_lock_back(self, _: Command) -> Answer:
        self.lock = None
        return Answer("")

    def _services(self, _: Command) -> Answer:
        return Answer(json.dumps([self._now(name) for name in self.containers]))

    def _now(self, service: str) -> dict[str, Any]:
        found = self.containers[service]
        if found["State"]["Status"] == "running":
            well = self.clock.now() >= self.healthy_at[service]
            found["State"]["Health"] = {"Status": "healthy" if well else "starting"}
        return found

    def _ready(self, command: Command) -> Answer:
        service = command.name.partition("-")[2]
        if service not in self.containers:
            return GONE
        well = self._now(service)["State"]["Health"]["Status"] == "healthy"
        return Answer(HTTP.format("200 OK" if well else "503 Service Unavailable"))

    _metrics = _ready

    def _service_stop(self, command: Command) -> Answer:
        service = _words(command)[1]
        if service in self.containers:
            self._spend(self.speed.stop)
            self.containers[service]["State"] = {"Status": "exited", "StartedAt": "", "Health": None}
        return Answer("")

    def _service_start(self, command: Command) -> Answer:
        _, release, _, service, *_ = _words(command)
        entry = json.loads(self.releases[release]["release.json"])["services"][service]
        labels = {"voxyard.role": service, "voxyard.release": release, "voxyard.config": entry["config"]}
        self.healthy_at[service] = self.clock.now() + self.speed.healthy[service]
        self.containers[service] = {
            "Id": _sum(f"{service}{self.clock.now()}".encode()),
            "Name": f"/voxyard-{service}-1",
            "Image": entry["image_id"],
            "Config": {"Image": entry["image"], "Labels": labels},
            "HostConfig": {"PortBindings": {"1/tcp": [{"HostPort": str(entry["port"])}]}},
            "State": {"Status": "running", "StartedAt": f"{self.clock.now():.3f}"},
        }
        return Answer("")

    def _release_publish(self, command: Command) -> Answer:
        _, release, self.expected, *before = _words(command)
        self.links |= dict(zip(("current", "previous"), (release, *before), strict=False))
        return Answer("")

    def _audit(self, command: Command) -> Answer:
        self.audit.append(command.text)
        return Answer("")

    def _releases(self, _: Command) -> Answer:
        pairs = reversed(self.releases.items())
        lines = (f"{name} {base64.b64encode(files['release.json']).decode()}\n" for name, files in pairs)
        return Answer("".join(lines))

    def _in_use(self, _: Command) -> Answer:
        rows = [
            {"image": each["Image"], "name": each["Config"]["Image"], "labels": each["Config"]["Labels"], "mounts": []}
            for each in self.containers.values()
        ]
        return Answer("".join(f"{json.dumps(row)}\n" for row in rows))

    def _prune_remove(self, command: Command) -> Answer:
        for release in _RELEASE.findall(command.text):
            self.releases.pop(release, None)
        return Answer("")


def _words(command: Command) -> list[str]:
    """Verb of the host script, and its arguments."""
    return shlex.split(command.text)[1:]


def _sum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


_GPUS = (
    "{0}, GPU-0000000{0}-aaaa-bbbb-cccc-000000000000, NVIDIA GeForce RTX 4090, 580.65.06, 00000000:0{1}:00.0, "
    "24564, 24100, Default, Enabled\n"
)
_DISK = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/nvme0n1 1900000000 1 1800000000 1% {}\n"
_ALWAYS = {
    "memory": "MemTotal:       131072000 kB\n",
    "gpus": _GPUS.format(0, 1) + _GPUS.format(1, 2),
    "gpu-health": "0, [N/A], [N/A], 16, 16\n1, [N/A], [N/A], 16, 16\n",
    "gpu-remaps": "",
    "gpu-clocks": "0, 0x1\n1, 0x1\n",
    "gpu-capabilities": "0, 8.9\n1, 8.9\n",
    "topology": TOPOLOGY,
    "p2p": P2P,
    "gpu-processes": "",
    "numa": "1\n",
    "xids": "1000.0\n",
    "docker": '{"Client": {"Version": "28.0"}, "Server": {"Version": "28.0"}}\n{"DockerRootDir": "/var/lib/docker"}\n',
    "compose": "2.35.0\n",
    "loaded": "",
    "gpu-recovery": "",
    "out-of-work": '{"gpus": []}',
    "maintenance-end": "",
    "gpu-start": "",
    "toolkit": "hook\nruntime\ncdi\n",
    "disk": _DISK.format("/var/lib/docker"),
    "home-disk": _DISK.format("/home"),
    "kept": "0\n",
    "engine-limits": "unlimited\n000001ffffffffff\n",
    "ports": "  sl  local_address rem_address   st\n",
    "programs": "bash\nflock\nrsync\nsha256sum\ntar\n",
    "containers": "[]",
    "changed-files": "",
    "artefact-partial": "",
    "processes": "PID\n",
    "named-by-runs": "",
    "runs": "",
    "run-containers": "[]",
    "run-logs": "",
}


class SimulatedFleet:
    """Simulated hosts of an inventory with random speeds; `connect` is for `fleet.ssh.connection_pool.Connections`."""

    def __init__(
        self,
        hosts: Sequence[Host],
        clock: LeapingClock,
        archives: Mapping[int, dict[str, Any]],
        factor: float,
        seed: int,
    ) -> None:
        """`archives`: images as a host lists them, by the length of their archives, a byte of which is `factor`."""
        rng = random.Random(seed)
        self.clock = clock
        self.hosts = {
            host.name: SimulatedHost(host, HostSpeed.sampled(rng), clock, lambda count: count * factor, known=archives)
            for host in hosts
        }
        self._lock = threading.Lock()
        self.open = self.most_open = 0

    @contextmanager
    def connect(self, host: Host) -> Iterator[Session]:
        """Open a connection; counts concurrent ones."""
        with self._lock:
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        try:
            with self.hosts[host.name].connect() as session:
                yield session
        finally:
            with self._lock:
                self.open -= 1
