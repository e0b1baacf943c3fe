"""The host's GPUs as NVIDIA's management library numbers them, which is how nvidia-smi does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from voxyard.host.errors import HostError

if TYPE_CHECKING:
    from types import ModuleType

Value = TypeVar("Value")

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of this host. A value that the card or its driver does not report is None."""

    index: int  # nvidia-smi's
    uuid: str
    name: str
    pci_bus_id: str  # domain:bus:device.function, as NVML writes it
    memory_total_mib: int | None
    memory_free_mib: int | None
    compute_capability: tuple[int, int] | None

    def __str__(self) -> str:
        memory = "memory unknown" if self.memory_total_mib is None else f"{self.memory_total_mib} MiB"
        return f"{self.index}: {self.name}, {memory}, {self.uuid}"


def gpus() -> tuple[Gpu, ...]:
    """The GPUs of this host in nvidia-smi's order; none where there is no NVIDIA library or driver at all.

    Raises HostError with NVML's own words where there is a driver that does not answer: a host whose GPUs are
    broken is not a host without GPUs.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return ()
    except pynvml.NVMLError as error:
        raise HostError(_broken("nvmlInit", error)) from error
    try:
        return tuple(_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError as error:
        raise HostError(_broken("listing the GPUs", error)) from error
    finally:
        pynvml.nvmlShutdown()


def same_bus(one: str, other: str) -> bool:
    """Whether two PCI bus ids name one device: NVML writes the domain with eight digits, CUDA with four."""
    return _bus_key(one) == _bus_key(other)


def _gpu(pynvml: ModuleType, index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = _if_supported(pynvml, lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    return Gpu(
        index=index,
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=pynvml.nvmlDeviceGetName(handle),
        pci_bus_id=_text(pynvml.nvmlDeviceGetPciInfo(handle).busId),
        memory_total_mib=None if memory is None else memory.total // _MIB,
        memory_free_mib=None if memory is None else memory.free // _MIB,
        compute_capability=_if_supported(pynvml, lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
    )


def _if_supported(pynvml: ModuleType, ask: Callable[[], Value]) -> Value | None:
    try:
        return ask()
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _bus_key(bus_id: str) -> tuple[int, ...]:
    domain, bus, rest = bus_id.split(":")
    device, _, function = rest.partition(".")
    return int(domain, 16), int(bus, 16), int(device, 16), int(function or "0", 16)


def _broken(doing: str, error: Exception) -> str:
    return f"the NVIDIA driver does not answer ({doing}: {error}); if nvidia-smi says the same, repair it first"
