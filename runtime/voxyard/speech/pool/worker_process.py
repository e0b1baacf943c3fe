"""The pool's side of a worker process: start it, send and receive messages, end it."""

from __future__ import annotations

import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.ipc import EngineFailed, FromWorker, Heartbeat, OpenEngine

_log = logging.getLogger(__name__)

_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


@dataclass(frozen=True)
class Device:
    """Device of a worker: `visible` becomes CUDA_VISIBLE_DEVICES, empty for a worker without a GPU."""

    name: str
    visible: str = ""


EndCause = Literal["died", "crashed", "out of memory", "left"]


@dataclass(frozen=True)
class ProcessEnded:
    """A worker process has ended.

    Causes: "died" by a signal from outside, as far as anybody can tell; "out of memory" by the kernel's out-of-memory
    killer; "left" with its host, or the way there; else "crashed".
    """

    reason: str
    cause: EndCause = "crashed"


def memory_kills(root: Path = Path("/")) -> int | None:
    """Processes that the kernel has killed for want of memory since it started, on the whole machine.

    None where it does not count them (Linux before 4.13). `root` stands in for / in tests.
    """
    try:
        lines = (root / "proc/vmstat").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def _folder() -> str | None:
    """Folder of a new process: this one's, unless that was removed. torch loads no library in such a one."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return "/"
    return None


class PipedProcess:
    """A process of one of our modules, and its pipe; it takes its end as PoolConnection does.

    `report` gets each of its messages, from a thread of its own, and at last ProcessEnded. A stopped process blocks
    neither the reads nor the writes of this one: each pipe has a reader thread and a writer thread.
    """

    def __init__(
        self,
        module: str,
        first: object,
        report: Callable[[Any], None],
        *,
        environment: Mapping[str, str],
        die_with_parent: bool = False,
    ) -> None:
        """`first` is sent at once. `die_with_parent`: the kernel kills it with the thread that makes it."""
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", module, str(theirs.fileno())),
                    *([str(os.getpid())] if die_with_parent else []),
                ],
                env={
                    **os.environ, "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder), **environment,
                },
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=sys.__stderr__ and sys.__stderr__.fileno(),  # standard output may be the caller's sound
                cwd=_folder(),
                process_group=0,  # Ctrl-C is for the pool, which ends its workers in order
            )  # fmt: skip
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._connection = Connection(ours.detach())
        self._report = report
        self._memory_kills = deque([memory_kills()], maxlen=2)  # as of the last two heartbeats: one may be read late
        self._outgoing: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._outgoing.put(first)
        self._reader = threading.Thread(target=self._read, name=f"reader of {self.pid}", daemon=True)
        self._writer = threading.Thread(target=self._write, name=f"writer to {self.pid}", daemon=True)
        self._reader.start()
        self._writer.start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def send(self, message: object) -> None:
        """Send a message as soon as the process reads."""
        self._outgoing.put(message)

    def kill(self) -> None:
        """Kill it at once; stopped processes too."""
        if self._process.poll() is None:
            self._process.kill()

    def join(self, seconds: float) -> bool:
        """Wait until it has ended and all its messages are reported; False after a timeout."""
        self._reader.join(seconds)
        return not self._reader.is_alive()

    def _read(self) -> None:
        last = None
        try:
            while True:
                message = self._connection.recv()
                if isinstance(message, EngineFailed):
                    last = message.reason
                elif isinstance(message, Heartbeat):
                    self._memory_kills.append(memory_kills())
                self._report(message)
        except (EOFError, OSError):
            pass  # it has ended, or is about to: the exit status tells the cause
        except Exception as error:  # noqa: BLE001 — told as the reason of its end: without this thread nobody hears it
            last = f"its messages cannot be read: {type(error).__name__}: {error}"
        status = self._end()
        self._outgoing.put(None)
        self._writer.join()
        self._connection.close()
        self._report(_ended(status, last, memory_kills() != self._memory_kills[0]))

    def _end(self) -> int:
        """Its exit status; a process that closed its pipe without ending is killed."""
        try:
            return self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _write(self) -> None:
        while (message := self._outgoing.get()) is not None:
            try:
                self._connection.send(message)
            except OSError:
                _log.debug("process %d ended before it read %s", self.pid, type(message).__name__)
            except Exception:  # noqa: BLE001 — whatever it is: it would wait for ever
                _log.exception("process %d is killed: %s cannot be sent to it", self.pid, type(message).__name__)
                self.kill()


class WorkerProcess(PipedProcess):
    """A worker of the pool on this host."""

    def __init__(
        self,
        device: Device,
        engine: EngineSpec,
        heartbeat_seconds: float,
        report: Callable[[FromWorker | ProcessEnded], None],
        *,
        die_with_parent: bool = False,
    ) -> None:
        """`die_with_parent`: for a parent that may be killed itself."""
        super().__init__(
            "voxyard.speech.pool.worker",
            OpenEngine(engine, heartbeat_seconds),
            report,
            environment={"CUDA_VISIBLE_DEVICES": device.visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
            die_with_parent=die_with_parent,
        )


def given_gpu() -> bool:
    """True where this worker process was given a GPU by its pool."""
    return bool(os.environ.get("CUDA_VISIBLE_DEVICES"))


def _ended(status: int, said: str | None, memory_kill: bool) -> ProcessEnded:
    """Cause of an end; `said`: the process's own reason, `memory_kill`: the kernel has killed for want of memory."""
    if said is not None:
        return ProcessEnded(said)
    if status >= 0:
        return ProcessEnded(f"its process ended with status {status}")
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    reason = f"its process was killed by {name}"
    if -status == signal.SIGKILL and memory_kill:
        return ProcessEnded(
            f"{reason}, as the kernel's out-of-memory killer does it: main memory ran out", "out of memory"
        )
    return ProcessEnded(reason, "died" if -status in _FROM_OUTSIDE else "crashed")
