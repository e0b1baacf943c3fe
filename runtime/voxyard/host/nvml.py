"""NVIDIA's management library: a session that sorts its errors, and the host's GPUs as nvidia-smi numbers them."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from voxyard.host.errors import HostError

_MIB = 1024 * 1024

# nvml.h, enum nvmlReturn_t: what each group of codes means for a reader.
_NO_LIBRARY, _NO_DRIVER = 12, 9
UNSUPPORTED = frozenset({2, 3, 13, 21, 25, 26})  # argument, not supported, no function, no data, version, deprecated
_NOTHING = frozenset({("", 6), ("nvmlEventSetWait_v2", 10)})  # nothing was sampled; nothing happened
_LOST = frozenset({15, 16, 28})  # GPU is lost, needs a reset, is not found
_SESSION_LOST = frozenset({1, 9, 12, 18})  # uninitialized, no driver, no library, driver and library differ

UNKNOWN = frozenset({-1, 2**32 - 1, 2**64 - 1})
"""Numbers that stand for no value: all ones, as drivers answer though the call succeeds."""

TIMEOUT = 10
"""The nvmlReturn_t of a call that did not return in time."""

_FILLED = {"nvmlDeviceGetGpuFabricInfoV": "c_nvmlGpuFabricInfo_v2_t"}
"""Functions that nvidia-ml-py hands a structure of the caller's to fill, and its type: that is their answer here."""


class NvmlError(HostError):
    """NVML refused a call; `function` and `code` (nvmlReturn_t) say which and how."""

    def __init__(self, message: str, *, function: str, code: int) -> None:
        super().__init__(message)
        self.function, self.code = function, code


class GpuLostError(NvmlError):
    """This GPU no longer answers; the others may."""


class SessionLostError(NvmlError):
    """The driver no longer answers at all: it is gone, or was restarted; a new session is needed."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of this host, or one MIG instance. A value that the card or its driver does not report is None."""

    index: int  # nvidia-smi's; an instance has its GPU's
    uuid: str  # empty where the GPU does not even say who it is
    name: str
    pci_bus_id: str  # domain:bus:device.function, as NVML writes it
    memory_total_mib: int | None
    memory_free_mib: int | None
    compute_capability: tuple[int, int] | None
    mig: bool | None = None
    display_active: bool | None = None
    numa_node: int | None = None
    problem: str | None = None  # why it cannot be used, in the driver's words
    mig_instance: int | None = None  # number of a MIG instance on its GPU
    mig_gpu: str = ""  # UUID of the GPU that a MIG instance is part of

    @property
    def number(self) -> str:
        """The index; of a MIG instance `1:0`, the index and its number there, as NVIDIA's container toolkit has it."""
        return f"{self.index}" if self.mig_instance is None else f"{self.index}:{self.mig_instance}"

    def __str__(self) -> str:
        memory = "memory unknown" if self.memory_total_mib is None else f"{self.memory_total_mib} MiB"
        return f"{self.number}: {self.name}, {memory}, {self.uuid}" + (f" ({self.problem})" if self.problem else "")


