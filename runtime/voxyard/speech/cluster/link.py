"""The pool's side of the process that talks to Ray: it may end with the cluster's head, and is started again."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable

from voxyard.speech.cluster.access import ClusterAccess
from voxyard.speech.cluster.devices import ClusterDevice
from voxyard.speech.cluster.relay_messages import (
    DeviceCame,
    DeviceLeft,
    FromActor,
    FromRelay,
    JoinCluster,
    Joined,
    KillActor,
    LeaveCluster,
    StartActor,
    ToActor,
)
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.ipc import Heartbeat, ToWorker
from voxyard.speech.pool.transport import OnWorkerMessage, StartRefused
from voxyard.speech.pool.worker_process import Device, PipedProcess, ProcessEnded

_log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between two looks whether the head answers
SILENT_SECONDS = 30.0  # without a heartbeat of the relay, which then hangs
_PAUSE, _MAX_PAUSE = 1.0, 5.0  # before another relay where one has failed to join
_LEAVE_SECONDS = 15.0


class RelayedWorker:
    """A worker on a host of the cluster, as the pool sees it."""

    def __init__(self, number: int, process: PipedProcess, report: OnWorkerMessage) -> None:
        self.pid: int | None = None
        self.report = report
        self.ended = threading.Event()
        self._number, self._process = number, process

    def send(self, message: ToWorker) -> None:
        """Send a message as soon as the worker reads."""
        self._process.send(ToActor(self._number, message))

    def kill(self) -> None:
        """Kill it at once."""
        self._process.send(KillActor(self._number))

    def join(self, seconds: float) -> bool:
        """Wait until it has ended and all its messages are reported; False after a timeout."""
        return self.ended.wait(seconds)


class ClusterLink:
    """Keeps this service in a cluster: one relay after the other, each as long as it lasts.

    `module` is that of the relay, `clock` in seconds. Devices of a relay that has ended are taken from the pool.
    """

    def __init__(
        self,
        access: ClusterAccess,
        section: SpeechSection,
        *,
        module: str = "voxyard.speech.cluster.relay",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access, self._section, self._module, self._clock = access, section, module, clock
        self._numbers = itertools.count()
        self._lock = threading.Lock()  # of what follows
        self._process: PipedProcess | None = None  # a relay that has joined
        self._workers: dict[int, RelayedWorker] = {}
        self._devices: list[ClusterDevice] = []
        self._trouble: str | None = f"the cluster {access.address} is being joined"
        self._heard = clock()
        self._add: Callable[[Device], None] = lambda _: None
        self._remove: Callable[[Device, str], None] = lambda *_: None
        self._relaying: PipedProcess | None = None  # the latest relay
        self._joined = False  # it has joined
        self._ends: queue.SimpleQueue[ProcessEnded] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._first = threading.Event()  # the first relay has joined, or ended
        self._failure: str | None = None  # why the first one did not join
        self._thread = threading.Thread(target=self._supervise, name="cluster", daemon=True)

    @property
    def trouble(self) -> str | None:
        """Why no worker can be started now; None while the cluster can be used."""
        return self._trouble

    @property
    def relay(self) -> int | None:
        """Process id of the relay; None while none has joined."""
        process = self._process
        return None if process is None else process.pid

    def open(self, add: Callable[[Device], None], remove: Callable[[Device, str], None]) -> None:
        """Join the cluster. Raises SpeechError where that fails the first time, within `cluster_wait`."""
        self._add, self._remove = add, remove
        self._thread.start()
        self._first.wait()
        if self._failure is not None:
            raise SpeechError(self._failure)

    def close(self) -> None:
        """Leave the cluster."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def launch(
        self, device: Device, engine: EngineSpec, heartbeat_seconds: float, report: OnWorkerMessage
    ) -> RelayedWorker:
        """Start a worker on a device of the cluster. Raises OSError: the cluster is lost."""
        if not isinstance(device, ClusterDevice):
            raise TypeError(f"{device!r} is no device of a cluster")
        with self._lock:
            if self._process is None or device not in self._devices:
                raise OSError(self._trouble or f"{device.host} has left the cluster")
            number = next(self._numbers)
            worker = self._workers[number] = RelayedWorker(number, self._process, report)
            self._process.send(StartActor(number, device, engine, heartbeat_seconds))
        return worker

    def _supervise(self) -> None:
        failures = 0
        while not self._closing.is_set():
            if self._first.is_set() and not self._head_answers():
                self._closing.wait(LOOK_SECONDS)
                continue
            self._joined = False
            end = self._relay()
            if self._closing.is_set():
                return
            if not self._first.is_set():
                self._failure = end.reason
                self._first.set()
                return
            failures = 0 if self._joined else failures + 1
            self._trouble = f"the cluster {self._access.address} is lost: {end.reason}; it is joined again"
            _log.log(logging.ERROR if self._joined else logging.WARNING, "%s; documents wait", self._trouble)
            self._closing.wait(min(_PAUSE * failures, _MAX_PAUSE))

    def _head_answers(self) -> bool:
        """True where the head's port does; else it is said once."""
        try:
            self._access.reach()
        except SpeechError as error:
            if self._trouble != str(error):
                _log.error("%s: the service waits for it", error)
            self._trouble = str(error)
            return False
        return True

    def _relay(self) -> ProcessEnded:
        """Run one relay to its end; how it ended."""
        self._heard = before = self._clock()
        try:
            with self._lock:
                relay = self._relaying = PipedProcess(
                    self._module, JoinCluster(self._access, self._section, self._section.cluster_wait), self._hear,
                    environment={}, die_with_parent=True,
                )  # fmt: skip
        except OSError as error:
            return ProcessEnded(f"its process cannot be started: {error}")
        while True:
            try:
                return self._ends.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                now = self._clock()
            if now - before > SILENT_SECONDS / 2:  # this process stood still itself
                self._heard = now
            before = now
            if self._closing.is_set():
                relay.send(LeaveCluster())
                if not relay.join(_LEAVE_SECONDS):
                    relay.kill()
            elif now - self._heard > SILENT_SECONDS:
                _log.error("the process that talks to Ray is killed: it said nothing for %.0f s", now - self._heard)
                relay.kill()
            elif self._process is not None and self._head_answers() and self._trouble is not None:
                self._trouble = None
                _log.info("the cluster's head %s answers again", self._access.address)

    def _hear(self, message: FromRelay | ProcessEnded) -> None:
        """What the relay says, in its reader's thread."""
        match message:
            case Heartbeat():
                self._heard = self._clock()
            case Joined():
                with self._lock:
                    self._process, self._trouble, self._joined = self._relaying, None, True
                _log.info("joined the cluster %s", self._access.address)
                self._first.set()
            case DeviceCame(device):
                with self._lock:
                    self._devices.append(device)
                _log.info("%s has joined the cluster with %s", device.host, device.name)
                self._add(device)
            case DeviceLeft(device, reason):
                with self._lock:
                    self._devices.remove(device)
                self._remove(device, reason)
            case FromActor(number, pid, said):
                self._said(number, pid, said)
            case ProcessEnded():
                self._lose(message)

    def _said(self, number: int, pid: int | None, message: object) -> None:
        with self._lock:
            worker = self._workers.get(number)
            if isinstance(message, ProcessEnded | StartRefused):
                self._workers.pop(number, None)
        if worker is not None:
            worker.pid = pid or worker.pid
            worker.report(message)  # type: ignore[arg-type]  # as FromActor has it
            if isinstance(message, ProcessEnded | StartRefused):
                worker.ended.set()

    def _lose(self, end: ProcessEnded) -> None:
        """The relay has ended, and with it all workers and devices."""
        reason = f"the cluster is lost: {end.reason}"
        with self._lock:
            self._process = None
            self._trouble = reason
            workers, self._workers = list(self._workers.values()), {}
            devices, self._devices = self._devices, []
        for worker in workers:
            worker.report(ProcessEnded(reason, "left"))
            worker.ended.set()
        for device in devices:
            self._remove(device, reason)
        self._ends.put(end)
