"""The process that talks to Ray: this host's node, the connection, and the actors on the cluster's hosts.

Run as `python -m voxyard.speech.cluster.relay FD PARENT`. Ray's library ends its process where a cluster is lost to it,
in C++ or for good: this one may end, and ClusterLink starts another one.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from voxyard.host.signal_handlers import end_with
from voxyard.speech.cluster.access import ClusterAccess
from voxyard.speech.cluster.devices import ClusterDevice
from voxyard.speech.cluster.node import Node, NodeSpec
from voxyard.speech.cluster.relay_messages import (
    DeviceCame,
    DeviceLeft,
    FromActor,
    JoinCluster,
    Joined,
    KillActor,
    LeaveCluster,
    StartActor,
    ToActor,
)
from voxyard.speech.config import SpeechSection
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.ipc import EngineFailed, FromWorker, Heartbeat
from voxyard.speech.pool.transport import StartRefused
from voxyard.speech.pool.worker import ENGINE_FAILED, POOL_GONE, PoolConnection
from voxyard.speech.pool.worker_process import ProcessEnded

if TYPE_CHECKING:
    from voxyard.speech.cluster.ray_transport import RayWorker

BEAT_SECONDS = 1.0
"""Time between two heartbeats of the relay."""
_POLL_SECONDS = 0.5


class _Relay:
    """Actors by their numbers, and the pipe to the pool's process."""

    def __init__(self, pool: PoolConnection, section: SpeechSection) -> None:
        self._pool, self._section = pool, section
        self._actors: dict[int, RayWorker] = {}

    def serve(self) -> None:
        """Carry out what the pool's process asks for until it has this one leave."""
        while True:
            match self._pool.receive():
                case StartActor() as start:
                    self._start(start)
                case ToActor(number, message):
                    if number in self._actors:
                        self._actors[number].send(message)
                case KillActor(number):
                    if number in self._actors:
                        self._actors[number].kill()
                case LeaveCluster():
                    return
                case message:
                    raise TypeError(f"the pool's process sent {message!r}")

    def came(self, device: ClusterDevice) -> None:
        self._pool.send(DeviceCame(device))

    def left(self, device: ClusterDevice, reason: str) -> None:
        self._pool.send(DeviceLeft(device, reason))

    def _start(self, start: StartActor) -> None:
        from voxyard.speech.cluster.ray_transport import RayWorker

        def report(message: FromWorker | ProcessEnded | StartRefused) -> None:
            actor = self._actors.get(start.number)
            if isinstance(message, ProcessEnded | StartRefused):
                self._actors.pop(start.number, None)
            self._pool.send(FromActor(start.number, None if actor is None else actor.pid, message))

        try:
            self._actors[start.number] = RayWorker(
                start.device, start.engine, start.heartbeat_seconds, report, section=self._section
            )
        except OSError as error:
            report(ProcessEnded(str(error), "left"))


def _run(pool: PoolConnection, join: JoinCluster) -> None:
    """Join the cluster, and relay until the pool's process has this one leave. Raises SpeechError."""
    access, name = join.access, f"service-{socket.gethostname()}-{os.getpid()}"

    def ended(reason: str) -> None:
        """Ray cannot connect a process again whose own node has ended."""
        pool.send(EngineFailed(f"its node here has ended ({reason})"))
        os._exit(ENGINE_FAILED)

    with ExitStack() as stack:
        node = stack.enter_context(Node(NodeSpec("service", access, access.own_address(), name), ended))
        node.start()
        os.environ |= access.environment()
        from voxyard.speech.cluster import ray_transport as transport

        _await_node(access, node, name, join.seconds)
        transport.connect(access, str(node.directory))
        node.in_use = True
        stack.callback(transport.disconnect)
        pool.send(Joined())
        relay = _Relay(pool, join.section)
        watcher = transport.HostWatcher(relay.came, relay.left)
        stack.callback(watcher.close)
        relay.serve()


def _await_node(access: ClusterAccess, node: Node, name: str, seconds: float) -> None:
    """Wait until the head knows this process's own node."""
    from voxyard.speech.cluster.ray_transport import read_hosts

    deadline = time.monotonic() + seconds
    while True:
        try:
            if any(host.name == name and host.alive for host in read_hosts(access)):
                return
            reason = f"its head {access.address} does not list this host yet"
        except SpeechError as error:
            reason = str(error)
        if time.monotonic() >= deadline:
            ended = f"; its node has ended: {node.last_end}" if node.last_end else ""
            raise SpeechError(f"the cluster could not be joined within {seconds:.0f} s: {reason}{ended}")
        time.sleep(_POLL_SECONDS)


def _beat(pool: PoolConnection) -> None:
    pause = threading.Event()
    while not pause.wait(BEAT_SECONDS):
        pool.send(Heartbeat())


def main(arguments: Sequence[str]) -> int:
    """Serve the pool's process at the other end of the file descriptor, and die with it."""
    if not end_with(int(arguments[1]), signal.SIGKILL):
        return POOL_GONE
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s cluster relay %(process)d: %(message)s")
    pool: PoolConnection = PoolConnection(Connection(int(arguments[0])))
    join = pool.receive()
    if not isinstance(join, JoinCluster):
        raise TypeError(f"the pool's process sent {join!r}, expected JoinCluster")
    threading.Thread(target=_beat, args=(pool,), daemon=True).start()
    try:
        _run(pool, join)
    except SpeechError as error:
        pool.send(EngineFailed(str(error)))
        return ENGINE_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
