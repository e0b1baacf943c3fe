"""The four stages of a model on its device: all at once, or one at a time with offloading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from voxyard.bark.config import BarkConfig
from voxyard.bark.memory_cap import within_cap
from voxyard.bark.model.cuda_graph import launch
from voxyard.bark.model.decode import Decoder
from voxyard.bark.model.fine import FineGPT, fine_gpt
from voxyard.bark.model.gpt import CausalGPT, causal_gpt
from voxyard.bark.model.int8 import dense, int8
from voxyard.bark.model.memory import Footprint, activation_bytes, row_bytes
from voxyard.bark.weights.checkpoint import BarkCheckpoint

_SEMANTIC, _COARSE, _FINE, _CODEC = "semantic", "coarse_acoustics", "fine_acoustics", "codec_model"


class Stages:
    """Provides the stages, ready to run; with offloading one at a time on the device."""

    def __init__(self, checkpoint: BarkCheckpoint, config: BarkConfig, device: str) -> None:
        self._config, self._device = config, device
        self._linear = int8 if config.int8 else dense
        self._modules = {name: getattr(checkpoint.model, name) for name in (_SEMANTIC, _COARSE, _FINE, _CODEC)}
        if config.offload:
            for module in self._modules.values():
                module.to("cpu")
        self._kept: dict[str, Any] = {}
        if not config.offload:
            self._keep_all()

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
    def fine(self) -> Iterator[FineGPT]:
        """The fine stage."""
        with self._stage(_FINE) as gpt:
            yield gpt

    @contextmanager
    def codec(self) -> Iterator[Any]:
        """The codec."""
        with self._stage(_CODEC) as codec:
            yield codec

    def resize(self, rows: int) -> None:
        """Use batches of so many rows; the old cache is freed before the new one is allocated."""
        self._config = self._config.model_copy(update={"batch_size": rows})
        if not self._kept:
            return
        gpts = self._kept.pop(_SEMANTIC).gpt, self._kept.pop(_COARSE).gpt
        self._keep_decoders(*gpts)

    def _keep_all(self) -> None:
        """Build every stage; modules that are not shared with the stages can be freed."""
        self._kept = {_FINE: fine_gpt(self._modules[_FINE], self._linear), _CODEC: self._modules[_CODEC]}
        causal = (causal_gpt(self._modules[name], self._linear) for name in (_SEMANTIC, _COARSE))
        self._keep_decoders(*causal)
        self._modules = {}

    def _keep_decoders(self, semantic: CausalGPT, coarse: CausalGPT) -> None:
        """Build the causal stages, each with its own cache: both have chunks in their rows at the same time."""
        rows, how = self._config.rows, launch(self._config.capture, self._device)
        for name, gpt in ((_SEMANTIC, semantic), (_COARSE, coarse)):
            self._kept[name] = Decoder(gpt, gpt.cache(rows), how)

    @contextmanager
    def _stage(self, name: str) -> Iterator[Any]:
        if name in self._kept:
            yield self._kept[name]
            return
        module = self._modules[name].to(self._device)
        try:
            yield self._built(name, module)
        finally:
            module.to("cpu")

    def _built(self, name: str, module: Any) -> Any:
        if name == _CODEC:
            return module
        if name == _FINE:
            return fine_gpt(module, self._linear)
        gpt: CausalGPT = causal_gpt(module, self._linear)
        return Decoder(gpt, gpt.cache(self._config.rows), launch(self._config.capture, self._device))


def footprint(checkpoint: BarkCheckpoint, config: BarkConfig) -> Footprint:
    """Memory of the model on its device, from its sizes and the settings."""
    settings = checkpoint.model.config.semantic_config
    causal = settings, checkpoint.model.config.coarse_acoustics_config
    tables = [_bytes(getattr(checkpoint.model, name)) for name in (_SEMANTIC, _COARSE, _FINE, _CODEC)]
    element = next(checkpoint.model.semantic.parameters()).element_size()
    rows = [row_bytes(each.num_layers, each.hidden_size, each.block_size, element) for each in causal]
    weights = max(tables) if config.offload else sum(tables)
    return Footprint(
        weights=weights // element if config.int8 else weights,
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


def _bytes(module: Any) -> int:
    return sum(each.numel() * each.element_size() for each in module.parameters())


def available_bytes(checkpoint: BarkCheckpoint, config: BarkConfig) -> int:
    """Bytes for the model and its rows on the GPU: what is free and what it has taken, within the worker's limit."""
    free, _ = torch.cuda.mem_get_info()
    loaded = 0 if config.offload else sum(_bytes(each) for each in checkpoint.model.children())
    return within_cap(free + loaded, config.gpu_memory)
