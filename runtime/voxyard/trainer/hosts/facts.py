"""Facts in which the hosts of a run must agree: versions, corpus, model GPU, settings that decide what is trained."""

from __future__ import annotations

from importlib.metadata import version

from voxyard import __version__
from voxyard.host.nvml import Gpu
from voxyard.settings import settings_of
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.hosts.meeting import GPU, Facts

_SAME = frozenset(
    f"training.{name}"
    for name in (
        "batch_size", "grad_accum", "epochs", "max_steps", "seed", "learning_rate", "warmup_steps", "weight_decay",
        "clip_norm", "ema", "recompute",
    )
) | frozenset(
    f"data.{name}"
    for name in (
        "validation_share", "shuffle_buffer_multiplier", "static_shapes", "buckets", "max_clip_seconds",
        "pre_emphasis", "gain_augment_db",
    )
)  # fmt: skip


def facts_of(config: TrainConfig, *, gpu: Gpu | None, precision: str, xla: bool, tensorflow: str, corpus: str) -> Facts:
    """Facts of this host: its model GPU (None: a CPU), what was chosen for it, the corpus' fingerprint."""
    settings = {
        each.flag: str(getattr(getattr(config, each.section), each.name))
        for each in settings_of(TrainConfig)
        if each.section == "model" or each.key in _SAME
    }
    return {
        "voxyard": __version__,
        "TensorFlow": tensorflow,
        "Keras": version("keras"),
        "corpus": corpus,
        GPU: "a CPU" if gpu is None else gpu.name,
        "--precision": precision,
        "--xla": str(xla),
        **settings,
    }
