"""Bark's causal transformer on a static key/value cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
import torch.nn.functional as F  # noqa: N812 (the field's name for it)

from voxyard.bark.model import cuda_step
from voxyard.bark.model.attention import TILE, Cache, attend
from voxyard.bark.model.int8 import Linear, dense
from voxyard.bark.model.progress import OnProgress, unwatched

Tensor = Any
Part = TypeVar("Part")


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

    def projections(self, x: Tensor, heads: int) -> Tensor:
        """Queries, keys and values of (…, hidden): (…, 3, heads, width)."""
        return self.qkv(self.norm_attention(x)).unflatten(-1, (3, heads, -1))

    def after(self, x: Tensor, attended: Tensor) -> Tensor:
        """Output of the block for its input and what the heads attended to, each (…, hidden)."""
        x = self.out.plus(attended, x)
        return self.down.plus(self.up.gelu(self.norm_mlp(x)), x)

    def after_with_norm(self, x: Tensor, attended: Tensor, following: Norm) -> tuple[Tensor, Tensor]:
        """Output of the block as of `after`, and its layer norm for the next one."""
        if not cuda_step.normalises(x.dtype, x.shape[-1], x.device):
            x = self.after(x, attended)
            return x, following(x)
        x, normed = _sum_and_norm(x, self.out(attended), self.norm_mlp)
        return _sum_and_norm(x, self.down(self.up.gelu(normed)), following)


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

    def cache(self, batch: int, *, in_8_bits: bool = False) -> Cache:
        """An empty cache."""
        block, hidden = self.positions.shape
        shape = (batch, self.heads, block, hidden // self.heads)
        return Cache(self.positions, shape, len(self.layers), in_8_bits=in_8_bits)

    def prefill(self, x: Tensor, cache: Cache, row: int, report: OnProgress = unwatched) -> None:
        """Fill a row's cache from position 0 with embedded tokens, (time, hidden), in tiles of fixed length.

        The form for a CPU: a tile's activations stay in its cache, and a position's values do not depend on how many
        follow it. Reports before each layer.
        """
        x = x + self.positions[: len(x)]
        for layer, kv in zip(self.layers, cache.layers, strict=True):
            report()
            for begin in range(0, len(x), TILE):
                tile = x[begin : begin + TILE]
                end = begin + len(tile)
                qkv = layer.projections(tile, self.heads)  # (time, 3, heads, width)
                kv.write_tile(row, begin, qkv[:, 1:])
                if layer is self.layers[-1]:
                    continue  # the output of the last layer is not used
                k, v = kv.keys[row : row + 1, :, :end], kv.values[row : row + 1, :, :end]
                y = attend(qkv[:, 0].transpose(0, 1)[None], k, v, self.causal[begin:end, :end])
                tile.copy_(layer.after(tile, y[0].transpose(0, 1).flatten(1)))

    def prefill_rows(self, x: Tensor, cache: Cache, rows: Tensor) -> None:
        """Fill the cache of several rows (batch,) from position 0 with embedded tokens, (batch, time, hidden).

        The form for a GPU: one product for all rows. Nothing in it needs the host.
        """
        x = x + self.positions[: x.shape[1]]
        normed = self.layers[0].norm_attention(x)
        for layer, kv, following in zip(self.layers, cache.layers, (*self.layers[1:], None), strict=True):
            qkv = layer.qkv(normed)
            q, k, v = qkv.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # each (batch, heads, time, width)
            if cache.kernels:
                torch.ops.voxyard.write_window(qkv, kv.both, kv.scales, rows)
            else:
                kv.write_rows(rows, k, v)
            if following is None:
                return  # the output of the last layer is not used
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x, normed = layer.after_with_norm(x, y, following.norm_attention)

    def step(self, tokens: Tensor, at: Tensor, cache: Cache, length: int) -> Tensor:
        """One token a row at its own position (batch,); reads `length` cached positions; (batch, hidden)."""
        B = cache.batch
        x = self.tokens[tokens] + self.positions[at]  # (batch, hidden)
        if cache.kernels:
            return self._step_with_kernels(x, at, cache, length)
        mask = self.causal[at, :length].view(B, 1, 1, length)
        for layer, (kv, k, v) in zip(self.layers, cache.views(length), strict=True):
            qkv = layer.projections(x, self.heads)  # (batch, 3, heads, width)
            kv.write_step(cache.rows, at, qkv[:, 1:])
            x = layer.after(x, attend(qkv[:, 0, :, None], k, v, mask).flatten(1))
        return self.norm(x)

    def _step_with_kernels(self, x: Tensor, at: Tensor, cache: Cache, length: int) -> Tensor:
        """The layers and the last norm of a step on a GPU; the values do not depend on `length`."""
        norms = [*(layer.norm_attention for layer in self.layers[1:]), self.norm]
        normed = self.layers[0].norm_attention(x)
        for layer, kv, following in zip(self.layers, cache.layers, norms, strict=True):
            y = torch.ops.voxyard.attend_step(layer.qkv(normed), kv.both, kv.scales, at, length)
            x, normed = layer.after_with_norm(x, y, following)
        return normed

    def logits(self, x: Tensor, first: int, last: int) -> Tensor:
        """Logits of the tokens from `first` to before `last` only, float32."""
        return F.linear(x, self.head[first:last]).float()


def _sum_and_norm(x: Tensor, added: Tensor, norm: Norm) -> tuple[Tensor, Tensor]:
    """Sum of a residual and a layer's output, and its layer norm, by one kernel."""
    total, normed = torch.ops.voxyard.add_and_norm(x, added, norm.weight, norm.bias)
    return total, normed


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


def moved(part: Part, device: str) -> Part:
    """A stage with its weights on a device; those that are there are shared."""
    found: Any = part
    if isinstance(part, torch.Tensor):
        found = part.to(device)
    elif isinstance(part, tuple):
        found = tuple(moved(each, device) for each in part)
    elif is_dataclass(part):
        found = replace(found, **{each.name: moved(getattr(part, each.name), device) for each in fields(part)})
    placed: Part = found
    return placed
