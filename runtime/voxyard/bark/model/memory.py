"""Batch limit of a device: free memory minus weights and activations, divided by the cache of a row."""

from __future__ import annotations

from dataclasses import dataclass

from voxyard.bark.errors import BarkError

MOST_ROWS = 128
PREFILL_ROWS = 8  # of one prefill on a GPU, at most
CODES = 1024  # of a codebook
RESERVE = 0.1  # of the free memory, for fragmentation and other processes
MIB = 2**20


@dataclass(frozen=True)
class Footprint:
    """Bytes that a model takes on its device."""

    weights: int
    activations: int
    row: int  # keys and values of one row of the batch, of all stages in memory at a time

    def holds(self, rows: int, free: int) -> bool:
        """True where so many rows fit into so many free bytes."""
        return self.weights + self.activations + rows * self.row <= free * (1 - RESERVE)

    def rows(self, free: int) -> int:
        """Rows that fit into so many free bytes, at most 128.

        Raises:
            BarkError: not even one does.
        """
        left = free * (1 - RESERVE) - self.weights - self.activations
        rows = int(left // self.row)
        if rows < 1:
            needed = (self.weights + self.activations + self.row) / (1 - RESERVE)
            raise BarkError(
                f"{free / MIB:.0f} MiB are free on the device, Bark needs {needed / MIB:.0f} MiB for one row: "
                "free some, or choose the small model, 8-bit weights (--int8), an 8-bit "
                "cache (--kv-cache int8) or --offload"
            )
        return min(MOST_ROWS, rows)


def row_bytes(layers: int, heads: int, hidden: int, block: int, element: int, *, in_8_bits: bool = False) -> int:
    """Keys and values of a row in one stage: 96 MiB of the large one in bfloat16 (24 × 2 × 1024 × 1024 × 2 bytes).

    In 8 bits with a scale for each head and position: 49.5 MiB.
    """
    return layers * 2 * block * (hidden + heads * element if in_8_bits else hidden * element)


def activation_bytes(hidden: int, block: int, vocabulary: int, element: int, *, rows: int, check_every: int) -> int:
    """Peak activations: the windows of one prefill and of the fine stage, and the noise of a block of steps.

    A window goes through an MLP and attention. The fine stage's graph keeps the memory of its window and its noise.
    """
    windows = (min(rows, PREFILL_ROWS) + 1) * block * hidden * (4 + 3 + 4) * element
    noise = (rows * check_every * vocabulary + block * CODES) * 4 * 3
    return windows + noise
