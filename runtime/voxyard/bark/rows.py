"""Rows of a batch on a GPU: those at the knee of the throughput curve, or as many as a memory budget holds.

The number of rows may change the order of sums and so the last digits of a chunk's audio. `auto` therefore does not
follow the memory that happens to be free, which differs between the workers of a pool and from one start to the next,
but the card's total and the limit that is set, and takes one of few sizes: every worker on the same kind of card
decodes the same rows, and 1, 2 or N workers make the same bytes. Only where so much is not free now are there fewer,
and then the worker's facts, its log and each chunk's facts say so.
"""

from __future__ import annotations

import logging

import torch

from voxyard.bark.config import BarkConfig
from voxyard.bark.memory_cap import MIB, smallest_cap_mib
from voxyard.bark.model.memory import MOST_ROWS, Footprint
from voxyard.bark.stages import available_bytes, footprint
from voxyard.bark.weights.checkpoint import BarkCheckpoint

_log = logging.getLogger(__name__)

SIZES = tuple(1 << power for power in range(MOST_ROWS.bit_length() - 1, -1, -1))  # 128, 64 … 1
KNEE_ROWS = 16
"""Rows up to which a doubling pays. On an H100 the time for a second of audio is a ÷ rows + b (1, 8 and 64 rows were
measured: 213, 38.8 and 16.8 ms); a row's own cost b and its share of the common cost are equal at a ÷ b = 15 rows."""
CONTEXT_BYTES = 1 << 30  # of a card: CUDA's context and libraries, and what the driver keeps


def choose_rows(checkpoint: BarkCheckpoint, config: BarkConfig, device: str, most: int = MOST_ROWS) -> tuple[int, int]:
    """Rows of this worker, at most `most`, and the rows that the settings mean: more where too little memory is free.

    Raises:
        BarkError: there is not enough free memory for one row.
    """
    meant = config.rows
    if device != "cuda":
        return min(meant, most), meant
    free = available_bytes(checkpoint, config)
    if config.batch_size == "auto":
        _, total = torch.cuda.mem_get_info()
        limit = smallest_cap_mib(config.gpu_memory)
        room = total - CONTEXT_BYTES if limit is None else min(total - CONTEXT_BYTES, limit * MIB)
        wanted = KNEE_ROWS
        if config.memory_budget is not None:
            wanted, room = MOST_ROWS, min(room, int(config.memory_budget * 2**30) - CONTEXT_BYTES)
        meant = rows_within(checkpoint, config, room, wanted)
    if meant <= most and _holds(checkpoint, config, meant, free):
        return meant, meant
    rows = rows_within(checkpoint, config, free, min(meant, most))
    _log.warning(
        "batch size %d instead of %d, as %.1f GiB are available on the GPU: the audio of a seed may differ in its last "
        "digits; --batch-size %d makes it the same on every start",
        rows, meant, free / 2**30, rows,
    )  # fmt: skip
    return rows, meant


def rows_within(checkpoint: BarkCheckpoint, config: BarkConfig, room: int, most: int) -> int:
    """The largest of the sizes up to `most` that fits with the model into so many bytes.

    Raises:
        BarkError: not even one row does.
    """
    for rows in SIZES:
        if rows <= most and _holds(checkpoint, config, rows, room):
            return rows
    return _footprint(checkpoint, config, 1).rows(room)  # raises, as not even one row fits


def _holds(checkpoint: BarkCheckpoint, config: BarkConfig, rows: int, room: int) -> bool:
    return _footprint(checkpoint, config, rows).holds(rows, room)


def _footprint(checkpoint: BarkCheckpoint, config: BarkConfig, rows: int) -> Footprint:
    return footprint(checkpoint, config.model_copy(update={"batch_size": rows}))
