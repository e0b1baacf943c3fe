"""End to end on a GPU at several batch sizes, beside transformers, Suno's code and the floor of the card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from bench_end_to_end import VOICE, best, figures, in_turns, makers, ratios, texts
from bench_floor import Machine, Network, stage_floors
from bench_stages import STAGES, Timer

from voxyard.bark.voices import load as load_voice
from voxyard.bark.weights.checkpoint import load

PRECISION: Literal["bfloat16"] = "bfloat16"
PROGRAMS = ("voxyard", "serial", "int8-cache", "transformers", "suno")


def on_gpu(
    name: str, directory: Path, device: str, batches: Sequence[int], rounds: int, programs: Sequence[str] = PROGRAMS
) -> tuple[dict[str, float], dict[str, Any]]:
    """Ratios and figures, each batch as many chunks; a contestant whose batch does not fit is named in the figures.

    Suno's code speaks one chunk at a time, so it takes part at batch 1 only. `serial` is voxyard with fine stage and
    codec after the decoding, not beside it: it has the times of stages. `int8-cache` is voxyard with keys and values
    in 8 bits, which needs a GPU.
    """
    timer, loaded = Timer(device), load(directory, device, PRECISION)
    machine = Machine.measured(timer, torch.bfloat16, size=16 if device == "cuda" else 1)
    config, voice = loaded.model.config.semantic_config, load_voice(VOICE)
    network = Network(config.num_layers, config.hidden_size, 2, 2)
    found_ratios: dict[str, float] = {}
    found: dict[str, Any] = {
        "gpu_bytes_per_second": machine.bytes_per_second,
        "gpu_flops": machine.flops,
        "gpu_float32_flops": machine.full_flops,
    }
    for batch in batches:
        prefix = f"{name}_b{batch}"
        taking_part = [program for program in programs if program != "suno" or batch == 1]
        made = makers(directory, device, batch, {program: [PRECISION] for program in taking_part})
        runs = in_turns(made, texts(batch), timer, rounds, warm_up=True)
        if device == "cuda":
            torch.cuda.empty_cache()
        found |= figures(prefix, runs)
        found_ratios |= ratios(prefix, runs)
        if "voxyard" not in best(runs):
            continue
        ours = runs[best(runs)["voxyard"]]
        floors = stage_floors(machine, network, loaded.layout, loaded.model.codec_model, ours.chunks, batch, voice)
        factor = sum(floors.values()) / ours.audio_seconds
        for stage in STAGES:
            found[f"{prefix}_floor_share_{stage.replace(' ', '_')}"] = floors[stage] / sum(floors.values())
        found[f"{prefix}_floor_real_time_factor"] = factor
        found_ratios[f"{prefix}_vs_floor"] = factor / ours.real_time_factor
    return found_ratios, found
