"""Memory limits, batch and buffers by GPU memory, under the policies `recommended` and `full`: arithmetic only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from voxyard.host.errors import HostError
from voxyard.host.nvml import Gpu

HEADROOM_MIB = 1024
"""Memory of context and cuDNN/cuBLAS workspaces beside TensorFlow's allocator on one GPU, as planned for."""

# What one Bark worker holds with everything it loads, by its authors' measurements (7.8, 2.4, 3.0 and 1.0 GB).
BARK_WORKER_MIB: Mapping[str, int] = {
    "large": 7988,
    "large-offload": 2458,
    "small": 3072,
    "small-offload": 1024,
}

Policy = Literal["recommended", "full"]
Profile = Literal["conservative", "source"]
Role = Literal["data", "model"]


class LimitsError(HostError):
    """Failure to derive a limit for a GPU: the reason, and what to do."""


_NOMINAL_GB = (1, 2, 4, 6, 8, 10, 12, 16, 24, 32, 40, 48, 64, 80)
_TOLERANCE = 0.08
_MOST_BATCH = 48


@dataclass(frozen=True, slots=True)
class RecommendedLimits:
    """Settings for a card, as the data GPU or as the model GPU."""

    batch_size: int
    data_limit_mib: int
    model_limit_mib: int
    ring_slots: int
    buffer_size: int  # batches of host-side prefetch

    def limit_mib(self, role: Role) -> int:
        """The memory limit of the card in this role."""
        return self.data_limit_mib if role == "data" else self.model_limit_mib


_CLASSES = {
    12: RecommendedLimits(8, 4096, 8192, 6, 50),
    16: RecommendedLimits(12, 6144, 10240, 4, 50),
    24: RecommendedLimits(16, 8192, 16384, 3, 50),
}


# Batch and buffer by a second published table, the quick start's, where it differs from the memory matrix above.
_QUICK_START_SMALL_BATCH = 16  # below 12 GB
_QUICK_START_BATCH, _QUICK_START_BUFFER = 48, 100  # from 24 GB


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting for which the two published tables differ: their values, the one that is taken, and why."""

    setting: str
    taken: int
    memory_matrix: int
    quick_start: int
    why: str

    def __str__(self) -> str:
        tables = f"memory matrix {self.memory_matrix}, quick start {self.quick_start}"
        return f"{self.setting} {self.taken} ({tables}): {self.why}"


def choices(model_mib: int, profile: Profile = "conservative") -> tuple[Choice, ...]:
    """What the tables give a model GPU of this size differently; the profile `source` takes the quick start's.

    Not below 12 GB: there no profile gives a card more clips than the next larger one has.
    """
    size, matrix = nominal_gb(model_mib), recommend(model_mib)
    if size < min(_CLASSES):
        why = f"the memory matrix gives {_CLASSES[12].batch_size} to a card of 12 GB, and a smaller one takes no more"
        return (Choice("batch", matrix.batch_size, matrix.batch_size, _QUICK_START_SMALL_BATCH, why),)
    if size < max(_CLASSES):
        return ()
    if profile == "source":
        why = "as asked; `voxyard train --describe` has what a model takes with it"
    else:
        why = "it leaves room for larger models and longer clips; --profile source takes the other"
    pairs = (("batch", matrix.batch_size, _QUICK_START_BATCH), ("buffer", matrix.buffer_size, _QUICK_START_BUFFER))
    return tuple(
        Choice(setting, other if profile == "source" else ours, ours, other, why)
        for setting, ours, other in pairs
        if ours != other
    )


def nominal_gb(total_mib: int) -> int:
    """The size on the box of a card that reports `total_mib` (a 4090 reports 24,564 MiB, an A10 23,028).

    It is the nearest nominal size within 8% of the report, otherwise the next lower; 0 below the smallest.
    """
    nearest = min(_NOMINAL_GB, key=lambda size: abs(size * 1024 - total_mib))
    if abs(nearest * 1024 - total_mib) <= _TOLERANCE * total_mib:
        return nearest
    return max((size for size in _NOMINAL_GB if size * 1024 <= total_mib), default=0)


def recommend(total_mib: int) -> RecommendedLimits:
    """Settings for a card of this memory size: its limit in either role, and all else where it is the model GPU."""
    size, third = nominal_gb(total_mib), total_mib // 3
    if size < min(_CLASSES):
        return RecommendedLimits(8, third, 2 * third, _CLASSES[12].ring_slots, 25)
    if size > max(_CLASSES):
        return RecommendedLimits(min(_MOST_BATCH, 16 * size // 24), third, 2 * third, _CLASSES[24].ring_slots, 100)
    return _CLASSES[max(name for name in _CLASSES if name <= size)]


# -- for real cards ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CardLimit:
    """Memory limit of one GPU of the trainer. `bark_mib` stays free for a Bark worker on the same card."""

    index: int  # nvidia-smi's
    uuid: str
    name: str
    memory_total_mib: int
    memory_free_mib: int
    limit_mib: int
    bark_mib: int = 0


@dataclass(frozen=True, slots=True)
class TrainerLimits:
    """All that a host's plan sets for a trainer; without a data GPU it is in single mode."""

    policy: Policy
    data: CardLimit | None
    model: CardLimit
    batch_size: int
    ring_slots: int
    buffer_size: int  # batches of host-side prefetch


