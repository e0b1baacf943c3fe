"""Decode loops without a pool: a step beside the machine's floor, and narrow models beside transformers."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from bench_floor import Network, bandwidth, coarse_positions
from bench_stages import Timer
from transformers.models.bark import generation_configuration_bark

from voxyard.bark.config import BarkConfig
from voxyard.bark.model import coarse, semantic
from voxyard.bark.model.attention import LayerCache
from voxyard.bark.model.decode import Decoder, Rows
from voxyard.bark.model.dimensions import Layout, layout_of
from voxyard.bark.model.gpt import causal_gpt
from voxyard.bark.model.noise import key
from voxyard.bark.stages import Stages
from voxyard.bark.voices import load as load_voice
from voxyard.bark.weights import tiny
from voxyard.bark.weights.checkpoint import load

PRECISIONS = {"float32": (4, 4), "bfloat16": (2, 2), "int8": (1, 4)}  # bytes of a weight, of a number of the cache
TEXT = list(range(5, 65))  # tokens of a sentence or two
_settings: Any = generation_configuration_bark


def decode_vs_floor(model: Path, voice: str, timer: Timer, rounds: int) -> dict[str, float]:
    """Share of the memory's floor that a coarse decode step of one row reaches, by precision; float32 is the default.

    The floor is the time to read once the weights, the rows of the head that are sampled from, and keys and values.
    """
    found: dict[str, list[float]] = {name: [] for name in PRECISIONS}
    speeds = []
    layout, config = _dimensions(model)
    with ExitStack() as stack:
        decoders = {}
        for name in PRECISIONS:
            checkpoint = load(model, precision="bfloat16" if name == "bfloat16" else "float32")
            stages = Stages(checkpoint, BarkConfig(batch_size=1, int8=name == "int8"), "cpu")
            decoders[name] = stack.enter_context(stages.coarse())
        at = coarse_positions(layout, load_voice(voice))
        steps = coarse.codebook_samplings(layout.coarse, 0.7, layout.coarse.slide)
        for number in range(rounds + 1):
            speed = bandwidth(timer)
            for name, decoder in decoders.items():
                rows = Rows([layout.coarse.first], [at], [0], [(0, 1)])
                seconds = timer.of(lambda: decoder.run(rows, steps)) / len(steps)  # noqa: B023 (called at once)
                network = Network(config.num_layers, config.hidden_size, *PRECISIONS[name])
                least = network.step_bytes(1, at + len(steps) / 2, layout.coarse.codebook) / speed
                if number:  # the first round warms up
                    found[name].append(least / seconds)
                    speeds.append(speed)
    return {
        **{f"decode_{name}_vs_floor": statistics.median(shares) for name, shares in found.items()},
        "core_gigabytes_per_second": statistics.median(speeds) / 1e9,
    }


def _dimensions(model: Path) -> tuple[Layout, Any]:
    loaded = load(model)
    return loaded.layout, loaded.model.config.coarse_acoustics_config


class Theirs:
    """The causal stages of transformers' BarkModel, called as its `generate` calls them, without a voice."""

    def __init__(self, model: Any, shape: tiny.TinyShape) -> None:
        given = tiny.generation(shape)
        self._model, self._given = model, given
        self._coarse = _settings.BarkCoarseGenerationConfig(**given["coarse_acoustics_config"])

    def semantic(self, rows: int, count: int) -> int:
        """Text to so many semantic tokens a row; tokens made."""
        exactly = {"max_new_tokens": count, "min_new_tokens": count}
        settings = _settings.BarkSemanticGenerationConfig(**{**self._given["semantic_config"], **exactly})
        ids = torch.zeros(rows, 256, dtype=torch.long)
        ids[:, : len(TEXT)] = torch.tensor(TEXT)
        made = self._model.semantic.generate(ids, settings, attention_mask=(ids > 0).long())
        return int(made.numel())

    def coarse(self, rows: int, count: int) -> int:
        """So many semantic tokens a row to coarse ones; tokens made."""
        made = self._model.coarse_acoustics.generate(
            torch.as_tensor(_semantic_tokens(rows, count)),
            semantic_generation_config=_settings.BarkSemanticGenerationConfig(**self._given["semantic_config"]),
            coarse_generation_config=self._coarse,
        )
        return int(made.numel())


