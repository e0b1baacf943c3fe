"""Dimensions of a Bark model: vocabularies, windows and rates of its stages, from its own settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from voxyard.bark.errors import BarkError

SAMPLES_PER_FRAME = 320  # EnCodec at 24 kHz: 75 frames a second


@dataclass(frozen=True)
class SemanticLayout:
    """Text to semantic tokens."""

    window: int  # text tokens, and history tokens merged with them
    vocabulary: int
    end: int  # also what fills the history
    text_offset: int
    text_pad: int
    infer: int
    max_new: int


@dataclass(frozen=True)
class CoarseLayout:
    """Semantic tokens to the first codebooks."""

    window: int  # semantic tokens before the infer token
    history: int  # coarse tokens after it, at most
    slide: int  # tokens between two moves of the semantic window
    first: int  # id of the first code of the first codebook
    codebook: int
    codebooks: int
    pad: int
    infer: int
    ratio: float  # coarse tokens for a semantic token

    @property
    def semantic_history(self) -> int:
        """Semantic tokens of the same duration as the coarse history."""
        return int(self.history / self.ratio)


@dataclass(frozen=True)
class FineLayout:
    """The first codebooks to all of them."""

    window: int  # frames
    hop: int
    given: int
    codebooks: int
    codebook: int  # also the code that stands for "none"


@dataclass(frozen=True)
class Layout:
    """All stages of one model."""

    semantic: SemanticLayout
    coarse: CoarseLayout
    fine: FineLayout
    block: int  # positions of a stage's transformer
    sample_rate: int


def layout_of(model: Any) -> Layout:
    """Dimensions of a `BarkModel`, from its generation settings.

    Raises:
        BarkError: the settings contradict each other, or the engine does not support them.
    """
    from transformers.models.bark import generation_configuration_bark

    stages: Any = generation_configuration_bark
    settings = model.generation_config
    semantic = stages.BarkSemanticGenerationConfig(**settings.semantic_config)
    coarse = stages.BarkCoarseGenerationConfig(**settings.coarse_acoustics_config)
    fine = stages.BarkFineGenerationConfig(**settings.fine_acoustics_config)
    end = semantic.eos_token_id
    if end != semantic.semantic_vocab_size:
        raise BarkError(
            f"generation_config.json: the end of speech is token {end}, expected the one behind the semantic "
            f"vocabulary ({semantic.semantic_vocab_size}); this is no Bark model that voxyard knows"
        )
    codebook = settings.codebook_size
    found = Layout(
        semantic=SemanticLayout(
            window=semantic.max_input_semantic_length,
            vocabulary=semantic.semantic_vocab_size,
            end=end,
            text_offset=semantic.text_encoding_offset,
            text_pad=semantic.text_pad_token,
            infer=semantic.semantic_infer_token,
            max_new=semantic.max_new_tokens,
        ),
        coarse=CoarseLayout(
            window=coarse.max_coarse_input_length,
            history=coarse.max_coarse_history,
            slide=coarse.sliding_window_len,
            first=semantic.semantic_vocab_size,
            codebook=codebook,
            codebooks=coarse.n_coarse_codebooks,
            pad=coarse.coarse_semantic_pad_token,
            infer=coarse.coarse_infer_token,
            ratio=coarse.coarse_rate_hz / semantic.semantic_rate_hz * coarse.n_coarse_codebooks,
        ),
        fine=FineLayout(
            window=fine.max_fine_input_length,
            hop=fine.max_fine_history_length,
            given=coarse.n_coarse_codebooks,
            codebooks=fine.n_fine_codebooks,
            codebook=codebook,
        ),
        block=model.config.semantic_config.block_size,
        sample_rate=settings.sample_rate,
    )
    _check(found, model)
    return found


def _check(layout: Layout, model: Any) -> None:
    """Check the properties that the decode loops rely on."""
    coarse, semantic = layout.coarse, layout.semantic
    longest = {
        "semantic": semantic.window + semantic.max_new,
        "coarse": coarse.window + coarse.history + coarse.slide,
        "fine": layout.fine.window,
    }
    for stage, positions in longest.items():
        if positions > layout.block:
            raise BarkError(f"the {stage} stage needs {positions} positions, the model has {layout.block}")
    if coarse.slide % coarse.codebooks:
        raise BarkError(f"the coarse window slides by {coarse.slide} tokens, not a whole number of frames")
    samples = 1
    for ratio in model.config.codec_config.upsampling_ratios:
        samples *= ratio
    if samples != SAMPLES_PER_FRAME:
        raise BarkError(f"the codec makes {samples} samples of a frame, expected {SAMPLES_PER_FRAME}")
