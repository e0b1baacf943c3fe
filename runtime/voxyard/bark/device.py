"""Device and precision of the engine; errors of torch on a missing GPU or a full device."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from voxyard.bark.config import BarkConfig
from voxyard.bark.errors import BarkError
from voxyard.bark.weights.checkpoint import Precision


def choose_device(config: BarkConfig) -> tuple[str, Precision]:
    """Device and precision that the settings mean on this machine.

    Raises:
        BarkError: a GPU is asked for where torch sees none.
    """
    seen = torch.cuda.is_available()
    if config.device == "cuda" and not seen:
        raise BarkError(f"torch sees no GPU, but one was given or asked for: {_missing_gpu()}, or set --device cpu")
    device = "cuda" if seen and config.device != "cpu" else "cpu"
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
