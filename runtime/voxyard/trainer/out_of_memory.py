"""A device without memory for a step, in words: what was asked for, what is in force, and what takes less."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from voxyard.host.limits import HEADROOM_MIB
from voxyard.host.nvml import Gpu
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.reporting.figures import sized
from voxyard.trainer.sampler import Bucket

if TYPE_CHECKING:
    from voxyard.trainer.devices.tensorflow_setup import Devices

OUT_OF_MEMORY: Final = 71  # exit code: EX_OSERR of sysexits.h
DOES_NOT_FIT: Final = "it does not fit"  # what a trial of --strategy auto says of itself
_WORDS = ("RESOURCE_EXHAUSTED", "CUDA_ERROR_OUT_OF_MEMORY", "CUDNN_STATUS_ALLOC_FAILED")
_TENSOR = re.compile(r"tensor with shape\[([\d,]*)\] and type (\w+)")
_PLACE = re.compile(r"/device:(?:GPU|CPU):\d+")
_SIZE = re.compile(r"allocate ([\d.]+)\s?(bytes|[KMGT]iB|B)\b")
_UNITS = {"bytes": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_WIDTHS = {"double": 8, "int64": 8, "complex64": 8, "float": 4, "int32": 4, "half": 2, "bfloat16": 2, "bool": 1}


class OutOfMemoryError(TrainerError):
    """A device had no memory left for a step. `what` says so in one line, the whole message what to do."""

    def __init__(self, what: str, message: str) -> None:
        super().__init__(message, exit_code=OUT_OF_MEMORY)
        self.what = what


@dataclass(frozen=True)
class Asked:
    """What TensorFlow could not allocate, as far as its message says."""

    size: float | None = None  # bytes
    tensor: str | None = None
    device: str | None = None

    @classmethod
    def of_message(cls, message: str) -> Asked:
        """Found in the words of its allocator (a tensor, a device) or of XLA's (a number of bytes)."""
        place, tensor, size = _PLACE.search(message), _TENSOR.search(message), _SIZE.search(message)
        device = None if place is None else place[0]
        if tensor is not None:
            dimensions = [int(each) for each in tensor[1].split(",") if each]
            width = _WIDTHS.get(tensor[2])
            told = f"{' × '.join(map(str, dimensions)) or 'scalar'} {tensor[2]}"
            return cls(None if width is None else float(width * math.prod(dimensions)), told, device)
        return cls(None if size is None else float(size[1]) * _UNITS[size[2]], None, device)

    def __str__(self) -> str:
        parts = ([] if self.size is None else [sized(self.size)]) + ([] if self.tensor is None else [self.tensor])
        return f"asked for {': '.join(parts)}" if parts else "TensorFlow does not say how much was asked for"


@dataclass(frozen=True)
class Doing:
    """What a run did when the memory was gone."""

    what: str  # such as `in step 12`
    bucket: Bucket | None = None
    taken: Mapping[str, float] | None = None  # the most bytes that the allocator of a device held, by device


def is_out_of_memory(error: BaseException) -> bool:
    """True of the errors with which TensorFlow, XLA and cuDNN say that a device has no memory left."""
    if isinstance(error, OutOfMemoryError) or type(error).__name__ == "ResourceExhaustedError":
        return True
    return hasattr(error, "error_code") and any(word in str(error) for word in _WORDS)


@contextmanager
def told_out_of_memory(
    config: TrainConfig, devices: Devices, doing: Callable[[], Doing], rescue: Callable[[], str]
) -> Iterator[None]:
    """Scope in which a device without memory is an OutOfMemoryError; `rescue` keeps what can be kept, and says so."""
    try:
        yield
    except OutOfMemoryError:
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory(str(error), config, devices, doing(), rescue()) from error


def out_of_memory(message: str, config: TrainConfig, devices: Devices, doing: Doing, kept: str) -> OutOfMemoryError:
    """The error for TensorFlow's `message`; `kept` says what became of the state."""
    asked = Asked.of_message(message)
    role = _role(asked.device, devices)
    device = asked.device or (devices.data if role == "data" else devices.model)
    gpu = next((gpu for of, gpu in devices.cards if of == role), None)
    where = f"the {role} device" + (f", GPU {gpu.index} ({gpu.name})" if gpu is not None else f" ({device})")
    limit = devices.limits.get(role)
    in_force = [f"at most {sized(taken)} were taken there"] if (taken := (doing.taken or {}).get(device)) else []
    if limit is not None:
        in_force += [f"a limit of {limit} MiB in force"]
    if gpu is not None and gpu.memory_total_mib is not None:
        in_force += [f"{gpu.memory_total_mib} MiB on the card, {gpu.memory_free_mib} free at the start"]
    what = f"out of memory {doing.what} on {where}: {'; '.join([str(asked), *in_force])}"
    bucket = doing.bucket
    batch = f"{devices.batch_size} clips on a device" + (
        f", bucket of {bucket.frames} frames × {bucket.tokens} tokens" if bucket is not None else ""
    )
    advice = "\n".join(f"  {flags:<32}  {why}" for flags, why in takes_less(config, devices, role, gpu))
    return OutOfMemoryError(what, f"{what}\nThe batch: {batch}.\nWhat takes less, in this order:\n{advice}\n{kept}")


def takes_less(config: TrainConfig, devices: Devices, role: str, gpu: Gpu | None) -> Sequence[tuple[str, str]]:
    """Flags with this run's numbers that take less memory on a role's device, and why; what costs least comes first."""
    training, data = config.training, config.data
    limit, rows, count = devices.limits.get(role), training.batch_size or devices.batch_size, training.grad_accum
    found = []
    if rows > 1:
        half = next(part for part in range(2, rows + 1) if rows % part == 0)
        found.append(
            (f"--batch-size {rows // half} --grad-accum {count * half}", "as many clips in an update, fewer at once")
        )
    if data.prefetch_buffer_size > 1:
        found.append(("--prefetch-buffer-size 1", f"batches on the model device, {data.prefetch_buffer_size} now"))
    if devices.kind == "cpu" and data.pipeline_buffer_size > 1:
        fewer = f"--buffer-size {max(1, data.pipeline_buffer_size // 4)}"
        found.append((fewer, f"batches in host memory, {data.pipeline_buffer_size} now"))
    if not training.recompute and config.model.module is None:
        found.append(("--recompute", "activations are computed again in place of kept: a step takes longer"))
    free = None if gpu is None else gpu.memory_free_mib
    if limit is not None and free is not None and (most := free - HEADROOM_MIB) > limit:
        why = (
            f"{limit} now; {free} MiB were free on the card at the start, less {HEADROOM_MIB} for context and libraries"
        )
        found.append((f"--{role}-gpu-memory {most}", why))
    return found


def _role(device: str | None, devices: Devices) -> str:
    return "data" if device == devices.data and devices.data != devices.model else "model"
