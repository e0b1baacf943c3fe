"""Recommended batch, allocator limits and buffers by GPU memory: policy `recommended`, arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass

OVERHEAD_MIB = 1024
"""What context and cuDNN/cuBLAS workspaces take beside TensorFlow's allocator on one GPU, as planned for."""

_NOMINAL_GB = (1, 2, 4, 6, 8, 10, 12, 16, 24, 32, 40, 48, 64, 80)
_TOLERANCE = 0.08
_MOST_BATCH = 48


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Settings for one data GPU and one model GPU (the same card twice in single mode)."""

    batch_size: int
    data_limit_mib: int
    model_limit_mib: int
    ring_slots: int
    buffer_size: int  # batches of host-side prefetch


@dataclass(frozen=True, slots=True)
class _Class:
    batch_size: int
    data_limit_mib: int
    model_limit_mib: int
    ring_slots: int
    buffer_size: int


_CLASSES = {
    12: _Class(8, 4096, 8192, 6, 50),
    16: _Class(12, 6144, 10240, 4, 50),
    24: _Class(16, 8192, 16384, 3, 50),
}


def nominal_gb(total_mib: int) -> int:
    """The size on the box of a card that reports `total_mib` (a 4090 reports 24,564 MiB, an A10 23,028).

    It is the nearest nominal size within 8% of the report, otherwise the next lower; 0 below the smallest.
    """
    nearest = min(_NOMINAL_GB, key=lambda size: abs(size * 1024 - total_mib))
    if abs(nearest * 1024 - total_mib) <= _TOLERANCE * total_mib:
        return nearest
    return max((size for size in _NOMINAL_GB if size * 1024 <= total_mib), default=0)


def recommend(
    data_mib: int, model_mib: int, *, data_free_mib: int | None = None, model_free_mib: int | None = None
) -> Recommendation:
    """Settings for two cards of these memory sizes: each limit by its own card, all else by the model GPU.

    Where the free memory is given, no limit exceeds it less the overhead of context and libraries.
    """
    data, model = _class(data_mib), _class(model_mib)
    return Recommendation(
        batch_size=model.batch_size,
        data_limit_mib=_within(data.data_limit_mib, data_free_mib),
        model_limit_mib=_within(model.model_limit_mib, model_free_mib),
        ring_slots=model.ring_slots,
        buffer_size=model.buffer_size,
    )


def _class(total_mib: int) -> _Class:
    size = nominal_gb(total_mib)
    third = total_mib // 3
    if size < min(_CLASSES):
        return _Class(8, third, 2 * third, _CLASSES[12].ring_slots, 25)
    if size > max(_CLASSES):
        return _Class(min(_MOST_BATCH, 16 * size // 24), third, 2 * third, _CLASSES[24].ring_slots, 100)
    return _CLASSES[max(name for name in _CLASSES if name <= size)]


def _within(limit_mib: int, free_mib: int | None) -> int:
    return limit_mib if free_mib is None else max(0, min(limit_mib, free_mib - OVERHEAD_MIB))
