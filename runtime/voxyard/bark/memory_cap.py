"""Memory limit of a worker's tensors on a GPU, enforced with torch's own cap."""

from __future__ import annotations

import os
import re
from typing import Any

from voxyard.bark.errors import BarkError

MIB = 2**20
_EXPECTED = "expected MiB as a number, or UUID=MiB (GPU-… or MIG-…) with commas between"


def cap_mib(asked: str | None, visible: str) -> int | None:
    """Limit in MiB of the GPU that `visible` (CUDA_VISIBLE_DEVICES) names; None: no limit.

    Raises:
        BarkError: `asked` is no number, or lists GPUs and not this one.
    """
    entries = _entries(asked)
    if not entries or "" in entries:
        return entries.get("")
    uuid = visible.strip().lower()
    if uuid not in entries:
        raise BarkError(
            f"gpu_memory names {', '.join(entries)}, this worker is on {visible or 'no GPU'}: name its UUID too, "
            "or give one number for all"
        )
    return entries[uuid]


def apply_cap(asked: str | None, cuda: Any) -> int | None:
    """Limit torch's allocator on the worker's GPU; the limit in MiB, None where none is set.

    `cuda` is torch.cuda. CUDA's context and libraries add some hundreds of MiB.

    Raises:
        BarkError: the cap cannot be read, or is more than the GPU has.
    """
    cap = cap_mib(asked, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    if cap is None:
        return None
    total = int(cuda.get_device_properties(0).total_memory)
    if cap * MIB > total:
        raise BarkError(
            f"gpu_memory is {cap} MiB, the GPU has {total // MIB} MiB: set less, or leave it out for no limit"
        )
    cuda.set_per_process_memory_fraction(cap * MIB / total, 0)
    return cap


def within_cap(room: int, asked: str | None) -> int:
    """The smaller of `room` and the limit, in bytes. Raises BarkError as `cap_mib` does."""
    cap = cap_mib(asked, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    return room if cap is None else min(room, cap * MIB)


def smallest_cap_mib(asked: str | None) -> int | None:
    """The smallest of the limits of all GPUs, in MiB; None: no limit. Raises BarkError where it cannot be read."""
    return min(_entries(asked).values(), default=None)


def _entries(asked: str | None) -> dict[str, int]:
    """MiB by UUID; the UUID of a number alone is empty. Raises BarkError."""
    parts = [_entry(part) for part in asked.split(",")] if asked and asked.strip() else []
    entries = dict(parts)
    if "" in entries and len(parts) > 1:
        raise BarkError(f"gpu_memory is {asked!r}, which mixes a number with others: {_EXPECTED}")
    if len(entries) < len(parts):
        raise BarkError(f"gpu_memory is {asked!r}, which names a GPU twice: {_EXPECTED}")
    return entries


def _entry(text: str) -> tuple[str, int]:
    """UUID and MiB of one part; the UUID is empty for a number alone."""
    uuid, _, mib = text.strip().rpartition("=")
    if not re.fullmatch(r"[0-9]{1,9}", mib) or int(mib) < 1 or ("=" in text and not uuid.strip()):
        raise BarkError(f"gpu_memory contains {text.strip()!r}: {_EXPECTED}")
    return uuid.strip().lower(), int(mib)
