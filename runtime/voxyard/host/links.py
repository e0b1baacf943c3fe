"""GPU links of this host as NVML reports them, with the names that `nvidia-smi topo -m` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from voxyard.host.nvml import UNSUPPORTED, GpuLostError, Session, same_bus

_LEVELS = {0: "PSB", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}  # nvml.h, enum nvmlGpuTopologyLevel_t
_MOST_LANES = 36  # nvml.h, NVML_NVLINK_MAX_LINKS
_SWITCH = 2  # nvml.h, NVML_NVLINK_DEVICE_TYPE_SWITCH


def read_links(session: Session, gpus: Sequence[tuple[str, str, Any]]) -> dict[tuple[str, str], str]:
    """The link of each two GPUs, given as (UUID, PCI bus id, handle): by both orders of their UUIDs.

    A pair that NVML says nothing of, or of which one GPU was lost meanwhile, is left out.
    """
    lanes = {uuid: _lanes(session, handle, [bus for _, bus, _ in gpus]) for uuid, bus, handle in gpus}
    links: dict[tuple[str, str], str] = {}
    for (one, one_bus, one_handle), (other, other_bus, other_handle) in combinations(gpus, 2):
        count = _between(lanes[one], one_bus, lanes[other], other_bus)
        link = f"NV{count}" if count else _level(session, one_handle, other_handle)
        if link is not None:
            links[one, other] = links[other, one] = link
    return links


def _between(one: Mapping[str, int], one_bus: str, other: Mapping[str, int], other_bus: str) -> int:
    """NVLinks between two GPUs: direct ones, else those that both have into the switches."""
    direct = max(one.get(other_bus, 0), other.get(one_bus, 0))
    return direct or min(one.get("switch", 0), other.get("switch", 0))


def _lanes(session: Session, handle: Any, buses: Sequence[str]) -> dict[str, int]:
    """Active NVLinks of a GPU, by the bus id of the GPU at the other end, or `switch`."""
    found: dict[str, int] = {}
    try:
        for lane in range(_MOST_LANES):
            code, active = session.attempt("nvmlDeviceGetNvLinkState", handle, lane)
            if code in UNSUPPORTED:
                break
            if active:
                end = _other_end(session, handle, lane, buses)
                found[end] = found.get(end, 0) + 1
    except GpuLostError:
        return {}
    return found


def _other_end(session: Session, handle: Any, lane: int, buses: Sequence[str]) -> str:
    if session.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, lane) == _SWITCH:
        return "switch"
    remote = session.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, lane)
    if remote is None:
        return "unknown"
    bus = remote.busId.decode() if isinstance(remote.busId, bytes) else str(remote.busId)
    return next((known for known in buses if same_bus(known, bus)), "unknown")


def _level(session: Session, one: Any, other: Any) -> str | None:
    try:
        return _LEVELS.get(session.ask("nvmlDeviceGetTopologyCommonAncestor", one, other))
    except GpuLostError:
        return None
