"""Memory limit of a worker's tensors on a GPU, enforced with torch's own cap."""

from __future__ import annotations

import os
import re
from typing import Any

from voxyard.bark.errors import BarkError

MIB = 2**20
_EXPECTED = "expected MiB as a number, or GPU-…=MiB with commas between"


def cap_mib(asked: str | None, visible: str) -> int | None:
    """The cap in MiB for the GPU that `visible` (CUDA_VISIBLE_DEVICES) names; None: there is none.

    Raises:
        BarkError: `asked` is no number, or lists GPUs and not this one.
    """
    if asked is None or not asked.strip():
        return None
    entries = dict(_entry(part) for part in asked.split(","))
    if "" in entries:
        if len(entries) > 1:
            raise BarkError(f"gpu_memory is {asked!r}, which mixes both: {_EXPECTED}")
        return entries[""]
    uuid = visible.strip().lower()
    if uuid not in entries:
        raise BarkError(
            f"gpu_memory names {', '.join(entries)}, this worker is on {visible or 'no GPU'}: name its UUID too, "
            "or give one number for all"
        )
    return entries[uuid]


def apply_cap(asked: str | None, cuda: Any) -> int | None:
    """Cap what torch's allocator takes of the worker's GPU; the cap in MiB, None where none is asked for.

    `cuda` is torch.cuda. CUDA's context and libraries come on top: some hundreds of MiB.

    Raises:
        BarkError: the cap cannot be read, or is more than the card has.
    """
    cap = cap_mib(asked, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    if cap is None:
        return None
    total = int(cuda.get_device_properties(0).total_memory)
    if cap * MIB > total:
        raise BarkError(
            f"gpu_memory is {cap} MiB, the card has {total // MIB} MiB: give less, or leave it out for no limit"
        )
    cuda.set_per_process_memory_fraction(cap * MIB / total, 0)
    return cap


def within_cap(room: int, asked: str | None) -> int:
    """So many bytes, or the cap where that is less. Raises BarkError as `cap_mib` does."""
    cap = cap_mib(asked, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    return room if cap is None else min(room, cap * MIB)


def _entry(text: str) -> tuple[str, int]:
    """One part, as UUID and MiB; the UUID is empty for a number alone."""
    uuid, _, mib = text.strip().rpartition("=")
    if not re.fullmatch(r"[0-9]{1,9}", mib) or int(mib) < 1 or ("=" in text and not uuid.strip()):
        raise BarkError(f"gpu_memory holds {text.strip()!r}: {_EXPECTED}")
    return uuid.strip().lower(), int(mib)
