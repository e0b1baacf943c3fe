"""The order in which CUDA numbers the GPUs in this process, asked of the driver without making a context."""

from __future__ import annotations

import ctypes

from voxyard.host.errors import HostError

_LIBRARY = "libcuda.so.1"
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE, CUDA Driver API, enum CUresult


def cuda_bus_ids() -> tuple[str, ...]:
    """PCI bus ids in CUDA's order, of the devices that this process may see.

    CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES are read when CUDA is first asked in a process; later changes
    have no effect. Empty where there is no CUDA driver. Raises HostError with the driver's own words where it fails.
    """
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return ()
    started = library.cuInit(0)
    if started == _NO_DEVICE:
        return ()
    _check(library, "cuInit", started)
    count = ctypes.c_int()
    _check(library, "cuDeviceGetCount", library.cuDeviceGetCount(ctypes.byref(count)))
    return tuple(_bus_id(library, ordinal) for ordinal in range(count.value))


def _bus_id(library: ctypes.CDLL, ordinal: int) -> str:
    device = ctypes.c_int()
    _check(library, "cuDeviceGet", library.cuDeviceGet(ctypes.byref(device), ordinal))
    text = ctypes.create_string_buffer(32)
    _check(library, "cuDeviceGetPCIBusId", library.cuDeviceGetPCIBusId(text, len(text), device))
    return text.value.decode()


def _check(library: ctypes.CDLL, function: str, code: int) -> None:
    if code == 0:
        return
    words = ctypes.c_char_p()
    library.cuGetErrorString(code, ctypes.byref(words))
    said = words.value.decode() if words.value else "unknown error"
    raise HostError(f"CUDA's driver failed: {function} answered {code} ({said})")
