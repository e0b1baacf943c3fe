"""GPU host as a container: sshd, a Docker engine inside, a replayed NVIDIA driver."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from scenario import GpuState, Scenario
from tests.fleet.bed import gpus, images
from tests.fleet.bed.engine import NETWORK, Engine
from tests.fleet.bed.errors import BedError
from tests.fleet.bed.gpus import Failure, Links
from tests.fleet.bed.programs import find, run, wait_until

INSIDE = Path(__file__).with_name("inside")
USER, PORT = "voxyard", 22
READY_SECONDS = 180
_CONFINEMENT = (
    # All that an engine inside needs, without --privileged, which asks for CAP_SYS_RESOURCE: not every machine has it.
    *("--cgroupns", "host", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup:rw"),
    *("--cap-add", "ALL", "--cap-drop", "SYS_RESOURCE"),
    *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
    *("--security-opt", "systempaths=unconfined"),
    *("--volume", "/var/lib/docker"),  # overlay does not lie on overlay
    *("--shm-size", "2g"),
)


@dataclass(frozen=True)
class HookCall:
    """Container as the container toolkit's hook saw it."""

    container: str
    visible_devices: str
    capabilities: str


@dataclass(frozen=True)
class HostSpec:
    """Initial state of a host; without `gpus`, it has two consumer cards that are PHB apart.

    Without `toolkit` its engine gives no GPUs to containers. With `mount_driver` the hook puts the library and
    nvidia-smi into containers that ask for GPUs, as the real one does. `docker_disk`, such as `2g`, is the size of a
    file system of its own under Docker's root, in memory: `faults.low_disk` can make it smaller.
    """

    name: str = "gpu-01"
    gpus: Scenario | Sequence[GpuState] | None = None
    links: Links | None = None
    p2p: Links | None = None
    toolkit: bool = True
    mount_driver: bool = False
    docker_disk: str | None = None
    image: str = images.HOST

    @property
    def scenario(self) -> Scenario:
        """Its GPUs."""
        if isinstance(self.gpus, Scenario):
            return self.gpus
        return Scenario([GpuState.consumer(0), GpuState.consumer(1)] if self.gpus is None else self.gpus)

    @property
    def pairs(self) -> Links:
        """Links between its GPUs."""
        return ({(0, 1): "PHB"} if self.gpus is None else {}) if self.links is None else self.links


def three(*, mount_driver: bool = True, docker_disk: str | None = None) -> tuple[HostSpec, HostSpec, HostSpec]:
    """The fleet of three that a rollout is tried on: a PIX pair, a SYS pair, and a host with one GPU."""
    cards = [GpuState.consumer(0), GpuState.consumer(1)]
    pix = HostSpec("gpu-pix", cards, {(0, 1): "PIX"})
    others = HostSpec("gpu-sys", cards, {(0, 1): "SYS"}), HostSpec("gpu-one", cards[:1])
    one, two, last = (replace(each, mount_driver=mount_driver, docker_disk=docker_disk) for each in (pix, *others))
    return one, two, last


