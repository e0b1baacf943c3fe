"""Transport over Ray, and the only file that imports it: actors on the cluster's hosts, each with one worker process.

Ray knows the hosts, places an actor on each device, carries messages and sound, and notices deaths. Who speaks which
chunk when stays with the pool's scheduler: Ray's own retries are off. An actor runs no engine: it starts the same
worker process as a pool on its own host does, and passes on what the two say. The environment of the cluster's access
must be set before this is imported.
"""

from __future__ import annotations

import logging
import platform
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from voxyard import __version__
from voxyard.host.nvml import every_device
from voxyard.host.out_of_work import OutOfWork
from voxyard.speech.cluster.access import ClusterAccess, refusal
from voxyard.speech.cluster.devices import ClusterDevice, cluster_devices
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.placement import Admission
from voxyard.speech.pool.ipc import EngineReady, FromWorker, Heartbeat, ToWorker
from voxyard.speech.pool.transport import OnWorkerMessage, StartRefused
from voxyard.speech.pool.worker_process import Device, ProcessEnded, WorkerProcess

_log = logging.getLogger(__name__)
_remote, _nodes = cast("tuple[Any, Any]", (ray.remote, ray.nodes))  # Ray is typed in part

LOOK_SECONDS = 1.0  # between two looks at the cluster's hosts
SILENT_BEATS = 10  # heartbeats that an actor may miss before its host counts as lost
_CONNECT_SECONDS = 60


@dataclass(frozen=True)
class Release:
    """Software of a host: workers and service must have the same."""

    voxyard: str
    python: str
    ray: str

    @classmethod
    def here(cls) -> Release:
        """This host's."""
        return cls(__version__, platform.python_version(), ray.__version__)

    def __str__(self) -> str:
        return f"voxyard {self.voxyard}, Python {self.python}, Ray {self.ray}"


@dataclass(frozen=True)
class Beat:
    """The actor is alive, whatever its worker does."""


class Relay:
    """One worker process on the actor's host; it is killed with the actor."""

    def __init__(self, device: Device, engine: EngineSpec, heartbeat_seconds: float, section: SpeechSection) -> None:
        self._queue: queue.SimpleQueue[FromWorker | ProcessEnded | StartRefused] = queue.SimpleQueue()
        self._received, self._heartbeat_seconds = 0, heartbeat_seconds
        self._process: WorkerProcess | None = None
        self._device, self._admission = device, Admission(every_device, section, sick=OutOfWork.of_host())
        refusal = self._admission(device)
        if refusal is not None:
            self._queue.put(StartRefused(refusal))
            return
        try:
            self._process = WorkerProcess(device, engine, heartbeat_seconds, self._queue.put, die_with_parent=True)
        except OSError as error:
            self._queue.put(ProcessEnded(f"its process cannot be started: {error}"))

    def hello(self) -> tuple[Release, int | None]:
        """The host's release, and the worker's process id."""
        return Release.here(), None if self._process is None else self._process.pid

    def send(self, number: int, message: ToWorker) -> None:
        """Pass on the message of this number. One that was lost on the way ends the worker: its chunk would be, too."""
        if number != self._received:
            self._queue.put(ProcessEnded(f"message {self._received} of the pool was lost on the way", "left"))
            return
        self._received += 1
        if self._process is not None:
            self._process.send(message)

    def messages(self) -> Iterator[FromWorker | ProcessEnded | StartRefused | Beat]:
        """All that the worker says, and last how it ended; a Beat where it has said nothing for a heartbeat."""
        while True:
            try:
                message = self._recall() or self._queue.get(timeout=self._heartbeat_seconds)
            except queue.Empty:
                yield Beat()
                continue
            yield message
            if isinstance(message, ProcessEnded | StartRefused):
                return

    def _recall(self) -> StartRefused | None:
        """Ends the worker where its GPU is to have none any more."""
        refusal = self._admission.recalled(self._device)
        if refusal is None or self._process is None:
            return None
        self._process.kill()
        return StartRefused(refusal)


_TO_WORKER, _FROM_WORKER = {"concurrency_group": "to worker"}, {"concurrency_group": "from worker"}
_RELAY = _remote(num_cpus=0, max_restarts=0, max_task_retries=0, concurrency_groups={"to worker": 1, "from worker": 1})(
    Relay
)


