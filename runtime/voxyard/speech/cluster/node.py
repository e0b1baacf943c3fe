"""Ray node of this host: the processes that `ray start` runs, started with fixed ports and started again when they end.

No dashboard, no Ray client server, no autoscaler, no job server: a node is a raylet with its agents, and the head also
the control store (GCS). It keeps its files in a directory in /tmp that is locked while its voxyard runs; those that a
killed one has left are removed.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from voxyard.host.durable_files import open_locked, try_lock
from voxyard.speech.cluster.access import ClusterAccess, refusal
from voxyard.speech.cluster.ports import Role, busy_ports, node_ports
from voxyard.speech.cluster.start_hook import OWNER
from voxyard.speech.errors import SpeechError

_PREFIX = "voxyard-ray-"  # short: the directory holds the paths of sockets
_OWNER = "owner"  # a file that is locked as long as the owner lives, in whatever container that is


class NodeDirectory:
    """A directory of this process. Its lock ends with the process, however that ends; nodes do not inherit it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        unlocked = self.path / f"{_OWNER}.new"
        self._owner = os.fdopen(open_locked(unlocked), "wb")
        unlocked.rename(self.path / _OWNER)  # under this name it has never been without its lock

    def clear(self) -> None:
        """Remove what a node has left in it."""
        for old in self.path.iterdir():
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old, ignore_errors=True)
            elif old.name != _OWNER:
                old.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._owner.close()


