"""Worker placement: GPUs with the memory for a worker, up to the configured number."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from voxyard.host import Gpu
from voxyard.host.errors import HostError
from voxyard.host.readings import Process, processes_on
from voxyard.speech.config import SpeechSection
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.worker_process import Device

RefusalCause = Literal["memory", "fault", "missing", "driver"]


@dataclass(frozen=True)
class Refusal:
    """Reason why a GPU cannot take a worker yet: cause for a metric, message for people."""

    cause: RefusalCause
    message: str


def choose_devices(wanted: str, gpus: Callable[[], Sequence[Gpu]], section: SpeechSection) -> tuple[Device, ...]:
    """The devices for `--device`: cpu, cuda, or auto, which takes the GPUs of a host that has any.

    On CPUs there are as many workers as the user asks for; by default no more than cores.

    Raises:
        SpeechError: no GPU can take a worker.
    """
    found = () if wanted == "cpu" else gpus()
    if wanted == "cuda" or found:
        return gpu_devices(found, section)
    chosen = "max_parallel_tts_workers" in section.model_fields_set
    workers = cpu_devices(section)
    return workers if chosen else workers[: os.cpu_count() or 1]


def gpu_devices(gpus: Sequence[Gpu], section: SpeechSection) -> tuple[Device, ...]:
    """A device for each worker, on GPUs that work: first those that have the worker's memory free at this moment.

    The others come after them, each in the order of its index: their workers start when the memory is free.

    Raises:
        SpeechError: no GPU can ever take a worker.
    """
    if not gpus:
        raise SpeechError("no GPU can take a worker: there is no GPU; take --device cpu")
    needed = section.worker_memory_mib
    refusals = {gpu.index: _permanent_refusal(gpu, needed) for gpu in gpus}
    usable = [gpu for gpu in gpus if refusals[gpu.index] is None]
    if not usable:
        found = "; ".join(f"GPU {index}: {why}" for index, why in refusals.items())
        raise SpeechError(f"no GPU can take a worker: {found}; lower --worker-memory, or take --device cpu")
    usable.sort(key=lambda gpu: refusal(gpu, needed) is not None)
    return tuple(Device(f"{gpu.index}", gpu.uuid or str(gpu.index)) for gpu in usable[: _max_workers(section)])


def cpu_devices(section: SpeechSection) -> tuple[Device, ...]:
    """A device without a GPU for each worker that the settings ask for."""
    return tuple(Device(f"cpu{number}") for number in range(_max_workers(section)))


def refusal(gpu: Gpu, needed_mib: int, holders: Callable[[int], Sequence[Process]] = lambda _: ()) -> Refusal | None:
    """Reason why a GPU cannot take a worker now. A card that does not report its free memory is tried.

    `holders` gives the processes that hold memory of a GPU, by its index.
    """
    if gpu.problem is not None:
        return Refusal("fault", f"GPU {gpu.index}: {gpu.problem}")
    if gpu.memory_free_mib is not None and gpu.memory_free_mib < needed_mib:
        held = ", ".join(
            f"{each.name} (process {each.pid}) {each.memory_bytes >> 20} MiB" for each in holders(gpu.index)
        )
        return Refusal(
            "memory",
            f"GPU {gpu.index}: {gpu.memory_free_mib} MiB are free, a worker needs {needed_mib} MiB"
            + (f"; held by {held}" if held else ""),
        )
    return None


def admission(
    read: Callable[[], Sequence[Gpu]],
    section: SpeechSection,
    holders: Callable[[int], Sequence[Process]] = processes_on,
) -> Callable[[Device], Refusal | None]:
    """Admission check before each start of a worker: the device has the worker's memory free at that moment."""

    def admit(device: Device) -> Refusal | None:
        if not device.visible:
            return None
        try:
            for gpu in read():
                if device.visible in (gpu.uuid, str(gpu.index)):
                    return refusal(gpu, section.worker_memory_mib, holders)
        except HostError as error:
            return Refusal("driver", f"GPU {device.name}: {error}")
        return Refusal("missing", f"GPU {device.name} is not there any more")

    return admit


def _permanent_refusal(gpu: Gpu, needed_mib: int) -> str | None:
    """Reason why a GPU can never take a worker; None where it can."""
    if gpu.problem is not None:
        return gpu.problem
    if gpu.memory_total_mib is not None and gpu.memory_total_mib < needed_mib:
        return f"it has {gpu.memory_total_mib} MiB in all, a worker needs {needed_mib} MiB"
    return None


def _max_workers(section: SpeechSection) -> int:
    return section.max_parallel_tts_workers if section.enable_parallel_tts else 1
