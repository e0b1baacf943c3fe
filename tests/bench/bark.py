"""make bench-bark: Bark end to end with a preset voice, beside transformers, Suno's own code and the machine's floor.

Parts: `preset` (CPU, bark-small's size, random weights), `floor` (a decode step beside the core's memory), `loops`
(per-token cost, narrow models, no voice), `first-sound` (a ten-page text through the pool), `gpu` (where there is one:
batch 1 to 64, with published weights where a directory has them). One JSON file holds the result of a run.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import paths

ROOT = Path(__file__).resolve().parents[2]
paths.add()

import bench_table
import torch
from bench_checkpoint import SHAPES, published, random_checkpoint
from bench_decode import decode_vs_floor, logit_error, loops_vs_transformers
from bench_end_to_end import VOICE, figures, in_turns, makers, ratios, texts
from bench_first_sound import PAGES, first_sound
from bench_gpu import PROGRAMS, on_gpu
from bench_stages import Timer

from voxyard.bark.config import BarkConfig
from voxyard.bark.device import multiplies_bfloat16
from voxyard.bark.weights import tiny

OUTPUT = ROOT / "build/bench/bark.json"
PARTS = ("preset", "floor", "loops", "first-sound", "gpu")
NARROW = tiny.TinyShape(layers=24, hidden=64, heads=4, end_after=0)
SEMANTIC_HZ = 49.9
Found = tuple[dict[str, float], dict[str, Any]]  # ratios, figures


@dataclass(frozen=True)
class Plan:
    """Sizes of a run; those of `--smoke` show that every part works and measure nothing."""

    size: str = "small"
    chunks: int = 4
    seconds: float = 2.0  # of audio, of each chunk
    rounds: int = 2
    loop_tokens: int = 96
    pages: int = PAGES
    first_sound_rounds: int = 3  # minutes each
    gpu_size: str = "large"
    gpu_seconds: float = 6.0
    gpu_batches: tuple[int, ...] = (1, 8, 32, 64)
    gpu_programs: tuple[str, ...] = PROGRAMS

    @property
    def tokens(self) -> int:
        """Semantic tokens of a chunk."""
        return round(self.seconds * SEMANTIC_HZ)


SMOKE = Plan("tiny", 2, 0.3, 1, 16, 1, 1, "tiny", 0.3, (1, 2))


def precisions() -> dict[str, tuple[str, ...]]:
    """Precisions of each program: the others' best is bfloat16 where the CPU multiplies in it, by 3 and 1.7 times."""
    best = ("bfloat16",) if multiplies_bfloat16() else ("float32",)
    return {"voxyard": ("float32", "bfloat16", "int8"), "transformers": best, "suno": best}


def preset(plan: Plan, directory: Path, timer: Timer) -> Found:
    """Chunks in, audio out, on the CPU."""
    contestants = makers(directory, "cpu", BarkConfig().rows, precisions())
    runs = in_turns(contestants, texts(plan.chunks), timer, plan.rounds, once=("suno",))
    return ratios("preset_end_to_end", runs), figures("preset", runs)


def floor(plan: Plan, directory: Path, timer: Timer) -> Found:
    """A decode step of one row beside the time in which the core reads what it needs; errors of low precisions."""
    found = decode_vs_floor(directory, VOICE, timer, 2 * plan.rounds + 1)
    return {"decode_vs_floor": found["decode_float32_vs_floor"]}, {**found, **logit_error(directory)}


def loops(plan: Plan, _: Path, timer: Timer) -> Found:
    """Tokens a second of narrow models, where the cost of a token is not that of its arithmetic."""
    found: dict[str, float] = {}
    for name, shape in (("tiny", tiny.TinyShape(end_after=0)), ("narrow24", NARROW)):
        found |= loops_vs_transformers(name, shape, plan.loop_tokens, timer, plan.rounds)
    return {name: value for name, value in found.items() if "_vs_" in name}, {
        name: value for name, value in found.items() if "_vs_" not in name
    }


def listening(plan: Plan, _: Path, __: Timer) -> Found:
    """Time to the first audible sample, through the pool."""
    with tempfile.TemporaryDirectory() as folder:
        tiny.write(Path(folder), SHAPES[plan.size])
        found = first_sound(Path(folder), "cpu", plan.first_sound_rounds, plan.pages)
    return {name: found.pop(name) for name in list(found) if "_vs_" in name}, found


