"""The large Bark in bfloat16 on a GPU, with random weights: seconds for a second of audio, beside the card's floor.

Prints one JSON object; `make bench-bark` starts it where there is a GPU. `--device cpu --size tiny` tries the code.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.models.bark import generation_configuration_bark

from voxyard.bark.model.coarse import codebook_samplings
from voxyard.bark.model.cuda_graph import launch
from voxyard.bark.model.decode import Decoder, Rows, TokenSampling
from voxyard.bark.model.dimensions import CoarseLayout
from voxyard.bark.model.gpt import causal_gpt
from voxyard.bark.weights import tiny

LARGE = tiny.TinyShape(layers=24, hidden=1024, heads=16, end_after=0)
SEMANTIC, COARSE = 49.9, 150.0  # tokens for a second of audio
START = 600  # a usual position: half the cache is read
_settings: Any = generation_configuration_bark


@dataclass(frozen=True)
class Card:
    """Peak rates of the device, measured here."""

    bytes_per_second: float
    products_per_second: float  # multiply-adds in the model's precision


def clock(device: str, run: Callable[[], Any], times: int) -> float:
    """Seconds of one run, after one that warms up."""
    run()
    wait(device)
    begin = time.perf_counter()
    for _ in range(times):
        run()
    wait(device)
    return (time.perf_counter() - begin) / times


def wait(device: str) -> None:
    """Until the device has done its work."""
    if device == "cuda":
        torch.cuda.synchronize()


def measure_card(device: str, dtype: Any, *, small: bool) -> Card:
    """Copy a large tensor, multiply two large matrices."""
    elements, side = (2**22, 512) if small else (2**30, 8192)
    source = torch.ones(elements, dtype=dtype, device=device)
    target = torch.empty_like(source)
    copied = clock(device, lambda: target.copy_(source), 10)
    matrix = torch.ones(side, side, dtype=dtype, device=device)
    multiplied = clock(device, lambda: matrix @ matrix, 10)
    return Card(2 * source.numel() * source.element_size() / copied, side**3 / multiplied)


def floor(card: Card, parameters: int, element: int, rows: int, cache_row: int) -> float:
    """Seconds of a step if it read weights and cache once at full speed, or multiplied at full speed."""
    read = (parameters * element + rows * cache_row) / card.bytes_per_second
    return max(read, rows * parameters / card.products_per_second)


def step_seconds(decoder: Decoder, steps: list[TokenSampling], device: str) -> float:
    """Seconds of one decode step of all rows, noise and choice in it."""
    batch = decoder.cache.batch
    first = steps[0].first

    def run() -> None:
        rows = Rows([first] * batch, [START] * batch, [0] * batch, [(row, 1) for row in range(batch)])
        decoder.run(rows, steps)

    return clock(device, run, 3) / len(steps)


def transformers_seconds(model: Any, shape: tiny.TinyShape, device: str, count: int) -> float:
    """Seconds for a second of audio of transformers' semantic and coarse stages, one chunk."""
    given = tiny.generation(shape)
    exactly = {"max_new_tokens": count, "min_new_tokens": count}
    first = _settings.BarkSemanticGenerationConfig(**{**given["semantic_config"], **exactly})
    second = _settings.BarkCoarseGenerationConfig(**given["coarse_acoustics_config"])
    ids = torch.full((1, 256), 7, device=device)
    tokens = torch.as_tensor(np.random.default_rng(0).integers(0, 10_000, (1, count)), device=device)

    def run() -> None:
        model.semantic.generate(ids, first)
        model.coarse_acoustics.generate(
            tokens.clone(), semantic_generation_config=first, coarse_generation_config=second
        )

    return clock(device, run, 1) / (count / SEMANTIC)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--size", choices=["large", "tiny"], default="large")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 32, 64])
    parser.add_argument("--capture", choices=["graph", "compile", "none"], default="graph")
    chosen = parser.parse_args()
    device, shape = chosen.device, LARGE if chosen.size == "large" else tiny.TinyShape(end_after=0)
    dtype = torch.bfloat16
    ratios: dict[str, float] = {}
    figures: dict[str, float] = {}
    with torch.inference_mode():
        model = tiny.random_model(shape, 0).to(device=device, dtype=dtype)
        card = measure_card(device, dtype, small=device == "cpu")
        parameters = sum(each.numel() for each in model.semantic.layers.parameters())
        semantic_steps = [TokenSampling(0, 10_001, 0.7, 10_000, 0.2)] * 16
        coarse_steps = codebook_samplings(coarse_layout(), 0.7, 60)
        gpts = [causal_gpt(each) for each in (model.semantic, model.coarse_acoustics)]
        for batch in chosen.batches:
            cache = gpts[0].cache(batch)
            how = launch(chosen.capture, device)
            seconds = 0.0
            for gpt, steps, rate in zip(gpts, (semantic_steps, coarse_steps), (SEMANTIC, COARSE), strict=True):
                seconds += step_seconds(Decoder(gpt, cache, how), steps, device) * rate
            cache_row = sum(kv[0, :START].numel() for kv in cache.layers) * 2
            best = floor(card, parameters, 2, batch, cache_row) * (SEMANTIC + COARSE)
            ratios[f"large_b{batch}_vs_floor"] = best / seconds
            figures[f"large_b{batch}_seconds_per_audio_second"] = seconds / batch
            figures[f"large_b{batch}_floor_seconds_per_audio_second"] = best / batch
            del cache
        if 1 in chosen.batches:
            theirs = transformers_seconds(model, shape, device, 64)
            figures["large_b1_transformers_seconds_per_audio_second"] = theirs
            ratios["large_b1_vs_transformers"] = theirs / figures["large_b1_seconds_per_audio_second"]
    figures |= {"card_bytes_per_second": card.bytes_per_second, "card_products_per_second": card.products_per_second}
    print(json.dumps({"ratios": ratios, "figures": figures}))


def coarse_layout() -> CoarseLayout:
    """The published model's numbers."""
    return CoarseLayout(256, 630, 60, 10_000, 1024, 2, 12_048, 12_050, 75 / 49.9 * 2)


if __name__ == "__main__":
    main()
