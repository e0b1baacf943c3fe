"""The Bark engine's settings: each is written here once; flags, variables, YAML keys and documentation follow."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from voxyard.settings import Section, setting

Device = Literal["auto", "cpu", "cuda"]
Capture = Literal["auto", "none", "graph", "compile"]


class BarkConfig(Section):
    """Model, device and sampling of the Bark engine."""

    group = "BARK"

    model: Path = setting(Path("bark"), "Directory of a Bark model in Hugging Face's layout.")
    voices: Path | None = setting(
        None, "Directory of further voice files: NAME.npz is the voice NAME.", default_text="Bark's own voices alone"
    )
    device: Device = setting("auto", "Where the model runs; auto takes a GPU where there is one.")
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto", "Type of weights and sums; auto is bfloat16 on a GPU and float32 on a CPU."
    )
    int8: bool = setting(False, "Keep the weights of the transformers in 8 bits.")
    offload: bool = setting(False, "Keep only the stage that runs on the device; the others wait in main memory.")
    gpu_memory: str | None = setting(
        None,
        "Most memory of a GPU that a worker's tensors take: MiB, or UUID=MiB with commas between.",
        default_text="all that is free",
    )
    batch_size: int = setting(4, "Rows of a batch: chunks that are decoded together.", ge=1, le=64)
    threads: int = setting(1, "CPU threads of a worker; another number gives other last digits.", ge=1)
    capture: Capture = setting("auto", "How a decode step is launched on a GPU; auto is a CUDA graph.")
    semantic_temperature: float = setting(0.7, "Temperature of the semantic stage; 0 takes the likeliest.", ge=0)
    coarse_temperature: float = setting(0.7, "Temperature of the coarse stage.", ge=0)
    fine_temperature: float = setting(0.5, "Temperature of the fine stage.", ge=0)
    min_eos_p: float = setting(0.2, "Probability at which the end is taken; 0.05 suits long documents.", gt=0, le=1)
    check_every: int = setting(
        16, "Semantic steps between two looks for chunks that ended.", unit="steps", ge=1, le=768
    )
    skip_prefill: bool = setting(True, "Keep the coarse cache from window to window where it is still right.")
    quality: Literal["auto", "retry", "report"] = setting(
        "auto", "What a chunk that sounds wrong leads to; auto tries again unless the weights are random."
    )
    retries: int = setting(2, "Further tries for a chunk that sounds wrong.", ge=0, le=10)
    recogniser: str | None = setting(
        None, "What checks that the right words are spoken, as package.module:factory; none checks nothing."
    )
    word_errors: float = setting(0.5, "Share of a chunk's words that may be wrong where they are checked.", ge=0)
