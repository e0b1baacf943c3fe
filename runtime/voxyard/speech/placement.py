"""Which devices get a worker: usable GPUs with room for one, no more than the settings allow."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from voxyard.host import Gpu
from voxyard.speech.config import SpeechSection
from voxyard.speech.errors import SpeechError
from voxyard.speech.process import Device


def devices(wanted: str, gpus: Callable[[], Sequence[Gpu]], section: SpeechSection) -> tuple[Device, ...]:
    """The devices for `--device`: cpu, cuda, or auto, which takes the GPUs of a host that has any.

    On CPUs there are as many workers as the user asks for; without a word of the user's no more than cores.

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
    """A device for each worker, on GPUs that work and have the worker's memory free, in the order of their index.

    Raises:
        SpeechError: no GPU can take a worker.
    """
    refusals = {gpu.index: refusal(gpu, section.worker_memory_mib) for gpu in gpus}
    usable = [gpu for gpu in gpus if refusals[gpu.index] is None]
    if not usable:
        found = "; ".join(f"GPU {index}: {why}" for index, why in refusals.items()) or "there is no GPU"
        raise SpeechError(f"no GPU can take a worker: {found}; free one, lower --worker-memory, or take --device cpu")
    return tuple(Device(f"{gpu.index}", gpu.uuid or str(gpu.index)) for gpu in usable[: _most(section)])


def cpu_devices(section: SpeechSection) -> tuple[Device, ...]:
    """A device without a GPU for each worker that the settings ask for."""
    return tuple(Device(f"cpu{number}") for number in range(_most(section)))


def refusal(gpu: Gpu, needed_mib: int) -> str | None:
    """Why a GPU cannot take a worker now. A card that does not tell its free memory is given the chance."""
    if gpu.problem is not None:
        return gpu.problem
    if gpu.memory_free_mib is not None and gpu.memory_free_mib < needed_mib:
        return f"{gpu.memory_free_mib} MiB are free, a worker needs {needed_mib} MiB"
    return None


def admission(read: Callable[[], Sequence[Gpu]], section: SpeechSection) -> Callable[[Device], str | None]:
    """What a pool asks before each start: whether the device has the worker's memory free at that moment."""

    def admit(device: Device) -> str | None:
        if not device.visible:
            return None
        for gpu in read():
            if device.visible in (gpu.uuid, str(gpu.index)):
                return refusal(gpu, section.worker_memory_mib)
        return f"GPU {device.name} is not there any more"

    return admit


def _most(section: SpeechSection) -> int:
    return section.max_parallel_tts_workers if section.enable_parallel_tts else 1
