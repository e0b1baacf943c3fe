"""Opens a pool from its settings, on this host or over a cluster: devices, admission, metrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from voxyard.host.gpu_choice import VISIBLE
from voxyard.host.nvml import Gpu, every_device
from voxyard.host.out_of_work import OutOfWork
from voxyard.speech.config import SpeechSection
from voxyard.speech.engine import EngineSpec
from voxyard.speech.errors import SpeechError
from voxyard.speech.placement import Admission, Refusal, choose_devices
from voxyard.speech.pool.metrics import PoolMetrics
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.transport import Launch
from voxyard.speech.pool.worker_process import Device, WorkerProcess

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

EVERY = 10**6  # workers: more than any cluster has
SERVERS = "servers"
"""Device of an engine that speaks on other servers, as its settings name them."""


@contextmanager
def open_pool(
    engine: EngineSpec,
    section: SpeechSection,
    device: str,
    *,
    workload: str,
    registry: CollectorRegistry | None = None,
    warm: int | Literal["all"] = 0,
    parks: bool = False,
    idle_release: float | None = None,
    keep_warm: int = 0,
    gpus: Callable[[], Sequence[Gpu]] = every_device,
) -> Iterator[Pool]:
    """The pool of this host on `device` (cpu, cuda, auto or SERVERS), or of a cluster; its workers end with the block.

    With a registry it exports metrics `voxyard_<workload>_*` there, and the GPUs that it uses, each from its first
    worker on. `warm` workers keep the model loaded even without work; after `idle_release` seconds without any, only
    `keep_warm` of them. Of the GPUs,
    those are used that `--gpus` and CUDA_VISIBLE_DEVICES of this process leave. In a cluster, hosts choose their
    devices as they join; while there is none, chunks wait for `cluster_wait`, with `parks` for ever.

    Raises:
        SpeechError: no device can ever take a worker, or the cluster cannot be used.
        HostError: the GPUs cannot be read, or one that is named is not there.
    """
    rest = replace(section.limits(), idle_release=idle_release, keep_warm=keep_warm)
    if section.pool == "ray":
        from voxyard.speech.cluster.cluster_pool import cluster_pool

        waits = replace(
            rest,
            warm_workers=EVERY if warm == "all" else warm,
            worker_wait=None if parks else section.cluster_wait,
        )
        with (
            _observed(workload, (), tuple, registry) as (observer, _, _),
            cluster_pool(engine, section, waits, observer) as pool,
        ):
            yield pool
        return
    if section.cluster is not None:
        raise SpeechError(f"--cluster {section.cluster} has no effect with --pool local: add --pool ray")
    launch: Launch = WorkerProcess
    if device == SERVERS:
        from voxyard.speech.remote.worker import RemoteWorker, devices

        launch, chosen = partial(RemoteWorker, doubts={}), devices(engine)
        rest = replace(rest, idle_release=None)  # they hold no memory here, and look whether their servers are there
    else:
        chosen = choose_devices(device, gpus, section, os.environ.get(VISIBLE))
    limits = replace(rest, warm_workers=len(chosen) if warm == "all" else min(warm, len(chosen)))
    admission = Admission(gpus, section, sick=OutOfWork.of_host())
    with _observed(workload, chosen, gpus, registry) as (observer, claim, release):

        def admit_and_claim(device: Device) -> Refusal | None:
            refusal = admission(device)
            if refusal is None:
                claim(device)
            return refusal

        pool = Pool(
            engine, chosen,
            limits=limits, observer=observer, admit=admit_and_claim, recalled=admission.recalled, launch=launch,
            released=release,
        )  # fmt: skip
        try:
            yield pool
        finally:
            pool.close()


@contextmanager
def _observed(
    workload: str, chosen: Sequence[Device], gpus: Callable[[], Sequence[Gpu]], registry: CollectorRegistry | None
) -> Iterator[tuple[PoolMetrics, Callable[[Device], None], Callable[[Device], None]]]:
    """Observer of the pool, and functions that record a device as used by it, and as not used any more."""
    if registry is None:
        yield PoolMetrics(), lambda _: None, lambda _: None
        return
    from voxyard.telemetry.workloads import WorkloadGpus

    held = WorkloadGpus(registry, workload)
    cards = (
        {name: gpu for gpu in gpus() for name in (gpu.uuid, gpu.number)}
        if any(device.visible for device in chosen)
        else {}
    )

    def claim(device: Device) -> None:
        if device.visible in cards:
            held.assign(workload, cards[device.visible])

    def release(device: Device) -> None:
        if device.visible in cards:
            held.release(cards[device.visible])

    try:
        yield PoolMetrics(registry, engine=workload), claim, release
    finally:
        held.release()
