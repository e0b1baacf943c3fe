"""A relay without Ray: its cluster is this machine, its devices' workers are processes here.

Run as ClusterLink runs the real one. A token file that is named "refused" is not taken.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from voxyard.host.signal_handlers import end_with
from voxyard.speech.cluster.devices import ClusterDevice
from voxyard.speech.cluster.relay_messages import (
    DeviceCame,
    FromActor,
    JoinCluster,
    Joined,
    KillActor,
    StartActor,
    ToActor,
)
from voxyard.speech.pool.ipc import EngineFailed, FromWorker, Heartbeat
from voxyard.speech.pool.worker import PoolConnection
from voxyard.speech.pool.worker_process import Device, ProcessEnded, WorkerProcess

DEVICES = tuple(ClusterDevice(f"{host}/cpu0", "", host, "voxyard-device-0") for host in ("host1", "host2"))


def main() -> None:
    assert end_with(int(sys.argv[2]), signal.SIGKILL)
    pool = PoolConnection(Connection(int(sys.argv[1])))
    join = pool.receive()
    assert isinstance(join, JoinCluster)
    if join.access.token is not None and join.access.token.name == "refused":
        pool.send(EngineFailed("the cluster's head takes another token"))
        return
    pool.send(Joined())
    for device in DEVICES:
        pool.send(DeviceCame(device))
    threading.Thread(target=_beat, args=(pool,), daemon=True).start()
    workers: dict[int, WorkerProcess] = {}
    while True:
        match pool.receive():
            case StartActor(number, device, engine, seconds):
                workers[number] = WorkerProcess(
                    Device(device.name), engine, seconds, _reporter(pool, number), die_with_parent=True
                )
            case ToActor(number, message):
                workers[number].send(message)
            case KillActor(number):
                workers[number].kill()
            case _:
                return


def _reporter(pool: PoolConnection, number: int) -> Callable[[FromWorker | ProcessEnded], None]:
    return lambda said: pool.send(FromActor(number, None, said))


def _beat(pool: PoolConnection) -> None:
    while True:
        time.sleep(0.1)
        pool.send(Heartbeat())


if __name__ == "__main__":
    main()
