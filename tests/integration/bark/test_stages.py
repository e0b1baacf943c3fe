"""Memory of the stages on their device: what is moved there, and what is counted."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from voxyard.bark.config import BarkConfig
from voxyard.bark.model.fine import fine_gpt
from voxyard.bark.model.gpt import CausalGPT, causal_gpt
from voxyard.bark.model.int8 import dense, int8
from voxyard.bark.stages import Stages, footprint, loading_device
from voxyard.bark.weights.checkpoint import BarkCheckpoint, load


class Moves(TorchDispatchMode):
    """Counts the bytes that are copied to the device `meta`, which stands for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        source = args[0] if args else None
        if isinstance(source, torch.Tensor) and isinstance(found, torch.Tensor):
            self.bytes += found.nbytes if found.is_meta and not source.is_meta else 0
        return found


def tensors(part: Any) -> Iterator[Any]:
    """All tensors of a stage."""
    if isinstance(part, torch.Tensor):
        yield part
    elif isinstance(part, tuple):
        for each in part:
            yield from tensors(each)
    elif is_dataclass(part):
        for each in fields(part):
            yield from tensors(getattr(part, each.name))


def weights(gpt: Any) -> int:
    """Bytes of a stage's tensors; the mask of the causal ones is no weight."""
    mask = gpt.causal.nbytes if isinstance(gpt, CausalGPT) else 0
    return sum(each.nbytes for each in tensors(gpt)) - mask


def built_for_a_gpu(checkpoint: BarkCheckpoint, *, in_8_bits: bool) -> dict[str, int]:
    """Bytes by stage of what `Stages` puts on a GPU."""
    full = functools.partial(dense, device="cuda")
    linear = functools.partial(int8, device="cuda") if in_8_bits else full
    model = checkpoint.model
    return {
        "semantic": weights(causal_gpt(model.semantic, linear)),
        "coarse": weights(causal_gpt(model.coarse_acoustics, linear)),
        "fine": weights(fine_gpt(model.fine_acoustics, linear, full)),
        "codec": sum(each.nbytes for each in model.codec_model.parameters()),
    }


@pytest.mark.parametrize("in_8_bits", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_counted_weights_are_those_on_the_device(tiny_model: Path, in_8_bits: bool, precision: Any) -> None:
    checkpoint = load(tiny_model, precision=precision)
    held = built_for_a_gpu(checkpoint, in_8_bits=in_8_bits)

    together, apart = (
        footprint(checkpoint, BarkConfig(int8=in_8_bits, offload=offload)).weights for offload in (False, True)
    )

    assert together == sum(held.values())
    assert apart == max(held.values())


@pytest.mark.parametrize("offload", [False, True])
def test_eight_bit_weights_never_lie_beside_the_full_ones_on_the_device(tiny_model: Path, offload: bool) -> None:
    config = BarkConfig(int8=True, offload=offload, batch_size=2)
    checkpoint = load(tiny_model, loading_device(config, "cuda"))
    held, masks = built_for_a_gpu(checkpoint, in_8_bits=True), 2 * 1024 * 1024 * 4

    with Moves() as moves:
        stages = Stages(checkpoint, config, "meta")
        whole = moves.bytes
        with stages.semantic():
            semantic = moves.bytes - whole
        with stages.fine():
            fine = moves.bytes - whole - semantic

    if offload:
        assert (whole, semantic, fine) == (0, held["semantic"] + masks // 2, held["fine"])
    else:
        codec = stages._kept["codec_model"]  # its buffers are no parameters: the codebooks
        buffers = sum(each.nbytes for each in codec.buffers())
        assert not [each for each in codec.buffers() if each.is_meta != bool(each.ndim)]
        assert whole == sum(held.values()) + masks + buffers
        assert (semantic, fine) == (0, 0)


def test_modules_are_gone_once_their_stage_is_built(tiny_model: Path) -> None:
    checkpoint = load(tiny_model)

    Stages(checkpoint, BarkConfig(), "cpu")

    assert not list(checkpoint.model.children())