class Ours:
    """The same stages through our loop."""

    def __init__(self, model: Any, layout: Layout, rows: int) -> None:
        self.layout = layout
        first, second = causal_gpt(model.semantic), causal_gpt(model.coarse_acoustics)
        self._semantic, self._coarse = (Decoder(each, each.cache(rows)) for each in (first, second))

    def semantic(self, rows: int, count: int) -> int:
        """Text to so many semantic tokens a row; tokens made."""
        work = [semantic.SemanticWork(row, TEXT, None, key(0, row, 0, "semantic")) for row in range(rows)]
        done: list[semantic.SemanticOutcome] = []
        options = semantic.SemanticOptions(end_share=None, limit=count)
        semantic.speak(self._semantic, self.layout.semantic, work, options, done.append)
        return sum(len(each.tokens) for each in done)

    def coarse(self, rows: int, count: int) -> int:
        """So many semantic tokens a row to coarse ones; tokens made."""
        tokens = _semantic_tokens(rows, count).tolist()
        work = [coarse.CoarseWork(row, tokens[row], None, key(0, row, 0, "coarse")) for row in range(rows)]
        done: list[coarse.CoarseOutcome] = []
        coarse.speak(self._coarse, self.layout.coarse, work, 0.7, done.append)
        return sum(each.codes.size for each in done)


def loops_vs_transformers(name: str, shape: tiny.TinyShape, count: int, timer: Timer, rounds: int) -> dict[str, float]:
    """Tokens a second of both, semantic and coarse stage of one chunk without a voice, and their ratio."""
    model = tiny.random_model(shape, 0)
    theirs, ours = Theirs(model, shape), Ours(model, _layout(shape), rows=1)
    contestants: dict[str, Callable[[], int]] = {
        "transformers": lambda: theirs.semantic(1, count) + theirs.coarse(1, count),
        "voxyard": lambda: ours.semantic(1, count) + ours.coarse(1, count),
    }
    measured: dict[str, list[float]] = {each: [] for each in contestants}
    for number in range(rounds + 1):
        for contestant, run in list(contestants.items())[:: -1 if number % 2 else 1]:
            began = timer.now()
            tokens = run()
            if number:  # the first round warms up
                measured[contestant].append((timer.now() - began) / tokens)
    pairs = zip(measured["transformers"], measured["voxyard"], strict=True)
    return {
        f"{name}_vs_transformers": statistics.median(a / b for a, b in pairs),
        **{f"{name}_{each}_tokens_per_second": 1 / statistics.median(seconds) for each, seconds in measured.items()},
    }


def _layout(shape: tiny.TinyShape) -> Layout:
    """Dimensions of a random model of this shape."""
    sizes = SimpleNamespace(
        semantic_config=SimpleNamespace(block_size=shape.block),
        codec_config=SimpleNamespace(upsampling_ratios=(8, 5, 4, 2)),
    )
    generation = SimpleNamespace(**tiny.generation(shape))
    return layout_of(SimpleNamespace(generation_config=generation, config=sizes))


def _semantic_tokens(rows: int, count: int) -> Any:
    """Input of the coarse stage, (rows, count)."""
    return np.random.default_rng(0).integers(0, 10_000, (rows, count))


class _EightBits(LayerCache):
    """A cache that holds what one in 8 bits gives back: the kernels that read whole numbers need a GPU."""

    def write_step(self, rows: Any, at: Any, kv: Any) -> None:
        """Write one position of each row, rounded."""
        super().write_step(rows, at, _rounded(kv))


def _rounded(values: Any) -> Any:
    """Values (…, width) as 8 bits keep them: whole numbers up to 127, times a scale for each head and position."""
    scales = (values.abs().amax(-1, keepdim=True) / 127).clamp_min(1e-30)
    return (values / scales).round() * scales


def logit_error(model: Path, steps: int = 24) -> dict[str, float]:
    """Error of the coarse logits of each low precision against float32's, all fed the same tokens."""
    logits = {}
    for name in (*PRECISIONS, "int8_cache"):
        checkpoint = load(model, precision="bfloat16" if name == "bfloat16" else "float32")
        layout = checkpoint.layout.coarse
        with Stages(checkpoint, BarkConfig(batch_size=1, int8=name == "int8"), "cpu").coarse() as decoder:
            if name == "int8_cache":
                layers = (_EightBits(each.keys, each.values, each.both) for each in decoder.cache.layers)
                decoder.cache.layers = tuple(layers)
            logits[name] = _logits(decoder, layout, steps)
    exact = logits.pop("float32")
    found = {}
    for name, near in logits.items():
        found[f"{name}_logit_rms_error"] = ((near - exact).square().mean() / exact.square().mean()).sqrt().item()
        found[f"{name}_same_argmax"] = (near.argmax(-1) == exact.argmax(-1)).float().mean().item()
    return found


def _logits(decoder: Decoder, layout: Any, steps: int) -> Any:
    gpt, draw = decoder.gpt, np.random.default_rng(1)
    found = []
    for step in range(steps):
        first = layout.first + step % 2 * layout.codebook
        token, at = torch.tensor([first + int(draw.integers(layout.codebook))]), torch.tensor([step])
        found.append(gpt.logits(gpt.step(token, at, decoder.cache, gpt.block), first, first + layout.codebook))
    return torch.cat(found)
