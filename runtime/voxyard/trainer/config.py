"""The trainer's settings: each is defined once; flags, variables, YAML keys and documentation follow from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from voxyard.settings import Alias, Section, setting

_ANYWHERE = ("data", "training", "model")

ALIASES: tuple[Alias, ...] = (  # keys of older configurations that a settings file may still use
    Alias("mixed_precision", _ANYWHERE, "training.precision", values={True: "auto", False: "float32"}),
    Alias("enable_xla", _ANYWHERE, "training.xla"),
    Alias("batch_size", ("data",), "training.batch_size"),
    Alias("pin_memory", _ANYWHERE, None, "TensorFlow pins its host buffers itself"),
    Alias("use_tf_native_loading", _ANYWHERE, None, "there is one way of loading"),
)

ModelSize = Literal["tiny", "small", "normal", "big"]
Strategy = Literal["single", "split", "mirrored", "auto", "multiworker"]
DEFAULT_EPOCHS = 100  # of a run that is given neither --epochs nor --max-steps
VocoderOn = Literal["data", "model"]
Precision = Literal["auto", "float32", "bfloat16", "float16"]


class ModelConfig(Section):
    """Model, and the features of sound and text that it is trained on."""

    group = "TRAIN"

    size: ModelSize = setting("tiny", "Row of the table of model sizes.", flag="--model-size")
    module: str | None = setting(
        None, "Your own model, as package.module:factory (see Trainable).", flag="--model-module"
    )
    networks: Literal["acoustic", "acoustic,vocoder"] = setting(
        "acoustic", "What is trained: the acoustic model (text to mel), and the vocoder of its mels."
    )
    vocoder_size: Literal["auto", "tiny", "small", "normal", "big"] = setting(
        "auto", "Row of the table of vocoders, with --networks acoustic,vocoder; auto is the row of --model-size."
    )
    text_units: Literal["auto", "characters", "phonemes"] = setting(
        "auto",
        "Unit of a token. Phonemes are espeak-ng's; auto takes them where the language is known, and keeps those of a "
        "checkpoint or of shards.",
    )
    language: str | None = setting(
        None, "Language of the texts, by its espeak-ng voice, such as en-us or de.", default_text="what the corpus says"
    )
    read_words: bool | None = setting(
        None,
        "Read numbers, amounts, dates, units and abbreviations as words before texts become tokens.",
        default_text="on where the language is known; as a checkpoint or shards have it",
    )
    sample_rate: int = setting(22050, "Rate to which every clip is resampled.", unit="Hz", ge=8000, le=48000)
    fft_size: int = setting(
        1024, "Window and transform length of the mel spectrogram.", unit="samples", ge=256, le=4096
    )
    hop_length: int = setting(256, "Distance between two frames.", unit="samples", ge=64, le=2048)
    mels: int = setting(80, "Number of mel bands.", ge=20, le=256)
    mel_low_hz: float = setting(0.0, "Lower edge of the lowest mel band.", unit="Hz", ge=0)
    mel_high_hz: float = setting(8000.0, "Upper edge of the highest mel band.", unit="Hz", gt=0)

    @property
    def vocoder_row(self) -> ModelSize:
        """Row of the table of vocoders."""
        return self.size if self.vocoder_size == "auto" else self.vocoder_size

    @model_validator(mode="after")
    def _bands_below_nyquist(self) -> Self:
        if not self.mel_low_hz < self.mel_high_hz <= self.sample_rate / 2:
            raise ValueError(
                f"mel bands from {self.mel_low_hz:g} to {self.mel_high_hz:g} Hz do not fit below half the "
                f"sample rate ({self.sample_rate / 2:g} Hz): lower model.mel_high_hz"
            )
        if self.hop_length > self.fft_size:
            raise ValueError(f"model.hop_length {self.hop_length} is larger than model.fft_size {self.fft_size}")
        return self


class DataConfig(Section):
    """Training data, and the pipeline that takes it to the device that trains."""

    group = "TRAIN"

    train_data: Path | None = setting(None, "Training corpus: recordings, or shards made by `corpus prepare`.")
    val_data: Path | None = setting(None, "Validation corpus; without it a share of the training corpus is held out.")
    corpus_layout: Literal["auto", "ljspeech", "libritts", "vctk", "commonvoice", "list", "pairs"] = setting(
        "auto", "Layout of the recordings; auto recognizes it."
    )
    validation_share: float = setting(
        0.05, "Share of the training corpus held out when there is no --val-data.", ge=0, lt=1
    )
    data_gpu: int | str | None = setting(None, "GPU that prepares the batches: nvidia-smi's index, or a UUID.")
    model_gpu: int | str | None = setting(None, "GPU that trains: nvidia-smi's index, or a UUID.")
    num_workers: int = setting(
        default_factory=lambda: min(16, os.cpu_count() or 1),
        description="Threads that read and decode clips; 16 to 32 on big hosts.",
        default_text="min(16, cores)",
        ge=1,
        le=256,
    )
    pipeline_buffer_size: int = setting(
        50,
        "Batches of host-side prefetch; 25 to 50 with little RAM, 75 to 100 with much.",
        flag="--buffer-size",
        unit="batches",
        ge=1,
    )
    adapt: bool = setting(
        True,
        "Change reading threads and buffer while the run goes on, by its waits for batches; batches stay the same.",
    )
    prefetch_buffer_size: int = setting(
        3,
        "Slots of the ring of batches resident on the model GPU; 3 is triple buffering.",
        unit="slots",
        ge=1,
        le=64,
    )
    model_start_delay: float = setting(
        2.0,
        "Longest wait for full buffers before the first step; NVMe 1 to 2, slow storage 3 to 5.",
        unit="seconds",
        ge=0,
        le=3600,
    )
    shuffle_buffer_multiplier: int = setting(
        20, "Shuffle window in batches; 0 reads in the order of the corpus.", unit="batches", ge=0
    )
    static_shapes: bool = setting(
        True, "Pad to length buckets, so that each bucket is traced once.", flag="--enable-static-shapes"
    )
    buckets: int = setting(4, "Most length buckets.", ge=1, le=32)
    cache_dataset: bool = setting(False, "Keep every decoded clip in memory after the first epoch.")
    cache_file: Path | None = setting(None, "Keep every decoded clip in this file after the first epoch.")
    max_bad_share: float = setting(0.01, "Share of broken or missing clips to skip before the run stops.", ge=0, le=1)
    max_dropped_text: float = setting(
        0.01,
        "Share of the texts' characters that the model may be unable to read; ten times that of a single text.",
        ge=0,
        le=1,
    )
    max_clip_seconds: float = setting(20.0, "Longest clip; longer ones count as broken.", unit="seconds", gt=0)
    pre_emphasis: float = setting(0.0, "First-order pre-emphasis before the mel spectrogram; 0 is none.", ge=0, lt=1)
    gain_augment_db: float = setting(
        0.0, "Random gain up to this many decibels either way, per clip and step.", unit="dB", ge=0, le=24
    )


class TrainingConfig(Section):
    """Devices, duration, optimiser and precision of a training run."""

    group = "TRAIN"

    device: Literal["auto", "gpu", "cpu"] = setting(
        "auto", "Kind of device; with cpu the GPU ids name logical CPU devices."
    )
    cpu_devices: int = setting(2, "Logical CPU devices to make when training on the CPU.", ge=1, le=64)
    gpu_parts: int = setting(
        1,
        "Logical GPUs to make of each card, which share it: how a split is tried where there is one card. Their ids "
        "count through the cards.",
        ge=1,
        le=8,
    )
    device_threads: int | None = setting(
        None, "Threads of one operation on a CPU device.", default_text="cores ÷ devices in use", ge=1
    )
    strategy: Strategy | None = setting(
        None,
        "single, split, mirrored, auto, which times them and keeps the fastest, or multiworker, over --hosts.",
        default_text="split with both GPU ids, else single; over --hosts multiworker",
    )
    vocoder_on: VocoderOn | None = setting(
        None,
        "Device of a split that trains the vocoder, or what your own model names in `beside`: data, beside the "
        "features, or model, in turn with the other network.",
        default_text="data; with --strategy auto the faster one",
    )
    hosts: str | None = setting(
        None, "Hosts that train together, as NAME:PORT,NAME:PORT: the same list, in one order, on each of them."
    )
    host_index: int | None = setting(None, "Place of this host in --hosts, from 0; the first saves.", ge=0)
    hosts_wait: float = setting(900.0, "Longest wait at the start for all of --hosts.", unit="seconds", gt=0)
    restarts: int = setting(0, "Times an hour that a run over --hosts starts again by itself, where it lost one.", ge=0)
    allow_mixed: bool = setting(False, "Train over hosts whose model GPUs are not alike, as fast as the slowest.")
    strategy_steps: int = setting(
        30, "Steps of each strategy that --strategy auto times.", unit="steps", ge=5, le=10_000
    )
    strategy_minutes: float = setting(
        20.0, "Most minutes that --strategy auto spends on trials; what was timed by then decides.",
        unit="minutes", gt=0,
    )  # fmt: skip
    retime: bool = setting(False, "With --strategy auto: time the strategies again, and ignore the cached result.")
    batch_size: int | None = setting(
        None,
        "Clips in a micro-batch on one device; over --hosts on all of them together.",
        default_text="by GPU memory; 8 on a CPU; over --hosts none",
        unit="clips",
        ge=1,
    )
    grad_accum: int = setting(1, "Micro-batches whose gradients are summed into one update.", ge=1)
    epochs: int | None = setting(
        None,
        "Stop after this many passes over the corpus.",
        default_text="100 when --max-steps is not given",
        ge=1,
    )
    max_steps: int | None = setting(None, "Stop after this many updates.", unit="steps", ge=1)
    max_minutes: float | None = setting(
        None, "Save and stop after this long, wherever the run is.", unit="minutes", gt=0
    )
    seed: int = setting(0, "Seed of the weights, the order of the clips and the dropout.", ge=0, le=2**31 - 1)
    learning_rate: float = setting(1e-3, "Peak learning rate.", gt=0)
    warmup_steps: int = setting(
        100, "Steps of linear warm-up to the peak; then it falls with 1/√step.", unit="steps", ge=1
    )
    discriminators_after: int = setting(
        3000,
        "Steps that update the vocoder by its spectral loss alone, 8 times each, before its discriminators take part.",
        unit="steps",
        ge=0,
    )
    weight_decay: float = setting(1e-2, "AdamW's decoupled weight decay.", ge=0)
    clip_norm: float = setting(1.0, "Largest global norm of a gradient.", gt=0)
    ema: float | None = setting(
        None,
        "Decay, such as 0.999, of an average of the weights that validation, samples and synthesis use.",
        default_text="no average",
        gt=0,
        lt=1,
    )
    precision: Precision = setting(
        "auto", "auto is bfloat16 or float16 where the GPU has fast units for it, float32 elsewhere."
    )
    xla: bool | None = setting(
        None, "Compile each device's function with XLA.", default_text="on for GPUs, off on a CPU"
    )
    xla_cache: Path | None = setting(
        None,
        "Folder that keeps what XLA has compiled, for all runs.",
        default_text="~/.cache/voxyard/xla for GPUs; none for a CPU",
    )
    recompute: bool = setting(False, "Recompute activations in the backward pass: less memory, more time.")
    auto: bool = setting(
        False, "Take the pair, limits, batch and buffers recommended for this host's GPUs, where they are not set."
    )
    enable_memory_isolation: bool = setting(False, "Hard allocator limits per GPU, set before TensorFlow starts.")
    data_gpu_memory: int | None = setting(None, "Limit on the data GPU.", unit="MiB", ge=1)
    model_gpu_memory: int | None = setting(None, "Limit on the model GPU.", unit="MiB", ge=1)
    checkpoint_dir: Path = setting(Path("checkpoints"), "Directory of the run's checkpoints, samples and report.")
    resume: bool = setting(True, "Continue from the newest good checkpoint of --checkpoint-dir.")
    init_from: Path | None = setting(None, "Start from the weights of this checkpoint (fine-tuning).")
    keep_checkpoints: int = setting(3, "Newest checkpoints to keep; the best by validation loss is kept besides.", ge=1)
    checkpoint_every: int = setting(1000, "Steps between checkpoints.", unit="steps", ge=1)
    validate_every: int = setting(
        500, "Steps between validations; weights that are better than all before are saved.", unit="steps", ge=1
    )


class TelemetryConfig(Section):
    """Metrics, logs and reports of a run, and their destinations."""

    group = "TRAIN"

    run: str | None = setting(None, "Name of the run in metrics and reports.", default_text="name of --checkpoint-dir")
    metrics_port: int = setting(0, "Port of the Prometheus metrics; 0 is off.", ge=0, le=65535)
    metrics_host: str = setting("127.0.0.1", "Address that the metrics listen on; 0.0.0.0 for every interface.")
    metrics_web_config: Path | None = setting(
        None, "TLS and passwords of the metrics: a web configuration file as Prometheus's exporters read it."
    )
    utilization_target: float | None = setting(
        None,
        "Least utilization of the model GPU, 0 to 1, under which alerts fire; lower it for a small model.",
        default_text="0.7",
        gt=0,
        le=1,
    )
    log_every: int = setting(10, "Steps between two reads of losses from the device.", unit="steps", ge=1)
    tensorboard: bool = setting(True, "Write TensorBoard scalars and spectrograms under --checkpoint-dir.")
    judge: int = setting(
        0,
        "Sentences of the validation clips that are spoken and judged at each validation, for TensorBoard: word error "
        "rate, and DNSMOS of the sound (extra `judges`); 0 is off.",
        unit="sentences",
        ge=0,
        le=200,
    )
    judge_recogniser: str = setting(
        "voxyard.speech.verification.pocketsphinx:recogniser",
        "Recogniser of --judge, as package.module:factory; pocketsphinx hears English.",
    )
    image_every: int = setting(500, "Steps between two spectrograms in TensorBoard.", unit="steps", ge=1)
    sample_text: str = setting(
        "The old sailor opens the heavy door.",
        "Sentence spoken at each checkpoint, into samples/ of --checkpoint-dir; empty for no samples.",
    )


class TrainConfig(Section):
    """All settings of `voxyard train`, in the sections of its YAML file."""

    model: ModelConfig = Field(default_factory=ModelConfig)
    data: DataConfig = Field(default_factory=DataConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    telemetry: TelemetryConfig = Field(default_factory=TelemetryConfig)

    def changed(self, values: Mapping[str, Any]) -> Self:
        """A copy with these values, each by its place as `training.resume`; they are not validated again."""
        sections: dict[str, dict[str, Any]] = {}
        for place, value in values.items():
            section, _, name = place.partition(".")
            sections.setdefault(section, {})[name] = value
        copies = {section: getattr(self, section).model_copy(update=update) for section, update in sections.items()}
        return self.model_copy(update=copies)


def trained_config(document: Mapping[str, Any]) -> TrainConfig:
    """Settings that a checkpoint or a voice was trained with, with what older ones did not say. Raises ValueError."""
    return TrainConfig.model_validate({**document, "model": {"read_words": False, **document.get("model", {})}})
