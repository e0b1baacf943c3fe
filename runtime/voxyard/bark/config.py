"""Settings of the Bark engine; flags, variables, YAML keys and documentation are generated from these."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from voxyard.bark.errors import BarkError
from voxyard.bark.memory_cap import smallest_cap_mib
from voxyard.settings import Section, setting

Device = Literal["auto", "cpu", "cuda"]
BatchSize = Literal["auto"] | Annotated[int, Field(ge=1, le=128)]
Capture = Literal["auto", "none", "graph"]
Finish = Literal["auto", "beside", "after"]


CPU_ROWS = 4


class BarkConfig(Section):
    """Model, device and sampling of the Bark engine."""

    group = "BARK"

    model: Path = setting(Path("bark"), "Directory of a Bark model in Hugging Face's layout, or of an exported voice.")
    voices: Path | None = setting(
        None, "Directory of additional voice files: NAME.npz is the voice NAME.", default_text="Bark's presets only"
    )
    device: Device = setting("auto", "Device of the model; auto uses a GPU where there is one.")
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto",
        "Type of weights and arithmetic; auto is bfloat16 on GPUs and on CPUs that multiply in it, else float32.",
    )
    int8: bool = setting(
        False,
        "Quantize the weights of the transformers to 8 bits: saves memory; on a CPU faster than float32, slower "
        "than bfloat16, on a GPU slower.",
    )
    kv_cache: Literal["auto", "int8"] = setting(
        "auto",
        "Type of keys and values in a GPU's cache; auto is that of the arithmetic, int8 takes half the memory and half "
        "the reads of a step and changes the audio a little.",
    )
    offload: bool = setting(False, "Keep only the running stage on the device, the others in main memory.")
    gpu_memory: str | None = setting(
        None,
        "GPU memory limit of a worker's tensors: MiB, or UUID=MiB with commas between.",
        default_text="all free memory",
    )
    batch_size: BatchSize = setting(
        "auto",
        "Batch size: chunks that are decoded together; another number may change the last digits of the audio.",
        default_text="auto: on a GPU 16, the knee of its throughput, or fewer where its memory holds less, on a CPU 4",
    )
    memory_budget: float | None = setting(
        None,
        "GPU memory of a worker, context and all, for as many rows as fit, up to 128; the limit of --gpu-memory holds.",
        default_text="16 rows",
        unit="GiB",
        gt=1,
    )
    threads: int = setting(
        1, "CPU threads of a worker; another number changes the last digits of the audio.", ge=1, le=1024
    )
    capture: Capture = setting(
        "auto", "Launch of decode steps, prefills and the fine stage on a GPU; auto is CUDA graphs."
    )
    finish: Finish = setting(
        "auto",
        "Fine stage, codec and quality check: beside the decoding of other chunks, in a thread (on a GPU a stream) of "
        "their own, or after it; auto is beside on a GPU that has all stages.",
    )
    semantic_temperature: float = setting(0.7, "Temperature of the semantic stage; 0 is greedy.", ge=0)
    coarse_temperature: float = setting(0.7, "Temperature of the coarse stage.", ge=0)
    semantic_top_k: int | None = setting(
        None, "Sample from so many likeliest tokens of the semantic stage only.", default_text="all tokens", ge=1
    )
    semantic_top_p: float | None = setting(
        None,
        "Sample from the likeliest tokens of the semantic stage only that share this probability.",
        default_text="all tokens",
        gt=0,
        le=1,
    )
    coarse_top_k: int | None = setting(
        None, "Sample from so many likeliest tokens of the coarse stage only.", default_text="all tokens", ge=1
    )
    coarse_top_p: float | None = setting(
        None,
        "Sample from the likeliest tokens of the coarse stage only that share this probability.",
        default_text="all tokens",
        gt=0,
        le=1,
    )
    fine_temperature: float = setting(0.5, "Temperature of the fine stage.", ge=0)
    min_eos_p: float = setting(
        0.2, "Probability at which the end token is taken; 0.05 suits long documents.", gt=0, le=1
    )
    check_every: int = setting(16, "Semantic steps between two checks for ended chunks.", unit="steps", ge=1, le=768)
    skip_prefill: bool = setting(True, "Keep the coarse cache from window to window where it is still valid.")
    quality: Literal["auto", "retry", "report"] = setting(
        "auto", "Action on a chunk that fails the quality check; auto retries unless the weights are random."
    )
    retries: int = setting(2, "Retries of a chunk that fails the quality check.", ge=0, le=10)
    recogniser: str | None = setting(
        None, "Speech recogniser of the word check, as package.module:factory; without one words are not checked."
    )
    word_errors: float = setting(0.5, "Highest word error rate of a chunk, where words are checked.", ge=0)

    @field_validator("gpu_memory")
    @classmethod
    def _readable_limit(cls, asked: str | None) -> str | None:
        try:
            smallest_cap_mib(asked)
        except BarkError as error:
            raise ValueError(str(error)) from error
        return asked

    @model_validator(mode="after")
    def _possible_together(self) -> Self:
        if self.offload and self.finish == "beside":
            raise ValueError("finish beside needs all stages on the device, offload keeps one: set finish to after")
        if self.memory_budget is not None and self.batch_size != "auto":
            raise ValueError(
                f"bark.memory_budget ({self.memory_budget:g} GiB) and bark.batch_size ({self.batch_size}) both say how "
                "many rows: leave one out"
            )
        return self

    @property
    def rows(self) -> int:
        """The batch size; where it is `auto`, that of a CPU: on a GPU the engine chooses (`rows.choose_rows`)."""
        return CPU_ROWS if self.batch_size == "auto" else self.batch_size
