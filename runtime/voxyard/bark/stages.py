"""The four stages of a model on its device: all at once, or one at a time with offloading."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from voxyard.bark.config import BarkConfig
from voxyard.bark.memory_cap import within_cap
from voxyard.bark.model.cuda_graph import launch, launch_fill
from voxyard.bark.model.decode import Decoder
from voxyard.bark.model.fine import Fill, FineGPT, fill_eagerly, fine_gpt
from voxyard.bark.model.gpt import causal_gpt, moved
from voxyard.bark.model.int8 import dense, int8
from voxyard.bark.model.memory import Footprint, activation_bytes, row_bytes
from voxyard.bark.weights.checkpoint import BarkCheckpoint

_NAMES = _SEMANTIC, _COARSE, _FINE, _CODEC = "semantic", "coarse_acoustics", "fine_acoustics", "codec_model"


def loading_device(config: BarkConfig, device: str) -> str:
    """Device that a checkpoint is loaded to: main memory where the GPU is to hold one stage, or 8 bits of each."""
    return "cpu" if config.offload or config.int8 else device


class Stages:
    """Provides the stages, ready to run; with offloading one at a time on the device."""

    def __init__(self, checkpoint: BarkCheckpoint, config: BarkConfig, device: str) -> None:
        """Takes over the checkpoint's modules: each is gone from it when its stage is built."""
        self._config, self._device = config, device
        self._dense = functools.partial(dense, device=device)
        self._linear = functools.partial(int8, device=device) if config.int8 else self._dense
        self._waiting: dict[str, Any] = {}  # in main memory
        self._kept: dict[str, Any] = {}  # on the device
        for name in _NAMES:
            built = self._built(name, getattr(checkpoint.model, name))
            delattr(checkpoint.model, name)
            if config.offload:
                self._waiting[name] = built
            else:
                self._kept[name] = self._on_device(name, built)

    @contextmanager
    def semantic(self) -> Iterator[Decoder]:
        """The semantic stage."""
        with self._stage(_SEMANTIC) as decoder:
            yield decoder

    @contextmanager
    def coarse(self) -> Iterator[Decoder]:
        """The coarse stage."""
        with self._stage(_COARSE) as decoder:
            yield decoder

    @contextmanager
    def fine(self) -> Iterator[tuple[FineGPT, Fill]]:
        """The fine stage, and its fill of a window."""
        with self._stage(_FINE) as stage:
            yield stage

    @contextmanager
    def codec(self) -> Iterator[Any]:
        """The codec."""
        with self._stage(_CODEC) as codec:
            yield codec

    def resize(self, rows: int) -> None:
        """Use batches of so many rows; the old cache is freed before the new one is allocated."""
        self._config = self._config.model_copy(update={"batch_size": rows})
        causal = {name: self._kept.pop(name).gpt for name in (_SEMANTIC, _COARSE) if name in self._kept}
        self._kept |= {name: self._on_device(name, gpt) for name, gpt in causal.items()}

    def _built(self, name: str, module: Any) -> Any:
        """A stage with the weights of its module, still where these are."""
        if name == _CODEC:
            return module
        if name == _FINE:
            return fine_gpt(module, self._linear, self._dense)
        return causal_gpt(module, self._linear)

    def _on_device(self, name: str, built: Any) -> Any:
        """The stage ready to run; a causal one with its own cache: both have chunks in their rows at the same time."""
        if name == _CODEC:
            return _placed_codec(built, self._device)
        placed = moved(built, self._device)
        if name == _FINE:  # with offloading it is on the device for few chunks at a time: a capture takes four of them
            fill = fill_eagerly if self._config.offload else launch_fill(self._config.capture, self._device)
            return placed, fill(placed)
        launched = launch(self._config.capture, self._device)
        return Decoder(placed, placed.cache(self._config.rows, in_8_bits=self._config.kv_cache == "int8"), launched)

    @contextmanager
    def _stage(self, name: str) -> Iterator[Any]:
        if name in self._kept:
            yield self._kept[name]
            return
        try:
            yield self._on_device(name, self._waiting[name])
        finally:
            if name == _CODEC:
                self._waiting[name].to("cpu")


def _placed_codec(codec: Any, device: str) -> Any:
    """The codec on a device, but for the numbers that its convolutions pad by: the host would wait for each of them."""
    numbers = [
        (module, name, buffer.cpu())
        for module in codec.modules()
        for name, buffer in module.named_buffers(recurse=False)
        if not buffer.ndim
    ]
    codec.to(device)
    for module, name, number in numbers:
        setattr(module, name, number)
    return codec


def footprint(checkpoint: BarkCheckpoint, config: BarkConfig) -> Footprint:
    """Memory of the model on its device, from its sizes and the settings."""
    settings = checkpoint.model.config.semantic_config
    causal = settings, checkpoint.model.config.coarse_acoustics_config
    weights = [_bytes(getattr(checkpoint.model, name), in_8_bits=config.int8) for name in _NAMES]
    element = next(checkpoint.model.semantic.parameters()).element_size()
    rows = [
        row_bytes(
            each.num_layers, each.num_heads, each.hidden_size, each.block_size, element,
            in_8_bits=config.kv_cache == "int8",
        )
        for each in causal
    ]  # fmt: skip
    return Footprint(
        weights=max(weights) if config.offload else sum(weights),
        activations=activation_bytes(
            settings.hidden_size,
            settings.block_size,
            settings.output_vocab_size,
            element,
            rows=config.rows,
            check_every=config.check_every,
        ),
        row=max(rows) if config.offload else sum(rows),
    )


def _bytes(module: Any, *, in_8_bits: bool = False) -> int:
    """Bytes of a stage's weights. In 8 bits: those of the layers' products, with a scale for each output.

    Embeddings, norms, heads and the codec keep their type. The fine stage's embeddings are stacked, so they no longer
    share memory with its heads.
    """
    total: int = sum(each.nbytes for _, each in module.named_parameters(remove_duplicate=False))
    for layer in getattr(module, "layers", ()) if in_8_bits else ():
        for each in (layer.attn.att_proj, layer.attn.out_proj, layer.mlp.in_proj, layer.mlp.out_proj):
            element = each.weight.element_size()
            biases = each.out_features * element if each.bias is None else 0  # zeros in their place
            total += each.out_features * element + biases - each.weight.numel() * (element - 1)
    return total


def available_bytes(checkpoint: BarkCheckpoint, config: BarkConfig) -> int:
    """Bytes for the model and its rows on the GPU: what is free and what it has taken, within the worker's limit."""
    free, _ = torch.cuda.mem_get_info()
    loaded = 0
    if loading_device(config, "cuda") == "cuda":
        loaded = sum(each.nbytes for each in checkpoint.model.parameters())
    return within_cap(free + loaded, config.gpu_memory)