class Session:
    """NVML held open, for any number of threads; it may be opened again after it was closed.

    `errors` counts what was refused, by function and code. `calling` is the latest call of each thread, by the thread's
    ident, and when it began (monotonic): of a thread that hangs, the call that does not return.
    """

    def __init__(self) -> None:
        import pynvml

        self._nvml: Any = pynvml
        self._functions: dict[str, Any] = {}
        self._counting = threading.Lock()
        self._gpm_samples: list[Any] = []  # of this session, to be freed with it
        self.errors: Counter[tuple[str, int]] = Counter()
        self.calling: dict[int, tuple[str, float]] = {}

    def __enter__(self) -> Self:
        """Raises SessionLostError where there is no library or driver, or the driver does not answer."""
        try:
            self._call("nvmlInit")
        except self._nvml.NVMLError as error:
            self.count("nvmlInit", error.value)
            raise SessionLostError(_broken("nvmlInit", error), function="nvmlInit", code=error.value) from error
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes NVML; ignores the refusal of a driver that is gone."""
        while self._gpm_samples:
            with suppress(self._nvml.NVMLError):
                self._call("nvmlGpmSampleFree", self._gpm_samples.pop())
        try:
            self._call("nvmlShutdown")
        except self._nvml.NVMLError as error:
            self.count("nvmlShutdown", error.value)

    def ask(self, function: str, *arguments: Any) -> Any:
        """Result of NVML's `function`; None where card or driver does not support it, or found nothing.

        Any other refusal is counted, and None too. Raises GpuLostError where the GPU is gone, SessionLostError where
        the driver is.
        """
        return self.attempt(function, *arguments)[1]

    def attempt(self, function: str, *arguments: Any) -> tuple[int, Any]:
        """NVML's code (nvmlReturn_t, 0: success) for `function`, and its answer as `ask` gives it."""
        try:
            answer = self._call(function, *arguments)
            return 0, None if isinstance(answer, int) and answer in UNKNOWN else answer
        except self._nvml.NVMLError as error:
            self._refused(function, error)
            return error.value, None

    def quietly(self, function: str, *arguments: Any, codes: Collection[int]) -> Any:
        """As `ask`, and these codes are no refusals either."""
        try:
            return self._call(function, *arguments)
        except self._nvml.NVMLError as error:
            if error.value not in codes:
                self._refused(function, error)
            return None

    def gpm_sample(self) -> Any:
        """Room for a sample of a GPU's activity, freed when the session is closed; None where NVML has none."""
        sample = self.ask("nvmlGpmSampleAlloc")
        if sample is not None:
            self._gpm_samples.append(sample)
        return sample

    def count(self, function: str, code: int) -> None:
        """One more refusal; TIMEOUT is a call that its caller gave up."""
        with self._counting:
            self.errors[function, code] += 1

    def refusal(self, function: str, code: int) -> str:
        """A refused call in NVML's words: function, sentence and code."""
        return f"{function}: {self._nvml.NVMLError(code)}, NVML code {code}"

    def handles(self) -> tuple[tuple[int, Any], ...]:
        """Index and handle of every GPU; None is the handle of one that is lost."""
        found = []
        for index in range(self.ask("nvmlDeviceGetCount") or 0):
            try:
                found.append((index, self.handle(index)))
            except GpuLostError:
                found.append((index, None))
        return tuple(found)

    def handle(self, index: int) -> Any:
        """The handle of a GPU. Raises GpuLostError where NVML does not give it, whatever its reason."""
        function = "nvmlDeviceGetHandleByIndex"
        code, handle = self.attempt(function, index)
        if handle is None:
            raise GpuLostError(self.refusal(function, code), function=function, code=code)
        return handle

    def gpu(self, index: int, handle: Any) -> Gpu:
        """Facts about one GPU; one that refuses to say its UUID has that as its problem. Raises GpuLostError."""
        memory = self._memory(handle)
        bus = self.ask("nvmlDeviceGetPciInfo", handle)
        mig = self.ask("nvmlDeviceGetMigMode", handle)
        code, uuid = self.attempt("nvmlDeviceGetUUID", handle)
        return Gpu(
            index=index,
            uuid=uuid or "",
            name=self.ask("nvmlDeviceGetName", handle) or "unknown",
            pci_bus_id="" if bus is None else _text(bus.busId),
            memory_total_mib=None if memory is None else memory.total // _MIB,
            memory_free_mib=None if memory is None else memory.free // _MIB,
            compute_capability=self.ask("nvmlDeviceGetCudaComputeCapability", handle),
            mig=None if mig is None else bool(mig[0]),
            display_active=_switch(self.ask("nvmlDeviceGetDisplayActive", handle)),
            numa_node=self.ask("nvmlDeviceGetNumaNodeId", handle),
            problem=None if uuid else f"does not say its UUID ({self.refusal('nvmlDeviceGetUUID', code)})",
        )

    def _memory(self, handle: Any) -> Any:
        """Memory of a GPU; None where it shares the host's (GB10), which some drivers tell as a total of 0."""
        found = self.ask("nvmlDeviceGetMemoryInfo", handle)
        return found if found is not None and 0 < found.total >= found.free else None

    def mig_handles(self, handle: Any) -> tuple[tuple[int, Any], ...]:
        """Number and handle of each MIG instance of a GPU, as far as this process may see them. Raises GpuLostError."""
        most = self.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0
        found = ((number, self.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)) for number in range(most))
        return tuple((number, instance) for number, instance in found if instance is not None)

    def mig_instances(self, gpu: Gpu, handle: Any) -> tuple[Gpu, ...]:
        """Facts about each MIG instance of a GPU; its UUID and memory are its own. Raises GpuLostError."""
        return tuple(self._mig_instance(gpu, number, each) for number, each in self.mig_handles(handle))

    def _mig_instance(self, gpu: Gpu, number: int, handle: Any) -> Gpu:
        memory = self._memory(handle)
        code, uuid = self.attempt("nvmlDeviceGetUUID", handle)
        return replace(
            gpu,
            uuid=uuid or "",
            name=self.ask("nvmlDeviceGetName", handle) or f"{gpu.name} MIG",
            memory_total_mib=None if memory is None else memory.total // _MIB,
            memory_free_mib=None if memory is None else memory.free // _MIB,
            mig=None,
            problem=None if uuid else f"does not say its UUID ({self.refusal('nvmlDeviceGetUUID', code)})",
            mig_instance=number,
            mig_gpu=gpu.uuid,
        )

    def _refused(self, function: str, error: Any) -> None:
        code: int = error.value
        if not refuses(function, code):
            return
        self.count(function, code)
        if code in _LOST:
            raise GpuLostError(str(error), function=function, code=code) from error
        if code in _SESSION_LOST:
            raise SessionLostError(_broken(function, error), function=function, code=code) from error

    def _call(self, name: str, *arguments: Any) -> Any:
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = getattr(self._nvml, name)
        self.calling[threading.get_ident()] = name, time.monotonic()
        if name == "nvmlGpmMetricsGet":
            return self._gpm_metrics(function, *arguments)
        if name not in _FILLED:
            return function(*arguments)
        answer = getattr(self._nvml, _FILLED[name])()
        function(*arguments, ctypes.byref(answer))
        return answer

    def _gpm_metrics(
        self, function: Any, before: Any, after: Any, wanted: Sequence[int]
    ) -> list[tuple[int, int, float]]:
        """Number, nvmlReturn_t and value of each metric between two samples: the rest of the structure is empty."""
        asked = self._nvml.c_nvmlGpmMetricsGet_t()
        asked.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics, asked.sample1, asked.sample2 = len(wanted), before, after
        for place, number in enumerate(wanted):
            asked.metrics[place].metricId = number
        function(asked)
        told = (asked.metrics[place] for place in range(len(wanted)))
        return [(each.metricId, each.nvmlReturn, each.value) for each in told]


