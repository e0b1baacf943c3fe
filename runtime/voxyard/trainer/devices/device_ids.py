"""Device ids as a user gives them: which devices they name, and the refusals when they name none."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from voxyard.host.nvml import Gpu
from voxyard.host.plan import listing
from voxyard.settings import TypedCommand, flags_of, settings_of, typed_command
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.cuda_kernels import UNKNOWN_KERNELS, CudaKernels
from voxyard.trainer.errors import TrainerError

Placement = Literal["single", "split", "mirrored"]
Role = Literal["data", "model"]

INSUFFICIENT = "Insufficient GPUs for Multi-GPU Mode"


@dataclass(frozen=True, slots=True)
class HostDevices:
    """Devices of this host, from which a run is planned."""

    gpus: tuple[Gpu, ...]  # in NVML's order, which is nvidia-smi's
    cuda_bus_ids: tuple[str, ...]  # in CUDA's order in this process
    cuda_build: bool  # whether the installed TensorFlow can use GPUs at all
    cores: int  # that this process may use
    cuda_visible_devices: str | None = None
    kernels: CudaKernels = UNKNOWN_KERNELS  # of the installed TensorFlow
    ordered: bool = False  # CUDA's order was chosen for this run: the model GPU first


@dataclass(frozen=True, slots=True)
class AvailableDevice:
    """A device that can be assigned: TensorFlow's physical number, and the index that a user gives."""

    number: int
    index: int
    gpu: Gpu | None = None

    def matches(self, asked: int | str) -> bool:
        """True where `asked` (an index, or a UUID in full) names this device."""
        text = str(asked).strip()
        if text.isdigit():
            return int(text) == self.index
        return self.gpu is not None and text.lower() == self.gpu.uuid.lower()


@dataclass(frozen=True, slots=True)
class RefusalText:
    """Texts of a refusal, for GPUs or for logical CPU devices."""

    insufficient: str
    least: str
    advice: str  # what there is, and the command for one device


def gpu_refusal(config: TrainConfig, host: HostDevices, found: int) -> RefusalText:
    """Refusals that list the host's GPUs."""
    hidden = (
        f"\nCUDA_VISIBLE_DEVICES={host.cuda_visible_devices} hides some of them from this process."
        if found < len(host.gpus)
        else ""
    )
    return RefusalText(
        INSUFFICIENT,
        f"Multi-GPU requires at least 2 GPUs, found {found}",
        f"{listing(host.gpus)}{hidden}\nOn a single GPU instead: {command(config, '')}",
    )


def cpu_refusal(config: TrainConfig, found: int) -> RefusalText:
    """Refusals that name the logical CPU devices."""
    there = "1 logical CPU device (0)" if found == 1 else f"{found} logical CPU devices (0 to {found - 1})"
    return RefusalText(
        "Insufficient devices for Multi-GPU Mode on the CPU",
        f"it requires at least 2 logical CPU devices, found {found}",
        f"found {there}: for more, raise --cpu-devices\nOn a single device instead: {command(config, '--device cpu')}",
    )


def select_devices(
    config: TrainConfig, strategy: Placement, candidates: Sequence[AvailableDevice], words: RefusalText
) -> list[tuple[Role, AvailableDevice]]:
    """The devices that the configuration names, by role; all of them in mirrored mode.

    Raises TrainerError where an id is missing, unknown or given twice, or where there are too few devices.
    """
    data_id, model_id = config.data.data_gpu, config.data.model_gpu
    if strategy == "single":
        return [
            (
                "model",
                candidates[0] if model_id is None else _named("--model-gpu", model_id, candidates, words),
            )
        ]
    if len(candidates) < 2:
        _refuse(words, words.least)
    if strategy == "mirrored":
        return [("model", one) for one in candidates]
    if data_id is None and model_id is None:
        _refuse(words, "--strategy split needs both ids: add --data-gpu ID --model-gpu ID")
    if data_id is None:
        _refuse(words, "--model-gpu was given without --data-gpu, and a split needs both")
    if model_id is None:
        _refuse(words, "--data-gpu was given without --model-gpu, and a split needs both")
    data = _named("--data-gpu", data_id, candidates, words)
    model = _named("--model-gpu", model_id, candidates, words)
    if data == model:
        _refuse(words, f"--data-gpu {data_id} and --model-gpu {model_id} are one device, and a split needs two")
    return [("data", data), ("model", model)]


def command(config: TrainConfig, flags: str) -> str:
    """A command to use instead: the one that was typed, its settings kept, with other devices, which `flags` names."""
    every = frozenset(each.key for each in settings_of(TrainConfig))
    typed = typed_command() or TypedCommand(_TRAIN, (), every)
    data = config.data.train_data
    corpus = () if data is None and typed.words != _TRAIN else ("--train-data", "DIR" if data is None else str(data))
    kept = flags_of(config, leave_out=_REPLACED | (every - typed.settings))
    return f"{shlex.join((*typed.words, *corpus, *kept, *typed.own))} {flags}".rstrip()


_TRAIN = ("voxyard", "train")
_REPLACED = frozenset(
    {
        "data.train_data", "data.data_gpu", "data.model_gpu", "training.device", "training.strategy", "training.auto",
        "training.vocoder_on", "training.enable_memory_isolation", "training.data_gpu_memory",
        "training.model_gpu_memory",
    }
)  # fmt: skip


def _named(flag: str, asked: int | str, candidates: Sequence[AvailableDevice], words: RefusalText) -> AvailableDevice:
    found = next((one for one in candidates if one.matches(asked)), None)
    if found is None:
        _refuse(words, f"{flag} {asked} is not a device here")
    return found


def _refuse(words: RefusalText, reason: str) -> NoReturn:
    raise TrainerError(f"{words.insufficient}: {reason}\n{words.advice}")
