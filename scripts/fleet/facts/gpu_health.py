"""Health of GPUs, from the facts of a host: faults that a card needs a reset, a reboot or a replacement for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet.facts.gpu_use import XidError
from fleet.facts.gpus import HostGpu, short_bus_id
from voxyard.host.xid_catalog import numbers

CRITICAL_XIDS = frozenset(numbers("critical"))  # as in the alert GpuXidCritical
XID_SECONDS = 24 * 3600.0  # older errors are considered handled


def has_memory_fault(gpu: HostGpu) -> bool:
    """True for uncorrectable ECC errors and for a row remapping that failed or is pending."""
    return bool(gpu.ecc_uncorrected or gpu.remap_failed or gpu.remap_pending)


def recent_critical(xids: Iterable[XidError]) -> tuple[XidError, ...]:
    """Critical errors of the last day, and those of this start of the host whose age is not known."""
    return tuple(each for each in xids if each.xid in CRITICAL_XIDS and (each.age_seconds or 0.0) < XID_SECONDS)


def gpu_of(error: XidError, gpus: Sequence[HostGpu]) -> HostGpu | None:
    """GPU that an error names; None where nvidia-smi does not list it."""
    at = short_bus_id(error.bus_id) if names_a_gpu(error) else error.bus_id
    return next((gpu for gpu in gpus if short_bus_id(gpu.pci_bus_id).rpartition(".")[0] == at), None)


def names_a_gpu(error: XidError) -> bool:
    """True where the error has a PCI address, such as 0000:41:00."""
    return error.bus_id.count(":") == 2
