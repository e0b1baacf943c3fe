"""Messages between the pool's process and the one that talks to Ray, over their pipe."""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.speech.cluster.access import ClusterAccess
from voxyard.speech.cluster.devices import ClusterDevice
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.ipc import EngineFailed, FromWorker, Heartbeat, ToWorker
from voxyard.speech.pool.transport import StartRefused
from voxyard.speech.pool.worker_process import ProcessEnded


@dataclass(frozen=True)
class JoinCluster:
    """To the relay, first: the cluster, and how long to wait for it."""

    access: ClusterAccess
    section: SpeechSection
    seconds: float


@dataclass(frozen=True)
class StartActor:
    """To the relay: start a worker on a device; its messages have this number."""

    number: int
    device: ClusterDevice
    engine: EngineSpec
    heartbeat_seconds: float


@dataclass(frozen=True)
class ToActor:
    """To the relay: pass a message on."""

    number: int
    message: ToWorker


@dataclass(frozen=True)
class KillActor:
    """To the relay: kill a worker at once."""

    number: int


@dataclass(frozen=True)
class LeaveCluster:
    """To the relay: end in order."""


@dataclass(frozen=True)
class Joined:
    """From the relay: it is connected to the cluster."""


@dataclass(frozen=True)
class DeviceCame:
    """From the relay: a host has joined with this device."""

    device: ClusterDevice


@dataclass(frozen=True)
class DeviceLeft:
    """From the relay: a device has gone with its host."""

    device: ClusterDevice
    reason: str


@dataclass(frozen=True)
class FromActor:
    """From the relay: what a worker says, with the id of its process on its host once that is known."""

    number: int
    pid: int | None
    message: FromWorker | ProcessEnded | StartRefused


FromRelay = Joined | DeviceCame | DeviceLeft | FromActor | Heartbeat | EngineFailed
ToRelay = JoinCluster | StartActor | ToActor | KillActor | LeaveCluster