def gpu(plan: Plan, model: Path | None, *, smoke: bool) -> Found:
    """The part for a GPU, with published weights where there are some; a smoke test runs it on the CPU."""
    device = "cpu" if smoke else "cuda"
    if model is not None:
        name = {1024: "large", 768: "small"}.get(hidden_size(model), "model")
        found_ratios, found = on_gpu(name, model, device, plan.gpu_batches, plan.rounds, plan.gpu_programs)
        return found_ratios, {**found, "gpu_weights": f"published: {model}"}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        random_checkpoint(directory, plan.gpu_size, round(plan.gpu_seconds * SEMANTIC_HZ))
        name = "stand_in" if smoke else plan.gpu_size
        found_ratios, found = on_gpu(name, directory, device, plan.gpu_batches, plan.rounds, plan.gpu_programs)
    return found_ratios, {**found, "gpu_weights": "random"}


def hidden_size(model: Path) -> int:
    """Hidden size of a checkpoint's semantic stage."""
    settings = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return int(settings.get("semantic_config", {}).get("hidden_size", 768))


def published_weights(asked: Path | None) -> Path | None:
    """The directory that was asked for, else the one of the settings where it has published weights.

    Raises:
        SystemExit: the directory that was asked for has none.
    """
    directory = asked or Path(os.environ.get("VOXYARD_BARK_MODEL") or BarkConfig().model)
    if published(directory):
        return directory
    if asked is not None:
        raise SystemExit(f"{asked} holds no published Bark weights: run `voxyard weights check {asked}`")
    return None


def measured(plan: Plan, parts: Sequence[str], model: Path | None, *, smoke: bool) -> dict[str, Any]:
    """The result of a run, as its JSON file holds it."""
    found_ratios: dict[str, float] = {}
    found: dict[str, Any] = {"chunks": plan.chunks, "seconds_of_a_chunk": plan.seconds, "voice": VOICE}
    began, timer = time.perf_counter(), Timer("cpu")
    cpu_parts: dict[str, Callable[[Plan, Path, Timer], Found]] = {
        "preset": preset, "floor": floor, "loops": loops, "first-sound": listening,
    }  # fmt: skip
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        if {"preset", "floor"} & set(parts):
            random_checkpoint(directory, plan.size, plan.tokens)
        for name in (name for name in PARTS if name in parts):
            print(name, file=sys.stderr, flush=True)
            if name != "gpu":
                part = cpu_parts[name](plan, directory, timer)
            elif smoke or torch.cuda.is_available():
                part = gpu(plan, model, smoke=smoke)
            else:
                print("  no GPU: this part is left out", file=sys.stderr, flush=True)
                continue
            found_ratios |= part[0]
            found |= part[1]
    found["wall_clock_seconds"] = time.perf_counter() - began
    today = dt.datetime.now(tz=dt.UTC).date()
    return {
        "name": "bark",
        "stand_in": smoke,
        "date": today.isoformat(),
        "machine": machine(),
        "ratios": found_ratios,
        "figures": found,
    }


def machine() -> dict[str, Any]:
    """Machine that ran it."""
    return {
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_average": os.getloadavg()[0],
        "system": platform.platform(),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="what to measure")
    parser.add_argument("--seconds", type=float, help="audio of each chunk of the CPU's part")
    parser.add_argument("--rounds", type=int, help="turns of each contestant")
    parser.add_argument("--batches", type=int, nargs="+", metavar="N", help="batch sizes of the GPU's part")
    parser.add_argument(
        "--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS, help="who speaks in the GPU's part"
    )
    parser.add_argument("--model", type=Path, metavar="DIR", help="published weights for the GPU's part")
    parser.add_argument("--out", type=Path, default=OUTPUT, metavar="FILE", help="JSON file of the result")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, the GPU's part on the CPU: a stand-in")
    parser.add_argument("--keep", action="store_true", help="keep the result in the repository: README's table")
    chosen = parser.parse_args(arguments)
    if chosen.smoke and chosen.keep:
        parser.error("--smoke measures nothing: leave --keep out")
    torch.set_num_threads(1)
    plan = SMOKE if chosen.smoke else Plan()
    given = {name: getattr(chosen, name) for name in ("seconds", "rounds") if getattr(chosen, name) is not None}
    if chosen.batches is not None:
        given["gpu_batches"] = tuple(chosen.batches)
    given["gpu_programs"] = tuple(chosen.programs)
    result = measured(replace(plan, **given), chosen.only, published_weights(chosen.model), smoke=chosen.smoke)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if chosen.keep:
        bench_table.keep(result)
    print(bench_table.render(result))
    print(f"→ {chosen.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
