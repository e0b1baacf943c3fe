"""make bench-bark: our decode loop beside transformers' own, in turns: same random weights and counts, no voice."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers.models.bark import generation_configuration_bark

from voxyard.bark.model import coarse, semantic
from voxyard.bark.model.decode import Decoder
from voxyard.bark.model.dimensions import Layout, layout_of
from voxyard.bark.model.gpt import causal_gpt
from voxyard.bark.model.int8 import Linear, dense, int8
from voxyard.bark.model.noise import key
from voxyard.bark.weights import tiny

OUTPUT = Path(__file__).resolve().parents[2] / "build" / "bench" / "bark.json"
TINY = tiny.TinyShape(end_after=0)
NARROW = tiny.TinyShape(layers=24, hidden=64, heads=4, end_after=0)
SMALL = tiny.TinyShape(layers=12, hidden=768, heads=12, end_after=0)
TEXT = list(range(5, 65))  # tokens of a sentence or two
PARTS = ["tiny", "narrow", "small", "batch", "large"]
Figures = dict[str, float]
_settings: Any = generation_configuration_bark


def layout_for(shape: tiny.TinyShape) -> Layout:
    """The numbers of a random model of this shape."""
    sizes = SimpleNamespace(
        semantic_config=SimpleNamespace(block_size=shape.block),
        codec_config=SimpleNamespace(upsampling_ratios=(8, 5, 4, 2)),
    )
    generation = SimpleNamespace(**tiny.generation(shape))
    return layout_of(SimpleNamespace(generation_config=generation, config=sizes))


def semantic_tokens(rows: int, count: int) -> Any:
    """Input of the coarse stage, (rows, count)."""
    return np.random.default_rng(0).integers(0, 10_000, (rows, count))


class Theirs:
    """The stages of transformers' BarkModel, called as its `generate` calls them."""

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
            torch.as_tensor(semantic_tokens(rows, count)),
            semantic_generation_config=_settings.BarkSemanticGenerationConfig(**self._given["semantic_config"]),
            coarse_generation_config=self._coarse,
        )
        return int(made.numel())


class Ours:
    """The same stages through our loop."""

    def __init__(self, model: Any, layout: Layout, rows: int, linear: Callable[[Any], Linear] = dense) -> None:
        self.layout = layout
        first, second = (causal_gpt(each, linear) for each in (model.semantic, model.coarse_acoustics))
        cache = first.cache(rows)
        self._semantic, self.coarse_decoder = Decoder(first, cache), Decoder(second, cache)

    def semantic(self, rows: int, count: int) -> int:
        """Text to so many semantic tokens a row; tokens made."""
        work = [semantic.SemanticWork(row, TEXT, None, key(0, row, 0, "semantic")) for row in range(rows)]
        done: list[semantic.SemanticOutcome] = []
        options = semantic.SemanticOptions(end_share=None, limit=count)
        semantic.speak(self._semantic, self.layout.semantic, work, options, done.append)
        return sum(len(each.tokens) for each in done)

    def coarse(self, rows: int, count: int) -> int:
        """So many semantic tokens a row to coarse ones; tokens made."""
        tokens = semantic_tokens(rows, count).tolist()
        work = [coarse.CoarseWork(row, tokens[row], None, key(0, row, 0, "coarse")) for row in range(rows)]
        done: list[coarse.CoarseOutcome] = []
        coarse.speak(self.coarse_decoder, self.layout.coarse, work, 0.7, done.append)
        return sum(each.codes.size for each in done)


def logit_error(full: Ours, low: Ours, steps: int = 24) -> dict[str, float]:
    """Error of the logits of 8-bit weights against those of the full ones, both fed the same tokens."""
    layout = full.layout.coarse
    fed = [*semantic_tokens(1, layout.window)[0].tolist(), layout.infer]
    logits = []
    for contestant in (full, low):
        decoder = contestant.coarse_decoder
        gpt = decoder.gpt
        decoder.prefill(0, gpt.tokens[torch.tensor(fed)])
        found, draw = [], np.random.default_rng(1)
        for step in range(steps):
            first = layout.first + step % 2 * layout.codebook
            token, at = torch.tensor([first + int(draw.integers(layout.codebook))]), torch.tensor([len(fed) + step])
            found.append(gpt.logits(gpt.step(token, at, decoder.cache, gpt.block), first, first + layout.codebook))
        logits.append(torch.cat(found))
    exact, near = logits
    error = ((near - exact).square().mean() / exact.square().mean()).sqrt().item()
    agree = (near.argmax(-1) == exact.argmax(-1)).float().mean().item()
    return {"small_coarse_lowbit_logit_rms_error": error, "small_coarse_lowbit_same_argmax": agree}


def read_bandwidth(megabytes: int = 400) -> float:
    """Bytes a second that a matrix-vector product reads from memory."""
    matrix, vector = torch.rand(megabytes * 250, 1000), torch.rand(1, 1000)
    best = 0.0
    for _ in range(3):
        begin = time.perf_counter()
        torch.nn.functional.linear(vector, matrix)
        best = max(best, matrix.numel() * 4 / (time.perf_counter() - begin))
    return best