@dataclass(frozen=True)
class GpuHost:
    """A running host. It is reached at `address` with `key_path` as `user`; `known_hosts` holds its key."""

    name: str
    engine: Engine
    address: str
    key_path: Path
    known_hosts: Path
    nvidia: Path  # on this machine; in the host it is /opt/nvidia
    began: HostSpec = field(default_factory=HostSpec, repr=False)
    user: str = USER
    port: int = PORT

    @property
    def container(self) -> str:
        """The name of its container in the outer engine."""
        return container_name(self.name)

    @property
    def captures(self) -> Path:
        """Folder that its nvidia-smi replays: gpus.csv, processes.csv, topo-m.txt, topo-p2p-r.txt, plain.txt."""
        return self.nvidia / "captures"

    def run(self, command: str, *, check: bool = True, seconds: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a shell's command line in the host, as root. Raises BedError when it fails, with `check`."""
        return self.engine.docker("exec", self.container, "sh", "-c", command, check=check, seconds=seconds)

    def ssh(self, command: str, *, check: bool = True, seconds: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command line over SSH as `user`, the host's key checked. Raises BedError as `run` does."""
        return run([*self.ssh_words(), command], check=check, seconds=seconds)

    def ssh_words(self) -> list[str]:
        """The command line of a login, but for the command."""
        options = {
            "UserKnownHostsFile": self.known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": 20,
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        login = ["-i", str(self.key_path), "-p", str(self.port), f"{self.user}@{self.address}"]
        return ["ssh", "-F", "/dev/null", *words, *login]

    def load(self, image: str, *, seconds: float = 600) -> str:
        """Ship an image of the outer engine to this host's: docker save, ssh, docker load. Raises BedError."""
        login = [find("ssh"), *self.ssh_words()[1:], "docker load"]
        with subprocess.Popen(
            [find("docker"), "--host", f"unix://{self.engine.socket}", "save", image], stdout=subprocess.PIPE
        ) as saving:
            try:
                loaded = subprocess.run(login, stdin=saving.stdout, capture_output=True, text=True, timeout=seconds)
            finally:
                saving.kill()
        if loaded.returncode != 0:
            raise BedError(f"{self.name} did not load {image}: {loaded.stderr.strip()[-1000:]}")
        return loaded.stdout

    def write(self, path: str, text: str, *, mode: str = "0644") -> None:
        """Put a file into the host, as root, in one step. Raises BedError."""
        place, part = shlex.quote(path), shlex.quote(f"{path}.part")
        command = f"umask 077; cat > {part} && chmod {mode} {part} && mv -f {part} {place}"
        self.engine.docker("exec", "--interactive", self.container, "sh", "-c", command, text_in=text)

    def set_gpus(
        self,
        host: Scenario | Sequence[GpuState],
        *,
        links: Links | None = None,
        p2p: Links | None = None,
        unknown_fields: Sequence[str] = (),
    ) -> None:
        """Other GPUs from now on, for the library and nvidia-smi alike: see `gpus.write_scenario`."""
        scenario = host if isinstance(host, Scenario) else Scenario(host)
        gpus.write_scenario(self.nvidia, scenario, links=links, p2p=p2p, unknown_fields=unknown_fields)

    def heal_gpus(self) -> None:
        """The GPUs are those with which the host began, and nvidia-smi answers."""
        self.set_gpus(self.began.scenario, links=self.began.pairs, p2p=self.began.p2p)
        self.repair_driver()

    def break_driver(self, failure: Failure = gpus.DRIVER_GONE) -> None:
        """nvidia-smi fails like this from now on."""
        gpus.write_failure(self.nvidia, failure)

    def repair_driver(self) -> None:
        """nvidia-smi answers again."""
        gpus.write_failure(self.nvidia, None)

    def hook_calls(self) -> list[HookCall]:
        """The containers that got GPUs, in the order in which they were started."""
        text = self.run("cat /var/log/nvidia-hook.log 2>/dev/null || true").stdout
        return [HookCall(**json.loads(line)) for line in text.splitlines()]

    def stop_engine(self) -> None:
        """The host's Docker engine goes away, its containers with it."""
        self.run("kill $(cat /run/docker.pid)")
        wait_until(lambda: not self.engine_answers(), f"the Docker engine of {self.name} does not end")

    def start_engine(self) -> None:
        """The host's Docker engine is there again."""
        self.run("/opt/bed/engine.sh")
        wait_until(self.engine_answers, f"the Docker engine of {self.name} does not start")

    def engine_answers(self) -> bool:
        """True where the engine inside runs."""
        return self.run("docker version >/dev/null", check=False).returncode == 0

    def logs(self) -> str:
        """Last lines of sshd and of the engine inside, for a test that has failed."""
        ssh = self.engine.docker("logs", "--tail", "30", self.container, check=False)
        inner = self.run("tail -n 30 /var/log/dockerd.log", check=False)
        return f"sshd of {self.name}:\n{ssh.stdout}{ssh.stderr}\ndockerd of {self.name}:\n{inner.stdout}{inner.stderr}"


class HostFactory:
    """Starts hosts on an engine; `stop_all` ends them."""

    def __init__(self, engine: Engine, library: Path, folder: Path, say: Callable[[str], None]) -> None:
        self._engine, self._library, self._folder, self._say = engine, library, folder, say
        self._hosts: dict[str, GpuHost] = {}
        self._keys: dict[str, str] = {}
        self.known_hosts = folder / "known_hosts"
        self.key_path = folder / "id_ed25519"
        folder.mkdir(parents=True)
        (folder / "key").mkdir()
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test bed", "-f", self.key_path])
        shutil.copy(self.key_path.with_suffix(".pub"), folder / "key" / "authorized_keys")
        self._write_known_hosts()

    def __call__(
        self,
        name: str = "gpu-01",
        *,
        gpus: Scenario | Sequence[GpuState] | None = None,
        links: Links | None = None,
        p2p: Links | None = None,
        toolkit: bool = True,
        mount_driver: bool = False,
        docker_disk: str | None = None,
    ) -> GpuHost:
        """Start a host as a HostSpec says it and wait until it can be used. Raises BedError with the host's logs."""
        return self.several(HostSpec(name, gpus, links, p2p, toolkit, mount_driver, docker_disk))[0]

    def several(self, *specs: HostSpec | str) -> list[GpuHost]:
        """Start hosts side by side, in the order given; a name alone is a host with two GPUs. Raises BedError."""
        wanted = [HostSpec(spec) if isinstance(spec, str) else spec for spec in specs]
        for spec in wanted:
            if spec.name in self._hosts or [each.name for each in wanted].count(spec.name) > 1:
                raise BedError(f"there is a host {spec.name} already: choose another name, or stop it first")
        self._say(f"starting {', '.join(each.name for each in wanted)}")
        with ThreadPoolExecutor(max_workers=max(1, len(wanted))) as pool:
            started = list(pool.map(self._wait, pool.map(self._run, wanted)))
        self._write_known_hosts()
        return started

    def stop(self, *hosts: GpuHost) -> None:
        """Remove hosts side by side, with all that runs on them."""
        with ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
            list(pool.map(lambda host: self._engine.docker("rm", "--force", "--volumes", host.container), hosts))
        for host in hosts:
            self._hosts.pop(host.name, None)
            self._keys.pop(host.address, None)
            shutil.rmtree(host.nvidia, ignore_errors=True)
        self._write_known_hosts()

    def stop_all(self) -> None:
        """Remove all hosts that are left."""
        self.stop(*self._hosts.values())

    def _run(self, spec: HostSpec) -> GpuHost:
        nvidia = self._folder / spec.name
        (nvidia / "lib").mkdir(parents=True)
        shutil.copy(self._library, nvidia / "lib")
        if spec.mount_driver:
            (nvidia / "mount-driver").touch()
        engine, name = self._engine, container_name(spec.name)
        words = ["run", "--detach", "--init", "--name", name, "--hostname", spec.name, "--network", NETWORK]
        for key, value in {
            "BED_CGROUP": f"{engine.names.cgroup}/{spec.name}",
            "BED_TOOLKIT": "yes" if spec.toolkit else "no",
            "BED_DOCKER_DISK": spec.docker_disk or "machine",
        }.items():
            words += ["--env", f"{key}={value}"]
        for source, target in ((INSIDE, "/opt/bed"), (self._folder / "key", "/opt/bed-key")):
            words += ["--volume", f"{source}:{target}:ro"]
        words += ["--volume", f"{nvidia}:/opt/nvidia"]
        engine.docker(*words, *_CONFINEMENT, spec.image, "/opt/bed/start.sh")
        place = f'{{{{(index .NetworkSettings.Networks "{NETWORK}").IPAddress}}}}'
        address = engine.docker("inspect", "--format", place, name).stdout.strip()
        host = GpuHost(spec.name, engine, address, self.key_path, self.known_hosts, nvidia, spec)
        self._hosts[spec.name] = host
        host.heal_gpus()
        return host

    def _wait(self, host: GpuHost) -> GpuHost:
        try:
            wait_until(lambda: _listens(host), f"no sshd on {host.name}", seconds=READY_SECONDS)
            wait_until(host.engine_answers, f"no Docker engine on {host.name}", seconds=READY_SECONDS)
        except BedError as error:
            raise BedError(f"{error}\n{host.logs()}") from error
        self._keys[host.address] = " ".join(host.run("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout.split()[:2])
        return host

    def _write_known_hosts(self) -> None:
        """An address is given to the next host when its host is gone: only those that run are in the file."""
        lines = [f"{address} {key}\n" for address, key in self._keys.items()]
        self.known_hosts.write_text("".join(lines), encoding="utf-8")


def container_name(host: str) -> str:
    """Name of a host's container in the outer engine."""
    return f"voxyard-bed-{host}"


def _listens(host: GpuHost) -> bool:
    try:
        with socket.create_connection((host.address, host.port), timeout=5) as connection:
            return connection.recv(3) == b"SSH"
    except OSError:
        return False