def remove_abandoned() -> list[Path]:
    """Remove this user's directories whose owner has ended without doing so; they are returned."""
    return [path for path in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")) if _removed(path)]


def _removed(path: Path) -> bool:
    """Remove a directory unless it is another user's, its owner lives, or it has none (an earlier release's)."""
    try:
        state = path.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
            return False
        owner = os.open(path / _OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False  # gone meanwhile, or without an owner
    try:
        if not try_lock(owner):
            return False
        shutil.rmtree(path, ignore_errors=True)
        return True
    finally:
        os.close(owner)


_log = logging.getLogger(__name__)

OBJECT_STORE_BYTES = 256 * 2**20  # sound on its way: a chunk has at most 1.3 MB
_STOP_SECONDS = 5.0  # for each of SIGTERM and SIGKILL; Docker waits 10 s
_BACKOFF, _MAX_BACKOFF = 1.0, 30.0
_POLL_SECONDS = 0.2
_LOOK_SECONDS = 5.0  # between two looks whether the head can be reached
_STARTED = b"Ray runtime started"  # `ray start` prints it once the head knows the node


@dataclass(frozen=True)
class NodeSpec:
    """One node of a cluster: its role, its address, and the devices that it offers, by label."""

    role: Role
    access: ClusterAccess
    address: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)
    redis: str | None = None  # HOST:PORT, of a head whose state outlives it

    def command(self, directory: Path) -> list[str]:
        """Command line of `ray start`."""
        ports = node_ports(self.role)
        where = ["--head", "--port", str(self.access.port), "--include-dashboard", "false", "--no-monitor"]
        return [
            str(Path(sys.executable).with_name("ray")), "start",
            *(where if self.role == "head" else ["--address", self.access.address]),
            "--block",
            "--node-ip-address", self.address,
            "--node-name", self.name,
            "--num-cpus", "0", "--num-gpus", "0",
            "--resources", json.dumps(dict(self.resources)),
            *(["--labels", ",".join(f"{key}={value}" for key, value in self.labels.items())] if self.labels else []),
            "--object-store-memory", str(OBJECT_STORE_BYTES),
            "--object-manager-port", str(ports.object_manager),
            "--node-manager-port", str(ports.node_manager),
            "--runtime-env-agent-port", str(ports.runtime_env_agent),
            "--dashboard-agent-grpc-port", str(ports.agent_grpc),
            "--dashboard-agent-listen-port", str(ports.agent_http),
            "--metrics-export-port", str(ports.metrics),
            "--min-worker-port", str(ports.first_worker),
            "--max-worker-port", str(ports.last_worker),
            "--include-log-monitor", "false",
            "--disable-usage-stats",
            "--log-color", "false",
            "--temp-dir", str(directory),
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        """Environment of the node, which its workers inherit."""
        return {
            **os.environ,
            **self.access.environment(),
            "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder),
            "RAY_START_HOOK": "voxyard.speech.cluster.start_hook.prepare",
            OWNER: str(os.getpid()),
            **({"RAY_REDIS_ADDRESS": self.redis} if self.redis else {}),
        }


class Node:
    """A running node: started by `start`, started again whenever it ends, until `close`.

    One that has a user in this process is not started again: `ended` is called with the reason, once.
    """

    def __init__(self, spec: NodeSpec, ended: Callable[[str], None] | None = None) -> None:
        self.spec, self._ended = spec, ended
        self._own = NodeDirectory()
        self.directory = self._own.path
        self._closing = threading.Event()
        self.last_end = ""  # why the last one ended
        self.in_use = False  # set by the user in this process
        self.joined = False  # the node has joined its cluster, and its head can be reached
        self._had_joined = False  # the latest one has: its end is no failed start
        self._thread = threading.Thread(target=self._supervise, name=f"{spec.role} node", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self) -> None:
        """Start it and keep it running. Raises SpeechError: one of its ports is taken, or its address is not here."""
        spec = self.spec
        try:
            busy = busy_ports(spec.address, spec.role, spec.access.port)
        except OSError as error:
            raise SpeechError(
                f"{spec.address} is no address of this host ({error.strerror}): expected one that the others reach"
            ) from error
        if busy:
            raise SpeechError(
                f"a cluster's {spec.role} needs port {', '.join(map(str, busy))} of {spec.address}, where another "
                f"process listens: end it (`ss -ltnp`), or is a {spec.role} running on this host already?"
            )
        for path in remove_abandoned():
            _log.info("removed %s, which a voxyard that was killed has left", path)
        self._thread.start()

    def close(self) -> None:
        """Stop it with all its processes; its directory is removed."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._own.remove()

    def _supervise(self) -> None:
        failures = 0
        while not self._closing.is_set():
            self.last_end = ending = self._run()
            if self._closing.is_set():
                return
            if self.in_use and self._ended is not None:
                self._ended(ending)
                return
            failures = 1 if self._had_joined else failures + 1
            pause = min(_BACKOFF * 2.0 ** (failures - 1), _MAX_BACKOFF)
            _log.warning("the cluster's %s node has ended (%s); again in %.0f s", self.spec.role, ending, pause)
            self._closing.wait(pause)

    def _has_joined(self, output: Path) -> bool:
        if _STARTED not in output.read_bytes():
            return False
        try:
            self.spec.access.reach()
        except SpeechError:
            return False
        return True

    def _run(self) -> str:
        """Run the node to its end; the reason in words."""
        self._own.clear()
        self._had_joined = False
        output = self.directory / "start.log"
        with output.open("wb") as log:
            try:
                process = subprocess.Popen(
                    self.spec.command(self.directory), env=self.spec.environment(),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                return f"`ray` cannot be started: {error}; is the extra `cluster` installed?"
            look = time.monotonic()
            while process.poll() is None and not self._closing.wait(_POLL_SECONDS):
                if time.monotonic() >= look:
                    self.joined = self._has_joined(output)
                    self._had_joined |= self.joined
                    look = time.monotonic() + _LOOK_SECONDS
            self.joined = False
        _end_group(process)
        return f"status {process.returncode}: {_last_line(output)}"


def head_spec(access: ClusterAccess, name: str, redis: str | None = None) -> NodeSpec:
    """The head, which must run on the host that the access names."""
    return NodeSpec("head", access, access.host, name, redis=redis)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all of its group; those that go on are killed."""
    for number, seconds in ((signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, _STOP_SECONDS)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _last_line(output: Path) -> str:
    text = output.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines()]
    return refusal(text) or next((line for line in reversed(lines) if line), "it printed nothing")[-300:]
