"""Bark's causal transformer on a static key/value cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (the field's name for it)

from voxyard.bark.model.int8 import Linear, dense
from voxyard.bark.model.progress import Report, unwatched

Tensor = Any
LENGTHS = 64  # the cache is read in multiples of this: longer reads add exact zeros and change no bit


@dataclass(frozen=True)
class Norm:
    """A layer norm."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias)


@dataclass(frozen=True)
class Layer:
    """The weights of one block."""

    norm_attention: Norm
    qkv: Linear
    out: Linear
    norm_mlp: Norm
    up: Linear
    down: Linear


class Cache:
    """Keys and values of a batch, by layer; a step writes one position a row and reads the first `length`."""

    def __init__(self, layers: tuple[Tensor, ...]) -> None:
        self.layers = layers  # each (batch, block, 2, heads, width)
        self.batch, self.block = layers[0].shape[:2]
        self.starts = torch.arange(self.batch, device=layers[0].device) * self.block  # of the rows in `_flat`
        self._flat = [kv.flatten(0, 1) for kv in layers]  # each (batch · block, 2, heads, width)
        self._views: dict[int, list[tuple[Tensor, Tensor, Tensor]]] = {}

    def views(self, length: int) -> list[tuple[Tensor, Tensor, Tensor]]:
        """By layer: tensor to write to, keys and values to read, each (batch, heads, length, width); cached."""
        if length not in self._views:
            self._views[length] = [
                (flat, *kv[:, :length].permute(2, 0, 3, 1, 4)) for flat, kv in zip(self._flat, self.layers, strict=True)
            ]
        return self._views[length]


@dataclass(frozen=True)
class CausalGPT:
    """The semantic or the coarse stage. Positions count from 0; a row's cache holds what was fed before."""

    tokens: Tensor  # embedding, (vocabulary, hidden)
    positions: Tensor  # embedding, (block, hidden)
    layers: tuple[Layer, ...]
    norm: Norm
    head: Tensor  # (vocabulary, hidden)
    heads: int
    causal: Tensor  # (block, block): 0 where a position (row) may look, else −inf

    @property
    def block(self) -> int:
        """Number of positions."""
        return int(self.positions.shape[0])

    def cache(self, batch: int) -> Cache:
        """An empty cache of zeros: masked values must be finite too."""
        hidden = self.positions.shape[1]
        shape = (batch, self.block, 2, self.heads, hidden // self.heads)
        return Cache(tuple(self.positions.new_zeros(shape) for _ in self.layers))

    def prefill(self, x: Tensor, cache: Cache, row: int, report: Report = unwatched) -> None:
        """Fill a row's cache from position 0 with embedded tokens, (time, hidden); reports before each layer."""
        T, D = x.shape
        x = x + self.positions[:T]
        for layer, kv in zip(self.layers, cache.layers, strict=True):
            report()
            qkv = layer.qkv(layer.norm_attention(x)).view(T, 3, self.heads, -1)
            kv[row, :T] = qkv[:, 1:]
            if layer is self.layers[-1]:
                return  # the output of the last layer is not used
            q, k, v = qkv.permute(1, 2, 0, 3)[:, None]  # each (1, heads, time, width)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + layer.out(y[0].transpose(0, 1).reshape(T, D))
            x = x + layer.down(F.gelu(layer.up(layer.norm_mlp(x))))

    def step(self, tokens: Tensor, at: Tensor, cache: Cache, length: int) -> Tensor:
        """One token a row at its own position (batch,); reads `length` cached positions; (batch, hidden)."""
        B, D = cache.batch, self.positions.shape[1]
        x = self.tokens[tokens] + self.positions[at]  # (batch, hidden)
        mask = self.causal[at, :length].view(B, 1, 1, length)
        index = cache.starts + at
        for layer, (kv, k, v) in zip(self.layers, cache.views(length), strict=True):
            qkv = layer.qkv(layer.norm_attention(x)).view(B, 3, self.heads, -1)
            kv.index_copy_(0, index, qkv[:, 1:])
            y = F.scaled_dot_product_attention(qkv[:, 0, :, None], k, v, attn_mask=mask)
            x = x + layer.out(y.view(B, D))
            x = x + layer.down(F.gelu(layer.up(layer.norm_mlp(x))))
        return self.norm(x)

    def logits(self, x: Tensor, first: int, last: int) -> Tensor:
        """Logits of the tokens from `first` to before `last` only, float32."""
        return F.linear(x, self.head[first:last]).float()


def causal_gpt(module: Any, linear: Callable[[Any], Linear] = dense) -> CausalGPT:
    """The weights of a `BarkCausalModel`, shared with it where `linear` does not convert them."""
    table = module.position_embeds_layer.weight
    block = table.shape[0]
    return CausalGPT(
        tokens=module.input_embeds_layer.weight.detach(),
        positions=table.detach(),
        layers=tuple(block_of(each, linear) for each in module.layers),
        norm=norm_of(module.layernorm_final),
        head=module.lm_head.weight.detach(),
        heads=module.config.num_heads,
        causal=table.new_full((block, block), float("-inf")).detach().triu_(1),
    )


def block_of(module: Any, linear: Callable[[Any], Linear]) -> Layer:
    """The weights of one `BarkBlock`."""
    return Layer(
        norm_attention=norm_of(module.layernorm_1),
        qkv=linear(module.attn.att_proj),
        out=linear(module.attn.out_proj),
        norm_mlp=norm_of(module.layernorm_2),
        up=linear(module.mlp.in_proj),
        down=linear(module.mlp.out_proj),
    )


def norm_of(module: Any) -> Norm:
    """The weights of a layer norm."""
    return Norm(module.weight.detach(), None if module.bias is None else module.bias.detach())


def padded_length(length: int, block: int) -> int:
    """Read length of the cache: the next multiple of LENGTHS, at most the block."""
    return min(block, -(-length // LENGTHS) * LENGTHS)
