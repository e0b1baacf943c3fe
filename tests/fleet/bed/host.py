"""A GPU host of the fleet as a container: sshd, a Docker engine inside, NVIDIA's driver replayed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
)


@dataclass(frozen=True)
class HookCall:
    """What the container toolkit's hook saw of a container."""

    container: str
    visible_devices: str
    capabilities: str


@dataclass(frozen=True)
class GpuHost:
    """A running host. It is reached at `address` with `key_path` as `user`; `known_hosts` holds its key."""

    name: str
    engine: Engine
    address: str
    key_path: Path
    known_hosts: Path
    nvidia: Path  # on this machine; in the host it is /opt/nvidia
    user: str = USER
    port: int = PORT

    @property
    def container(self) -> str:
        """The name of its container in the outer engine."""
        return container_name(self.name)

    @property
    def captures(self) -> Path:
        """What its nvidia-smi replays: gpus.csv, processes.csv, topo-m.txt, topo-p2p-r.txt, plain.txt."""
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
        """Whether the engine inside runs."""
        return self.run("docker version >/dev/null", check=False).returncode == 0

    def logs(self) -> str:
        """What sshd and the engine inside wrote last, for a test that has failed."""
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
    ) -> GpuHost:
        """Start a host and wait until it can be used; without `gpus`, it has two consumer cards that are PHB apart.

        Without `toolkit` its engine gives no GPUs to containers. With `mount_driver` the hook puts the library and
        nvidia-smi into containers that ask for GPUs, as the real one does. Raises BedError with the host's logs.
        """
        return self._wait(self._run(name, gpus, links, p2p, toolkit, mount_driver))

    def several(self, *names: str) -> list[GpuHost]:
        """Start hosts with two GPUs each, side by side. Raises BedError."""
        started = [self._run(name, None, None, None, True, False) for name in names]
        with ThreadPoolExecutor(max_workers=max(1, len(started))) as pool:
            return list(pool.map(self._wait, started))

    def stop(self, host: GpuHost) -> None:
        """Remove a host, with all that runs on it."""
        self._engine.docker("rm", "--force", "--volumes", host.container)
        self._hosts.pop(host.name, None)
        self._keys.pop(host.address, None)
        self._write_known_hosts()
        shutil.rmtree(host.nvidia, ignore_errors=True)

    def stop_all(self) -> None:
        """Remove all hosts that are left."""
        for host in list(self._hosts.values()):
            self.stop(host)

    def _run(
        self,
        name: str,
        scenario: Scenario | Sequence[GpuState] | None,
        links: Links | None,
        p2p: Links | None,
        toolkit: bool,
        mount_driver: bool,
    ) -> GpuHost:
        if name in self._hosts:
            raise BedError(f"there is a host {name} already: choose another name, or stop it first")
        nvidia = self._folder / name
        (nvidia / "lib").mkdir(parents=True)
        shutil.copy(self._library, nvidia / "lib")
        if mount_driver:
            (nvidia / "mount-driver").touch()
        engine = self._engine
        words = ["run", "--detach", "--init", "--name", container_name(name), "--hostname", name, "--network", NETWORK]
        words += ["--env", f"BED_CGROUP={engine.names.cgroup}/{name}", "--env", f"BED_TOOLKIT={_yes(toolkit)}"]
        for source, target in ((INSIDE, "/opt/bed"), (self._folder / "key", "/opt/bed-key")):
            words += ["--volume", f"{source}:{target}:ro"]
        words += ["--volume", f"{nvidia}:/opt/nvidia"]
        self._say(f"starting the host {name}")
        engine.docker(*words, *_CONFINEMENT, images.HOST, "/opt/bed/start.sh")
        address = engine.docker(
            "inspect",
            "--format",
            f'{{{{(index .NetworkSettings.Networks "{NETWORK}").IPAddress}}}}',
            container_name(name),
        ).stdout.strip()
        host = GpuHost(name, engine, address, self.key_path, self.known_hosts, nvidia)
        self._hosts[name] = host
        if scenario is None:
            scenario = [GpuState.consumer(0), GpuState.consumer(1)]
            links = {(0, 1): "PHB"} if links is None else links
        host.set_gpus(scenario, links=links, p2p=p2p)
        return host

    def _wait(self, host: GpuHost) -> GpuHost:
        try:
            wait_until(lambda: _listens(host), f"no sshd on {host.name}", seconds=READY_SECONDS)
            wait_until(host.engine_answers, f"no Docker engine on {host.name}", seconds=READY_SECONDS)
        except BedError as error:
            raise BedError(f"{error}\n{host.logs()}") from error
        self._keys[host.address] = " ".join(host.run("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout.split()[:2])
        self._write_known_hosts()
        return host

    def _write_known_hosts(self) -> None:
        """An address is given to the next host when its host is gone: only those that run are in the file."""
        lines = [f"{address} {key}\n" for address, key in self._keys.copy().items()]
        self.known_hosts.write_text("".join(lines), encoding="utf-8")


def container_name(host: str) -> str:
    """What the outer engine calls a host's container."""
    return f"voxyard-bed-{host}"


def _yes(true: bool) -> str:
    return "yes" if true else "no"


def _listens(host: GpuHost) -> bool:
    try:
        with socket.create_connection((host.address, host.port), timeout=5) as connection:
            return connection.recv(3) == b"SSH"
    except OSError:
        return False