def bark_worker_mib(asked: str) -> int:
    """The memory to leave for a Bark worker: MiB as a number, or a model's name. Raises LimitsError."""
    if asked.isascii() and asked.isdigit():
        return int(asked)
    if asked not in BARK_WORKER_MIB:
        raise LimitsError(f"{asked!r} is no Bark model: expected a number of MiB, or {', '.join(BARK_WORKER_MIB)}")
    return BARK_WORKER_MIB[asked]


def recommended_mib(gpu: Gpu, role: Role) -> int:
    """The limit that the policy `recommended` gives this card in this role while nothing else runs on it.

    Raises LimitsError where the card does not report its memory.
    """
    total, _ = _memory(gpu)
    return recommend(total).limit_mib(role)


def limits_for(
    data: Gpu | None,
    model: Gpu,
    *,
    policy: Policy = "recommended",
    profile: Profile = "conservative",
    shared_with_bark_mib: int = 0,
) -> TrainerLimits:
    """Limits for a trainer on these cards, never above what is free less the headroom.

    `profile` decides where the published tables differ (see `choices`). With `shared_with_bark_mib` as much is left
    for a Bark worker on each card, and the policy `full`, which takes a card that one has to oneself, limits as
    `recommended` does. Raises LimitsError where nothing is left.
    """
    total, _ = _memory(model)
    by_model = recommend(total)
    taken = {choice.setting: choice.taken for choice in choices(total, profile)}
    return TrainerLimits(
        policy=policy,
        data=None if data is None else _limit(data, "data", policy, shared_with_bark_mib),
        model=_limit(model, "model", policy, shared_with_bark_mib),
        batch_size=taken.get("batch", by_model.batch_size),
        ring_slots=by_model.ring_slots,
        buffer_size=taken.get("buffer", by_model.buffer_size),
    )


def bark_limit_mib(gpu: Gpu, *, policy: Policy = "recommended", shared_mib: int = 0) -> int:
    """Memory limit of a Bark worker's allocator on a card, in MiB; context and libraries come on top, as headroom.

    On a card of its own: as much as a model's under the policy `recommended`, all but the headroom under `full`. With
    `shared_mib`, what a trainer leaves for all of the worker: that, less the headroom. Raises LimitsError where
    nothing is left, or the card does not report its memory.
    """
    total, free = _memory(gpu)
    left = (shared_mib or free) - HEADROOM_MIB
    limit = left if shared_mib or policy == "full" else min(recommended_mib(gpu, "model"), left)
    if limit < 1:
        raise LimitsError(
            f"GPU {gpu.index} ({gpu.name}) has only {free} of {total} MiB free, which leaves nothing for Bark beside "
            f"{HEADROOM_MIB} MiB of headroom: free the card, or take another"
        )
    return limit


def _limit(gpu: Gpu, role: Role, policy: Policy, bark_mib: int) -> CardLimit:
    total, free = _memory(gpu)
    left = free - HEADROOM_MIB - bark_mib
    limit = left if policy == "full" and not bark_mib else min(recommended_mib(gpu, role), left)
    if limit < 1:
        beside = f" and {bark_mib} MiB for Bark" if bark_mib else ""
        raise LimitsError(
            f"GPU {gpu.index} ({gpu.name}) has only {free} of {total} MiB free, which leaves nothing beside "
            f"{HEADROOM_MIB} MiB of headroom{beside}: free the card, or take another"
        )
    return CardLimit(gpu.index, gpu.uuid, gpu.name, total, free, limit, bark_mib)


def _memory(gpu: Gpu) -> tuple[int, int]:
    """Total and free MiB."""
    if gpu.memory_total_mib is None or gpu.memory_free_mib is None:
        raise LimitsError(
            f"the driver does not report the memory of GPU {gpu.index} ({gpu.name}), so no limit follows: "
            "take another GPU, or set the limits by hand"
        )
    return gpu.memory_total_mib, gpu.memory_free_mib