def in_turns(contestants: dict[str, Callable[[], int]], rounds: int) -> dict[str, list[float]]:
    """Seconds a token of each contestant, a list over the rounds; everyone has a turn in every round."""
    measured: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        order = list(contestants.items())
        for name, run in order if number % 2 else order[::-1]:
            begin = time.perf_counter()
            tokens = run()
            measured[name].append((time.perf_counter() - begin) / tokens)
            print(f"  {name:28} {1 / measured[name][-1]:9.1f} tokens/s", file=sys.stderr, flush=True)
    return measured


def ratio(measured: dict[str, list[float]], slow: str, fast: str) -> float:
    """Speed-up of one over the other: the median over the rounds."""
    return statistics.median(a / b for a, b in zip(measured[slow], measured[fast], strict=True))


def rates(prefix: str, measured: dict[str, list[float]]) -> Figures:
    """Tokens a second of each contestant."""
    return {f"{prefix}_{name}_tokens_per_second": 1 / statistics.median(each) for name, each in measured.items()}


def whole_model(name: str, shape: tiny.TinyShape, count: int, rounds: int) -> tuple[float, Figures]:
    """Semantic and coarse stage of one chunk after the other, as BarkModel.generate runs them."""
    model, layout = tiny.random_model(shape, 0), layout_for(shape)
    theirs, ours = Theirs(model, shape), Ours(model, layout, rows=1)
    contestants = {
        "transformers": lambda: theirs.semantic(1, count) + theirs.coarse(1, count),
        "voxyard": lambda: ours.semantic(1, count) + ours.coarse(1, count),
    }
    for run in contestants.values():
        run()
    measured = in_turns(contestants, rounds)
    return ratio(measured, "transformers", "voxyard"), rates(name, measured)


def small_coarse(count: int, rounds: int) -> tuple[Figures, Figures]:
    """The coarse stage of bark-small's size, one chunk: float32, and weights in 8 bits."""
    model, layout = tiny.random_model(SMALL, 0), layout_for(SMALL)
    theirs, full, low = Theirs(model, SMALL), Ours(model, layout, 1, dense), Ours(model, layout, 1, int8)
    for run in (theirs.coarse, full.coarse, low.coarse):
        run(1, 4)
    contestants = {
        "transformers": lambda: theirs.coarse(1, count),
        "voxyard": lambda: full.coarse(1, count),
        "voxyard_int8": lambda: low.coarse(1, count),
    }
    measured = in_turns(contestants, rounds)
    figures = rates("small_coarse", measured)
    weights = sum(each.numel() for each in model.coarse_acoustics.layers.parameters()) * 4
    floor = read_bandwidth() / weights  # tokens a second if a step read each weight once and did nothing else
    figures["small_coarse_share_of_memory_floor"] = figures["small_coarse_voxyard_tokens_per_second"] / floor
    figures |= logit_error(full, low)
    ratios = {
        "small_coarse_vs_transformers": ratio(measured, "transformers", "voxyard"),
        "small_coarse_lowbit_vs_transformers": ratio(measured, "transformers", "voxyard_int8"),
    }
    return ratios, figures


def small_batch(count: int, rounds: int) -> tuple[float, Figures]:
    """Semantic and coarse stage of bark-small's size, four chunks at a time, float32."""
    model, layout = tiny.random_model(SMALL, 0), layout_for(SMALL)
    theirs, ours = Theirs(model, SMALL), Ours(model, layout, 4)
    contestants = {
        "transformers": lambda: theirs.semantic(4, count) + theirs.coarse(4, count),
        "voxyard": lambda: ours.semantic(4, count) + ours.coarse(4, count),
    }
    measured = in_turns(contestants, rounds)
    return ratio(measured, "transformers", "voxyard"), rates("small_batch4", measured)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="*", default=["tiny", "narrow", "small", "batch", "large"], help="what to measure"
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="length of a chunk of the small model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(chosen.threads)
    count = round(chosen.seconds * 49.9 / 16) * 16
    ratios: Figures = {}
    figures: Figures = {"seconds_of_audio": count / 49.9, "threads": chosen.threads, "rounds": chosen.rounds}
    with torch.inference_mode():
        for name, shape, key in (("tiny", TINY, "tiny"), ("narrow", NARROW, "narrow24")):
            if name in chosen.only:
                ratios[f"{key}_vs_transformers"], found = whole_model(key, shape, count, chosen.rounds)
                figures |= found
        if "small" in chosen.only:
            found_ratios, found = small_coarse(count, chosen.rounds)
            ratios |= found_ratios
            figures |= found
        if "batch" in chosen.only:
            ratios["small_batch4_vs_transformers"], found = small_batch(count // 32 * 16, chosen.rounds)
            figures |= found
    if torch.cuda.is_available() and "large" in chosen.only:
        large = on_gpu()
        ratios |= large["ratios"]
        figures |= large["figures"]
    result: dict[str, Any] = {"name": "bark", "machine": machine(), "ratios": ratios, "figures": figures}
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for title, table in (("ratios", ratios), ("figures", figures)):
        print(title)
        for key, value in table.items():
            print(f"  {key:48} {value:10.3f}")


def on_gpu() -> dict[str, Figures]:
    """The large size on this machine's GPU, in a process of its own; empty-handed it ends the benchmark."""
    command = [sys.executable, str(Path(__file__).with_name("bark_cuda.py"))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Figures] = json.loads(done.stdout.splitlines()[-1])
    return found


def machine() -> dict[str, Any]:
    """Machine that ran it."""
    return {
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


if __name__ == "__main__":
    main()