class RayWorker:
    """One actor, as the pool sees a worker."""

    def __init__(
        self,
        device: Device,
        engine: EngineSpec,
        heartbeat_seconds: float,
        report: OnWorkerMessage,
        *,
        section: SpeechSection,
    ) -> None:
        if not isinstance(device, ClusterDevice):
            raise TypeError(f"{device!r} is no device of a cluster")
        self.pid: int | None = None
        self._device, self._engine, self._report, self._beat = device, engine, report, heartbeat_seconds
        self._sent = 0
        self._sending = threading.Lock()
        try:
            self._actor = _RELAY.options(
                resources={device.resource: 1},
                scheduling_strategy=NodeAffinitySchedulingStrategy(device.node, soft=False),
            ).remote(Device(device.name, device.visible), engine, heartbeat_seconds, section)
        except RayError as error:
            raise OSError(f"Ray takes no actor: {_short(error)}") from error
        self._reader = threading.Thread(target=self._read, name=f"reader of {device.name}", daemon=True)
        self._reader.start()

    def send(self, message: ToWorker) -> None:
        """Send a message as soon as the worker reads."""
        with self._sending:
            self._actor.send.options(**_TO_WORKER).remote(self._sent, message)
            self._sent += 1

    def kill(self) -> None:
        """Kill the actor, and so its worker, at once."""
        ray.kill(self._actor)

    def join(self, seconds: float) -> bool:
        """Wait until it has ended and all its messages are reported; False after a timeout."""
        self._reader.join(seconds)
        return not self._reader.is_alive()

    def _read(self) -> None:
        end: ProcessEnded | StartRefused = ProcessEnded("its actor has ended", "left")
        try:
            end = self._relayed()
        except RayError as error:
            end = ProcessEnded(f"its host, or the way there, is lost: {_short(error)}", "left")
        finally:
            self.kill()
            self._report(end)

    def _relayed(self) -> ProcessEnded | StartRefused:
        """OnWorkerMessage what the worker says; how it ended."""
        hello = self._actor.hello.options(**_TO_WORKER).remote()
        while not ray.wait([hello], timeout=self._beat)[0]:
            self._report(Heartbeat())  # Ray is placing it: only the time for a start counts
        release, self.pid = ray.get(hello)
        if other := other_release(release):
            return ProcessEnded(other)
        stream = self._actor.messages.options(num_returns="streaming", **_FROM_WORKER).remote()
        silent = 0
        while silent < SILENT_BEATS:
            reference = stream._next_sync(timeout_s=self._beat)  # noqa: SLF001 — iteration has no timeout
            if reference.is_nil():
                silent += 1
                continue
            silent, message = 0, ray.get(reference)
            if isinstance(message, ProcessEnded | StartRefused):
                return message
            if isinstance(message, EngineReady) and (other := other_weights(message, self._engine)):
                return ProcessEnded(other)
            if not isinstance(message, Beat):
                self._report(message)
        return ProcessEnded(f"nothing was heard of its host for {SILENT_BEATS * self._beat:.0f} s", "left")


class HostWatcher:
    """Looks which hosts are in the cluster, and tells whose devices come and go."""

    def __init__(self, add: Callable[[ClusterDevice], None], remove: Callable[[ClusterDevice, str], None]) -> None:
        self._add, self._remove = add, remove
        self._known: dict[str, tuple[ClusterDevice, ...]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hosts of the cluster", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._closing.set()
        self._thread.join()

    def _look(self) -> None:
        alive = {node["NodeID"]: node for node in _nodes() if node["Alive"]}
        for gone in self._known.keys() - alive.keys():
            for device in self._known.pop(gone):
                self._remove(device, f"host {device.host} has left the cluster")
        for come in alive.keys() - self._known.keys():
            self._known[come] = cluster_devices(come, alive[come]["NodeName"], alive[come]["Labels"])
            for device in self._known[come]:
                self._add(device)

    def _run(self) -> None:
        while True:
            try:
                self._look()
            except (RayError, RuntimeError, ConnectionError) as error:
                _log.warning("the cluster does not say which hosts it has (%s); it is asked again", _short(error))
            if self._closing.wait(LOOK_SECONDS):
                return


def connect(access: ClusterAccess, directory: str) -> None:
    """Connect this process to the cluster through its own node, which has this directory.

    Raises:
        SpeechError: the cluster does not answer, or does not take this token.
    """
    try:
        ray.init(
            address=access.address,
            _temp_dir=directory,
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.ERROR,
            namespace="voxyard",
        )
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        raise SpeechError(f"the cluster {access.address} cannot be used: {_short(error)}") from error


def disconnect() -> None:
    """Leave the cluster; the actors of this process end."""
    ray.shutdown()


@dataclass(frozen=True)
class HostState:
    """A host of the cluster: its node's state, and the devices that it offers."""

    name: str
    address: str
    alive: bool
    head: bool
    devices: tuple[str, ...]
    labels: dict[str, str]


def read_hosts(access: ClusterAccess) -> list[HostState]:
    """Hosts of a cluster, as its head knows them; needs no node on this host.

    Raises:
        SpeechError: the head does not answer in time, or does not take this token.
    """
    access.reach()  # Ray's client waits for three quarters of a minute
    try:
        found = GcsClient(address=access.address).get_all_node_info(timeout=_CONNECT_SECONDS)
    except (RayError, RuntimeError, ConnectionError) as error:
        reason = refusal(str(error)) or f"the cluster's head does not answer: {_short(error)}"
        raise SpeechError(f"cluster {access.address}: {reason}") from error
    return [
        HostState(
            node.node_name, node.node_manager_address, node.state == 0, node.is_head_node,
            tuple(each.name for each in cluster_devices(node.node_id.hex(), node.node_name, dict(node.labels))),
            dict(node.labels),
        )
        for node in found.values()
    ]  # fmt: skip


def other_release(found: Release) -> str | None:
    """Message where a worker's host has another release than this one; None where it has the same."""
    here = Release.here()
    if found == here:
        return None
    return f"its host has {found}, the service {here}: deploy one release to all of a cluster"


def other_weights(message: EngineReady, engine: EngineSpec) -> str | None:
    """Message where a worker has loaded other weights than the service's; None where they are the same."""
    found = message.ready.facts.get("weights")
    if not engine.weights or found == engine.weights:
        return None
    return (
        f"its host has weights {found} in the model's directory, the service {engine.weights}: deploy the same "
        "to all of a cluster"
    )


def _short(error: BaseException) -> str:
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip())[:300]
