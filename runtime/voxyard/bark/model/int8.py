"""Linear layers of the transformers: weights in full precision or in 8 bits, packed by oneDNN for a CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (the field's name for it)

Tensor = Any
_FULL = 127  # the largest weight of an output becomes this
_WORTH_PACKING = 2**18  # weights of a matrix: below, a call of oneDNN takes longer than it saves (84 µs at 64 × 64)


class Linear(ABC):
    """A linear layer: product with its weights, plus bias."""

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor:
        """Outputs of x, (…, inputs) → (…, outputs)."""

    def gelu(self, x: Tensor) -> Tensor:
        """GELU (the exact one, with erf) of the outputs."""
        return F.gelu(self(x))

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """Sum of a residual and the outputs."""
        return residual + self(x)


@dataclass(frozen=True)
class _Plain(Linear):
    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True)
class _Packed(Linear):
    """Weights in the blocked layout of oneDNN, which also applies GELU and residual while outputs are in registers."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")  # noqa: SLF001

    def gelu(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "gelu", [], "none")  # noqa: SLF001

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")  # noqa: SLF001


@dataclass(frozen=True)
class _Integers(Linear):
    """Products of oneDNN: activations 0 … 255 around 128 times weights −127 … 127, summed in 32 bits."""

    weight: Tensor  # packed
    scale: Tensor  # (outputs,)
    bias: Tensor
    no_offsets: Tensor
    half: int  # the largest activation of a row becomes this

    def __call__(self, x: Tensor) -> Tensor:
        smallest, half = torch.finfo(torch.float32).tiny, self.half
        largest = torch.linalg.vector_norm(x, float("inf"), -1, True, dtype=torch.float32).clamp_min_(smallest)
        whole = (x * (half / largest)).add_(half + 1.5).to(torch.uint8)  # rounds: all of it is positive
        y = torch.ops.onednn.qlinear_pointwise(
            whole, 1 / half, half + 1, self.weight, self.scale, self.no_offsets, None, 1.0, 0, torch.float32, "none",
            [], "",
        )  # fmt: skip
        return torch.addcmul(self.bias, y, largest).to(x.dtype)  # (…, outputs)


@dataclass(frozen=True)
class _WeightsOnly(Linear):
    weight: Tensor  # int8
    scale: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.bias, F.linear(x, self.weight.to(x.dtype)), self.scale)


def dense(module: Any, device: str | None = None) -> Linear:
    """A linear layer with the weights of a torch module, for use on a device (by default that of the weights).

    For a GPU they are shared with the module. For a CPU they are packed by oneDNN where it has the type's instructions.
    """
    weight = module.weight.detach()
    bias = None if module.bias is None else module.bias.detach()
    if (device or weight.device.type) == "cpu" and weight.numel() >= _WORTH_PACKING and _packs(weight.dtype):
        return _Packed(torch.ops.mkldnn._reorder_linear_weight(weight, 1), bias)  # noqa: SLF001
    return _Plain(weight, bias)


def int8(module: Any, device: str | None = None) -> Linear:
    """A linear layer with weights in 8 bits, a scale for each output, for use on a device.

    On a CPU the activations are quantized too, each row with its own scale: integer sums are exact, so a row does not
    depend on its batch. On a GPU only the weights are, and each product widens them to the type of the activations:
    that saves memory and costs time. torch has no faster product there without a compiler: `_int_mm` needs 17 rows and
    activations in 8 bits, `_weight_int8pack_mm` computes one output a thread.
    """
    weight = module.weight.detach().float()
    scale = (weight.abs().amax(1) / _FULL).clamp_min(torch.finfo(torch.float32).tiny)  # (outputs,)
    bias = torch.zeros_like(scale) if module.bias is None else module.bias.detach()
    small = (weight / scale[:, None]).round_().to(torch.int8)
    if (device or weight.device.type) != "cpu":
        return _WeightsOnly(small, scale.to(module.weight.dtype), bias.to(module.weight.dtype))
    half = 127 if torch.cpu._is_vnni_supported() else 63  # noqa: SLF001 (without VNNI two products share 16 bits)
    packed = torch.ops.onednn.qlinear_prepack(small, None)
    return _Integers(packed, scale, bias.float(), torch.zeros(len(scale), dtype=torch.int32), half)


def _packs(dtype: Any) -> bool:
    """True where oneDNN multiplies this type on this CPU."""
    if not torch.backends.mkldnn.is_available():
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()))  # noqa: SLF001
