"""Device of a worker: its choice and precision, errors of a full one, memory that an idle one gives back."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from voxyard.bark.config import BarkConfig
from voxyard.bark.errors import BarkError
from voxyard.bark.weights.checkpoint import Precision


def choose_device(config: BarkConfig) -> tuple[str, Precision]:
    """Device and precision that the settings mean on this machine.

    Raises:
        BarkError: a GPU is asked for where torch sees none, or a setting of GPUs on a CPU.
    """
    seen = torch.cuda.is_available()
    if config.device == "cuda" and not seen:
        raise BarkError(f"torch sees no GPU, but one was given or asked for: {_missing_gpu()}, or set --device cpu")
    device = "cuda" if seen and config.device != "cpu" else "cpu"
    if device == "cpu" and config.memory_budget is not None:
        raise BarkError("--memory-budget is of GPU memory, and this worker is on the CPU: --batch-size sets its rows")
    if device == "cpu" and config.kv_cache == "int8":
        raise BarkError("--kv-cache int8 is of a GPU's kernels, and this worker is on the CPU: leave it out")
    if config.precision != "auto":
        return device, config.precision
    native = device == "cuda" or (multiplies_bfloat16() and not config.int8)  # with int8 the rest is small
    return device, "bfloat16" if native else "float32"


def multiplies_bfloat16() -> bool:
    """True where this processor multiplies in bfloat16, by AVX-512 BF16 or AMX; others are slower in it."""
    processor = torch.cpu  # torch is pinned: it has no public names for these
    return bool(processor._is_avx512_bf16_supported() or processor._is_amx_tile_supported())  # noqa: SLF001


@contextmanager
def memory_errors() -> Iterator[None]:
    """Translate torch's out-of-memory error into MemoryError, which the pool knows without torch."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as full:
        raise MemoryError(str(full)) from full


def _missing_gpu() -> str:
    """Message of torch and the driver on the missing GPU, with the fix."""
    if torch.version.cuda is None:
        return (
            f"torch {torch.__version__} is a build without CUDA; install one with it (`make setup TORCH=cuda`, or "
            "PyPI's own for Linux)"
        )
    try:
        torch.cuda.init()
        complaint = "it could be initialised nevertheless"
    except (RuntimeError, AssertionError) as error:
        complaint = " ".join(str(error).split())
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        f"torch {torch.__version__}, built for CUDA {torch.version.cuda}, CUDA_VISIBLE_DEVICES={visible}: {complaint}; "
        "check nvidia-smi, install a driver for this CUDA or a torch for this driver"
    )


_log = logging.getLogger(__name__)

IDLE_SECONDS = 30.0
WORTH_BYTES = 256 << 20  # less is not given back: it would be asked for again with the next chunk


class IdleMemory:
    """Gives back, after so many seconds without a chunk, what grew; weights, caches and graphs stay."""

    def __init__(self, give_back: Callable[[], None], timer: Callable[..., threading.Timer] = threading.Timer) -> None:
        """`timer` makes what calls back later, from seconds and a function."""
        self._give_back, self._timer = give_back, timer
        self._lock = threading.Lock()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Scope in which a worker without a chunk waits for one; nothing is given back once it has ended."""
        over = threading.Event()

        def release() -> None:
            with self._lock:
                if not over.is_set():
                    self._give_back()

        timer = self._timer(IDLE_SECONDS, release)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                over.set()


def give_back() -> None:
    """Returns to the card what torch's allocator holds and no tensor uses, where that is worth it."""
    if not torch.cuda.is_initialized():
        return
    kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    if kept >= WORTH_BYTES:
        torch.cuda.empty_cache()
        _log.info("idle for %.0f s: up to %.1f GiB of GPU memory given back", IDLE_SECONDS, kept / 2**30)
