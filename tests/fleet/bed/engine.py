"""Docker engine of the tests, separate from any other on the machine."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.bed import leftovers
from tests.fleet.bed.errors import BedError
from tests.fleet.bed.leftovers import Names
from tests.fleet.bed.machine import build_secrets
from tests.fleet.bed.programs import find, run, wait_until

NETWORK = "voxyard-bed"
PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
"""Where Docker puts its networks, and so the bed's registry, which speaks plain HTTP."""


@dataclass(frozen=True)
class Engine:
    """A running engine; its containers are on the network NETWORK and reachable at their addresses.

    It leaves the machine's firewall alone, so its containers reach nothing outside: builds use the machine's network.
    """

    folder: Path

    @property
    def names(self) -> Names:
        """Names of its things."""
        return Names(self.folder)

    @property
    def socket(self) -> Path:
        """The socket on which it listens."""
        return self.names.socket

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables under which a `docker` talks to this engine and to no other."""
        return {
            "DOCKER_HOST": f"unix://{self.socket}",
            "DOCKER_CONFIG": str(self.folder / "config"),
            "DOCKER_CONTEXT": "",
            "DOCKER_BUILDKIT": "1",
        }

    def docker(
        self, *words: str | Path, seconds: float = 600, check: bool = True, text_in: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `docker WORDS` on this engine. Raises BedError when it fails (with `check`) or takes too long."""
        return run(["docker", *words], seconds=seconds, check=check, environment=self.environment, text_in=text_in)

    def build(
        self,
        context: Path,
        tag: str,
        *,
        dockerfile: Path | None = None,
        arguments: Mapping[str, str] | None = None,
        seconds: float = 1200,
    ) -> str:
        """Build an image; what docker said. The secrets pip_config, apt_config and ca_bundle are this machine's.

        `RUN --mount=type=secret,id=ca_bundle,…` sees them. Raises BedError with the end of the output.
        """
        words: list[str | Path] = ["build", "--progress", "plain", "--network", "host", "--tag", tag]
        for name, path in build_secrets(self.folder).items():
            words += ["--secret", f"id={name},src={path}"]
        for name, value in (arguments or {}).items():
            words += ["--build-arg", f"{name}={value}"]
        words += ["--file", dockerfile or context / "Dockerfile", context]
        return self.docker(*words, seconds=seconds).stderr

    def has(self, image: str) -> bool:
        """True where the engine holds the image."""
        return self.docker("image", "inspect", image, check=False).returncode == 0

    def log(self, lines: int = 30) -> str:
        """The end of what the engine wrote."""
        return _tail(self.folder / "dockerd.log", lines)


@contextlib.contextmanager
def running(say: Callable[[str], None]) -> Iterator[Engine]:
    """An engine for the time of the block; what an earlier run left behind is ended first.

    Raises BedError when it does not start.
    """
    for folder in leftovers.sweep():
        say(f"ended the test bed {folder.name}, which an earlier run left behind")
    with leftovers.claimed() as folder:
        engine = Engine(folder)
        (folder / "config").mkdir()
        process: subprocess.Popen[bytes] | None = None
        try:
            process = _start(engine)
            _make_network(engine)
            yield engine
        finally:
            leftovers.end(engine.names)
            if process is not None:
                process.wait(timeout=60)


def _start(engine: Engine) -> subprocess.Popen[bytes]:
    folder, names = engine.folder, engine.names
    # Without a storage driver named, it takes overlay2 where the file system allows it, else vfs.
    command = [
        *(find("dockerd"), "--config-file", str(folder / "daemon.json")),
        *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
        *("--pidfile", str(names.pidfile), "--host", f"unix://{names.socket}"),
        *("--bridge", "none", "--iptables=false", "--ip6tables=false"),
        *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", names.cgroup),
        *("--containerd-namespace", names.containerd, "--containerd-plugins-namespace", f"{names.containerd}-plugins"),
    ]
    (folder / "daemon.json").write_text(json.dumps({"insecure-registries": PRIVATE}), encoding="utf-8")
    environment = os.environ | {"NO_PROXY": ",".join(PRIVATE), "no_proxy": ",".join(PRIVATE)}
    with (folder / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment
        )

    def answers() -> bool:
        if process.poll() is not None:
            raise BedError(f"dockerd ended with exit code {process.returncode}:\n{engine.log()}")
        return engine.docker("version", check=False).returncode == 0

    try:
        wait_until(answers, f"dockerd does not answer on {names.socket}")
    except BedError:
        process.kill()
        process.wait(timeout=30)
        raise
    return process


def _make_network(engine: Engine) -> None:
    """One bed at a time: an engine takes addresses that no device of the machine has yet."""
    bridge = f"com.docker.network.bridge.name={engine.names.bridge}"
    with leftovers.alone():
        engine.docker("network", "create", "--opt", bridge, NETWORK)
    if "-P FORWARD ACCEPT" not in run(["iptables", "--wait", "--list-rules", "FORWARD"]).stdout:
        run(["iptables", "--wait", "--insert", *leftovers.forwarding(engine.names)])


def _tail(path: Path, lines: int) -> str:
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
