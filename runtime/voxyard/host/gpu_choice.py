"""Choice of GPUs: what a user names (`--gpus`), within what CUDA_VISIBLE_DEVICES leaves."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from voxyard.host.errors import HostError
from voxyard.host.nvml import Gpu

_log = logging.getLogger(__name__)

VISIBLE = "CUDA_VISIBLE_DEVICES"
_EXPECTED = "expected numbers of nvidia-smi such as 0,2, or UUIDs (GPU-…, MIG-…, as `nvidia-smi -L` lists them)"


def choose_gpus(devices: Sequence[Gpu], named: str | None, visible: str | None) -> tuple[Gpu, ...]:
    """The devices that `named` lists, in its order; without it those of `visible`, in its order; else all.

    `devices` are the host's (`every_device`), `visible` is CUDA_VISIBLE_DEVICES of this process, None where it is not
    set. Both list numbers or UUIDs with commas between; the beginning of a UUID is enough where no other has it.
    Numbers are nvidia-smi's in both, so in the order of the PCI bus: `named` is not counted within `visible`. A GPU
    whose MIG mode is on stands for all its instances; `1:0` is one of them.

    As in CUDA, an empty variable, -1 or a text that is neither number nor UUID ends the list of the variable. Other
    than in CUDA, a GPU in it that does not exist, or stands there twice, is an error: CUDA hides GPUs without a word.

    Raises:
        HostError: a GPU is named that does not exist, is named twice, or is hidden by the variable.
    """
    allowed = tuple(devices) if visible is None else _visible(devices, visible)
    if named is None:
        return allowed
    chosen: list[Gpu] = []
    for entry in (each.strip() for each in named.split(",")):
        found = _find(devices, entry, f"--gpus {named}")
        hidden = [gpu for gpu in found if gpu not in allowed]
        if hidden:
            raise HostError(
                f"--gpus {named}: {VISIBLE}={visible} hides {entry}; name a GPU that it leaves "
                f"({_listed(allowed)}), or unset it"
            )
        _add(chosen, found, f"--gpus {named} names {entry} twice: name each GPU once")
    return tuple(chosen)


def _visible(devices: Sequence[Gpu], visible: str) -> tuple[Gpu, ...]:
    """The devices that CUDA_VISIBLE_DEVICES leaves, in its order."""
    source = f"{VISIBLE}={visible}"
    left: list[Gpu] = []
    for entry in (each.strip() for each in visible.split(",")):
        if not re.fullmatch(r"[0-9]+", entry) and not entry.upper().startswith(("GPU-", "MIG-")):
            if not re.fullmatch(r"(-[0-9]+)?", entry):
                _log.warning("%s: %r is no GPU; as in CUDA, the list ends before it", source, entry)
            break
        twice = f"{source} names {entry} twice, with which CUDA sees no GPU at all: name each GPU once"
        _add(left, _find(devices, entry, source), twice)
    return tuple(left)


def _add(chosen: list[Gpu], found: Sequence[Gpu], twice: str) -> None:
    if any(gpu in chosen for gpu in found):
        raise HostError(twice)
    chosen += found


def _find(devices: Sequence[Gpu], entry: str, source: str) -> tuple[Gpu, ...]:
    """The device of a number or UUID, or the instances of the GPU that it names. Raises HostError."""
    if re.fullmatch(r"[0-9]+(:[0-9]+)?", entry):
        found = tuple(gpu for gpu in devices if entry in (gpu.number, str(gpu.index)))
    elif entry.upper().startswith(("GPU-", "MIG-")):
        uuids = {uuid for gpu in devices for uuid in (gpu.uuid, gpu.mig_gpu) if uuid}
        meant = [uuid for uuid in uuids if uuid.lower() == entry.lower()] or [
            uuid for uuid in uuids if uuid.lower().startswith(entry.lower())
        ]
        if len(meant) > 1:
            raise HostError(f"{source}: {entry} is the beginning of {' and of '.join(sorted(meant))}: write more of it")
        found = tuple(gpu for gpu in devices if {gpu.uuid, gpu.mig_gpu} & set(meant))
    else:
        raise HostError(f"{source}: found {entry!r}, {_EXPECTED}")
    if not found:
        raise HostError(f"{source}: this host has no GPU {entry}; it has {_listed(devices)}")
    return found


def _listed(devices: Sequence[Gpu]) -> str:
    return "; ".join(str(gpu) for gpu in devices) or "none"