def refuses(function: str, code: int) -> bool:
    """True where this nvmlReturn_t is a refusal: no answer, and neither unsupported nor empty."""
    return code != 0 and code not in UNSUPPORTED and not _NOTHING & {("", code), (function, code)}


def every_gpu() -> tuple[Gpu, ...]:
    """The GPUs of this host in nvidia-smi's order, a lost one with its problem; none without a library or driver.

    Raises HostError with NVML's own words where there is a driver that does not answer: a host whose GPUs are
    broken is not a host without GPUs.
    """
    return _listed(lambda session, index, handle: (_gpu(session, index, handle),))


def every_device() -> tuple[Gpu, ...]:
    """Devices that CUDA can use on this host: `every_gpu`, but in place of a GPU whose MIG mode is on, its instances.

    A GPU in MIG mode without an instance has that as its problem. Raises HostError as `every_gpu` does.
    """
    return _listed(_devices)


def _listed(of: Callable[[Session, int, Any], Sequence[Gpu]]) -> tuple[Gpu, ...]:
    try:
        with Session() as session:
            return tuple(gpu for index, handle in session.handles() for gpu in of(session, index, handle))
    except SessionLostError as error:
        if error.code in (_NO_LIBRARY, _NO_DRIVER):
            return ()
        raise


def gpus() -> tuple[Gpu, ...]:
    """`every_gpu`, for callers that will use them: raises HostError where one of them is lost."""
    found = every_gpu()
    for gpu in found:
        if gpu.problem is not None:
            raise HostError(
                f"GPU {gpu.index} does not answer ({gpu.problem}): reset it or take it out; "
                "voxyard gpus lists the others"
            )
    return found


def same_bus(one: str, other: str) -> bool:
    """True where two PCI bus ids name one device: NVML writes the domain with eight digits, CUDA with four."""
    return _bus_key(one) == _bus_key(other)


def handle_key(handle: Any) -> int:
    """Number that identifies a handle: NVML hands out the same pointer for the same GPU in one session."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _gpu(session: Session, index: int, handle: Any) -> Gpu:
    try:
        if handle is not None:
            return session.gpu(index, handle)
    except GpuLostError as error:
        return lost_gpu(index, str(error))
    return lost_gpu(index, "GPU is lost")


def _devices(session: Session, index: int, handle: Any) -> tuple[Gpu, ...]:
    gpu = _gpu(session, index, handle)
    if not gpu.mig or gpu.problem is not None:
        return (gpu,)
    try:
        instances = session.mig_instances(gpu, handle)
    except GpuLostError as error:
        return (lost_gpu(index, str(error)),)
    without = (
        "MIG is on and there is no instance: make one with "
        f"`nvidia-smi mig -i {index} -cgi PROFILE -C`, or turn MIG off with `nvidia-smi -i {index} -mig 0`"
    )
    return instances or (replace(gpu, problem=without),)


def lost_gpu(index: int, problem: str) -> Gpu:
    """A lost GPU, of which only the index is known."""
    return Gpu(index, "", "unknown", "", None, None, None, problem=problem)


def _switch(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _bus_key(bus_id: str) -> tuple[int, ...]:
    domain, bus, rest = bus_id.split(":")
    device, _, function = rest.partition(".")
    return int(domain, 16), int(bus, 16), int(device, 16), int(function or "0", 16)


def _broken(doing: str, error: Any) -> str:
    if error.value == _NO_LIBRARY:
        return "NVIDIA's library libnvidia-ml.so.1 is not on this machine: this needs a host with an NVIDIA driver"
    if error.value == _NO_DRIVER:
        return "NVIDIA's kernel driver is not loaded: if this host has GPUs, see what nvidia-smi says"
    return f"the NVIDIA driver does not answer ({doing}: {error}); if nvidia-smi says the same, repair it first"
