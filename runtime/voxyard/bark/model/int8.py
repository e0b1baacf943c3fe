"""Linear layers of the transformers: with dense weights or with 8-bit weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (the field's name for it)

Tensor = Any
Linear = Callable[[Tensor], Tensor]
_FULL = 127  # the largest weight or activation of a row becomes this


def dense(module: Any) -> Linear:
    """A linear layer with the weights of a torch module, shared with it."""
    weight = module.weight.detach()
    bias = None if module.bias is None else module.bias.detach()

    def product(x: Tensor) -> Tensor:
        return F.linear(x, weight, bias)

    return product


def int8(module: Any) -> Linear:
    """A linear layer with weights in 8 bits, a scale for each output.

    On a CPU the activations are quantized too, each row with its own scale: integer sums are exact, so a row does not
    depend on its batch. On CUDA only the weights are, and sums are in the type of the activations.
    """
    weight = module.weight.detach().float()
    scale = (weight.abs().amax(1) / _FULL).clamp_min(torch.finfo(torch.float32).tiny)  # (outputs,)
    bias = torch.zeros_like(scale) if module.bias is None else module.bias.detach()
    if weight.is_cuda:
        return _weights_only(weight, scale, bias, module.weight.dtype)
    return _integers(weight, scale, bias)


def _integers(weight: Tensor, scale: Tensor, bias: Tensor) -> Linear:
    """Products of oneDNN: activations 0 … 255 around 128 times weights −127 … 127, summed in 32 bits."""
    half = 127 if torch.cpu._is_vnni_supported() else 63  # noqa: SLF001 (without VNNI two products share 16 bits)
    packed = torch.ops.onednn.qlinear_prepack((weight / scale[:, None]).round_().to(torch.int8), None)
    multiply, no_offsets = torch.ops.onednn.qlinear_pointwise.default, torch.zeros(len(scale), dtype=torch.int32)
    smallest, bias = torch.finfo(torch.float32).tiny, bias.float()

    def product(x: Tensor) -> Tensor:
        largest = torch.linalg.vector_norm(x, float("inf"), -1, True, dtype=torch.float32).clamp_min_(smallest)
        whole = (x * (half / largest)).add_(half + 1.5).to(torch.uint8)  # rounds: all of it is positive
        y = multiply(whole, 1 / half, half + 1, packed, scale, no_offsets, None, 1.0, 0, torch.float32, "none", [], "")
        return torch.addcmul(bias, y, largest).to(x.dtype)  # (…, outputs)

    return product


def _weights_only(weight: Tensor, scale: Tensor, bias: Tensor, dtype: Any) -> Linear:
    small = (weight / scale[:, None]).round_().to(torch.int8)
    scale, bias = scale.to(dtype), bias.to(dtype)

    def product(x: Tensor) -> Tensor:
        return torch.addcmul(bias, F.linear(x, small.to(dtype)), scale)  # compiled, the cast is part of the product

    return product
