"""Default batch of a model GPU: that of its class of memory, or as much less as the model's own size asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from voxyard.corpus.text import SYMBOLS
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.model.sizes import SIZES, VOCODER_SIZES
from voxyard.trainer.sampler import FRAME_STEP, TOKEN_STEP, Bucket

STEPS = (48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)  # those of the classes of memory, and below them
_MARGIN = 4 / 3  # `Shape.activations` is within about a third of what is taken
_TRAINED = 16  # bytes of a weight with its gradient and Adam's two moments
_FRAMES_A_TOKEN = 3  # of speech, at least (model/sizes.py)


@dataclass(frozen=True)
class FittingBatch:
    """A batch size, and the sentence that says why it is less than the card's class; empty where it is not."""

    clips: int
    reduced: str = ""


def fitting_batch(
    config: TrainConfig,
    most: int,
    available_mib: int,
    *,
    capability: tuple[int, int] | None,
    longest: Bucket | None = None,
) -> FittingBatch:
    """`most`, or the largest step of STEPS below it, with which the model trains in so much memory on longest clips.

    These are of the longest bucket, where it is known, else as long as --max-clip-seconds allows. The size of a model
    of the user's own is not known: it gets `most`. Not even one clip is still one: the estimate is no measurement.
    """
    if config.model.module is not None:
        return FittingBatch(most)
    longest = longest or _allowed(config)
    left = available_mib - _kept_mib(config)
    a_clip = _clip_mib(config, longest, half=_is_half(config, capability))
    fits = next((step for step in (most, *STEPS) if step <= most and step * a_clip <= left), 1)
    if fits == most:
        return FittingBatch(most)
    said = (
        f"Batch: {fits} clips in place of {most}, the model {config.model.size} takes about {a_clip:,.0f} MiB for a "
        f"clip of {longest.frames} frames, and {left:,.0f} of {available_mib:,} MiB are left beside its weights "
        "(--recompute takes less, --batch-size decides otherwise)"
    )
    return FittingBatch(fits, said)


def longest_bucket(samples: int, tokens: int, hop_length: int) -> Bucket:
    """The bucket of a corpus's longest clip and longest text."""
    return Bucket(_up(samples // hop_length, FRAME_STEP), _up(tokens, TOKEN_STEP))


def _allowed(config: TrainConfig) -> Bucket:
    samples = int(config.data.max_clip_seconds * config.model.sample_rate)
    return longest_bucket(samples, samples // config.model.hop_length // _FRAMES_A_TOKEN, config.model.hop_length)


def _kept_mib(config: TrainConfig) -> float:
    """Memory of weights, gradients, optimizer and averages on the model device, in float32."""
    model, split = config.model, config.data.data_gpu is not None
    acoustic = SIZES[model.size].parameters(symbols=len(SYMBOLS), speakers=1, mels=model.mels)
    vocoder = 0
    if model.networks != "acoustic" and (not split or config.training.vocoder_on == "model"):
        shape = VOCODER_SIZES[model.vocoder_row]
        vocoder = shape.parameters(fft=model.fft_size, mels=model.mels) + shape.discriminator_parameters()
    return (acoustic + vocoder) * (_TRAINED + (4 if config.training.ema is not None else 0)) / 2**20


def _clip_mib(config: TrainConfig, longest: Bucket, *, half: bool) -> float:
    numbers = SIZES[config.model.size].activations(
        clips=1,
        frames=longest.frames,
        tokens=longest.tokens,
        mels=config.model.mels,
        recompute=config.training.recompute,
    )
    return _MARGIN * numbers * (2 if half else 4) / 2**20


def _is_half(config: TrainConfig, capability: tuple[int, int] | None) -> bool:
    """True where activations have two bytes; `auto` as `resolve_precision` takes it."""
    asked = config.training.precision
    return asked != "float32" and (asked != "auto" or (capability is not None and capability >= (7, 0)))


def _up(value: int, step: int) -> int:
    return max(step, math.ceil(value / step) * step)
