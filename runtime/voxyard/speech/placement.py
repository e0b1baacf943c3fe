"""Worker placement: GPUs with the memory for a worker, up to the configured number."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from voxyard.host.errors import HostError
from voxyard.host.gpu_choice import choose_gpus
from voxyard.host.nvml import Gpu
from voxyard.host.out_of_work import OutOfWork, SickDevices
from voxyard.host.readings import Process, processes_on
from voxyard.speech.config import SpeechSection
from voxyard.speech.errors import SpeechError
from voxyard.speech.pool.worker_process import Device

_log = logging.getLogger(__name__)

NO_GPU = "there is no GPU; take --device cpu"

RefusalCause = Literal["memory", "fault", "missing", "driver", "sick"]


@dataclass(frozen=True)
class Refusal:
    """Reason why a device cannot take a worker yet: cause for a metric, message for people."""

    cause: RefusalCause
    message: str
    wait: float = 0.0  # seconds after which it can take one at the earliest, where it says so


def choose_devices(
    wanted: str,
    gpus: Callable[[], Sequence[Gpu]],
    section: SpeechSection,
    visible: str | None = None,
    *,
    cores: int | None = None,
) -> tuple[Device, ...]:
    """The devices for `--device`: cpu, cuda, or auto, which takes the GPUs of a host that has any.

    `gpus` gives the host's devices, of which `--gpus` and `visible` (CUDA_VISIBLE_DEVICES, None: not set) choose some.
    On the CPU there are no more workers than `cores`, by default those of the host.

    Raises:
        SpeechError: no GPU can take a worker, or GPUs are named for the CPU.
        HostError: a GPU that is named is not there, or hidden.
    """
    if wanted == "cpu":
        if section.gpus is not None:
            raise SpeechError(f"--gpus {section.gpus} names GPUs and --device cpu takes none: leave one of them out")
        return _cpu_workers(section, cores)
    found = gpus()
    named = None if section.gpus is None else str(section.gpus)
    chosen = choose_gpus(found, named, visible) if found or named is not None else ()
    if wanted == "cuda" or chosen:
        hidden = f"CUDA_VISIBLE_DEVICES={visible} hides every GPU of this host; unset it, or take --device cpu"
        return gpu_devices(chosen, section, hidden if found else NO_GPU)
    if found:
        _log.info("CUDA_VISIBLE_DEVICES=%s hides every GPU of this host: the CPU speaks", visible)
    return _cpu_workers(section, cores)


def gpu_devices(gpus: Sequence[Gpu], section: SpeechSection, none: str = NO_GPU) -> tuple[Device, ...]:
    """A device for each worker, on GPUs that work: first those that have the worker's memory free at this moment.

    The others come after them, each in the order given: their workers start when the memory is free. `none` is the
    reason where there are no GPUs.

    Raises:
        SpeechError: no GPU can ever take a worker.
    """
    if not gpus:
        raise SpeechError(f"no GPU can take a worker: {none}")
    needed = section.worker_memory_mib
    refusals = [(gpu, _permanent_refusal(gpu, needed)) for gpu in gpus]
    usable = [gpu for gpu, why in refusals if why is None]
    if not usable:
        found = "; ".join(f"GPU {gpu.number}: {why}" for gpu, why in refusals)
        small = any(gpu.problem is None for gpu in gpus)
        remedy = (
            "lower --worker-memory, or take --device cpu" if small else "repair or name others, or take --device cpu"
        )
        raise SpeechError(f"no GPU can take a worker: {found}; {remedy}")
    for gpu, why in refusals:
        if why is not None:
            _log.warning("GPU %s takes no worker: %s", gpu.number, why)
    usable.sort(key=lambda gpu: refusal(gpu, needed) is not None)
    named = section.gpus is not None and "max_parallel_tts_workers" not in section.model_fields_set
    most = len(usable) if named and section.enable_parallel_tts else _max_workers(section)
    _warn_of_different_kinds(usable[:most])
    return tuple(Device(gpu.number, gpu.uuid or gpu.number) for gpu in usable[:most])


def _warn_of_different_kinds(gpus: Sequence[Gpu]) -> None:
    """Log that one seed has no one sound on these GPUs, where they differ; those of one kind compute the same."""
    kinds: dict[tuple[str, int | None], list[Gpu]] = {}
    for gpu in gpus:
        kinds.setdefault((gpu.name, gpu.memory_total_mib), []).append(gpu)
    if len(kinds) > 1:
        largest = max(kinds.values(), key=len)
        _log.warning(
            "the workers' GPUs differ (%s): the batch size auto and the last digits of a chunk's audio depend on the "
            "GPU that speaks it; with --gpus %s the same seed gives the same audio",
            "; ".join(f"{gpu.number}: {gpu.name}, {gpu.memory_total_mib or 'unknown'} MiB" for gpu in gpus),
            ",".join(gpu.number for gpu in largest),
        )


def cpu_devices(section: SpeechSection) -> tuple[Device, ...]:
    """A device without a GPU for each worker that the settings ask for."""
    return tuple(Device(f"cpu{number}") for number in range(_max_workers(section)))


def refusal(gpu: Gpu, needed_mib: int, holders: Callable[[Gpu], Sequence[Process]] = lambda _: ()) -> Refusal | None:
    """Reason why a GPU cannot take a worker now. A card that does not report its free memory is tried.

    `holders` gives the processes that hold memory of a GPU.
    """
    if gpu.problem is not None:
        return Refusal("fault", f"GPU {gpu.number}: {gpu.problem}")
    if gpu.memory_free_mib is not None and gpu.memory_free_mib < needed_mib:
        held = ", ".join(f"{each.name} (process {each.pid}) {each.memory_bytes >> 20} MiB" for each in holders(gpu))
        return Refusal(
            "memory",
            f"GPU {gpu.number}: {gpu.memory_free_mib} MiB are free, a worker needs {needed_mib} MiB"
            + (f"; held by {held}" if held else ""),
        )
    return None


class Admission:
    """Admission of workers to their devices: before each start, and as long as they run.

    A worker starts where its device has the worker's memory free at that moment. It neither starts nor goes on where
    its GPU is out of work, by the host's file; after a reset the self-test is run first, in a process of its own.
    """

    def __init__(
        self,
        read: Callable[[], Sequence[Gpu]],
        section: SpeechSection,
        holders: Callable[[Gpu], Sequence[Process]] = lambda gpu: processes_on(gpu.index, gpu.mig_instance),
        sick: OutOfWork | None = None,
    ) -> None:
        self._read, self._needed, self._holders = read, section.worker_memory_mib, holders
        self._sick = SickDevices(sick) if sick is not None else None
        self._gpus: dict[str, Gpu] = {}  # of the devices that were admitted

    def __call__(self, device: Device) -> Refusal | None:
        """Why a worker cannot start there now; None where it can."""
        if not device.visible:
            return None
        try:
            for gpu in self._read():
                if device.visible in (gpu.uuid, gpu.number):
                    self._gpus[device.visible] = gpu
                    return self._sick_now(gpu, test=True) or refusal(gpu, self._needed, self._holders)
        except HostError as error:
            return Refusal("driver", f"GPU {device.name}: {error}")
        return Refusal("missing", f"GPU {device.name} is not there any more")

    def recalled(self, device: Device) -> Refusal | None:
        """Why a worker that runs there has to end; None where it may go on. It costs one look at a file."""
        gpu = self._gpus.get(device.visible)
        return None if gpu is None else self._sick_now(gpu)

    def _sick_now(self, gpu: Gpu, *, test: bool = False) -> Refusal | None:
        found = None if self._sick is None else self._sick.why(gpu, test=test)
        return None if found is None else Refusal("sick", found)


def _permanent_refusal(gpu: Gpu, needed_mib: int) -> str | None:
    """Reason why a GPU can never take a worker; None where it can."""
    if gpu.problem is not None:
        return gpu.problem
    if gpu.memory_total_mib is not None and gpu.memory_total_mib < needed_mib:
        return f"it has {gpu.memory_total_mib} MiB in all, a worker needs {needed_mib} MiB"
    return None


def _cpu_workers(section: SpeechSection, cores: int | None) -> tuple[Device, ...]:
    workers, cores = cpu_devices(section), cores or os.cpu_count() or 1
    if len(workers) > cores and "max_parallel_tts_workers" in section.model_fields_set:
        had, start = ("CPU core", "1 worker starts") if cores == 1 else ("CPU cores", f"{cores} workers start")
        _log.warning("%d workers are asked for, and this host has %d %s: %s", len(workers), cores, had, start)
    return workers[:cores]


def _max_workers(section: SpeechSection) -> int:
    return section.max_parallel_tts_workers if section.enable_parallel_tts else 1
