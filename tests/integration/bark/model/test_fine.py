"""The fine stage and the codec: all codebooks, then sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from voxyard.bark.model import codec, fine
from voxyard.bark.model.noise import key
from voxyard.bark.weights import tiny
from voxyard.bark.weights.checkpoint import BarkCheckpoint, load

KEY = key(7, 0, 0, "fine")


def coarse_codes(frames: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 1024, (2, frames))


def transformers_codes(checkpoint: BarkCheckpoint, codes: list[Any], voice: Any = None) -> Any:
    """Reference codes of transformers for coarse codes of one length; temperature 1 is greedy there."""
    from transformers.models.bark import generation_configuration_bark

    settings: Any = generation_configuration_bark
    given = checkpoint.model.generation_config
    tokens = np.stack([(each + np.array([[10_000], [11_024]])).T.reshape(-1) for each in codes])
    return checkpoint.model.fine_acoustics.generate(
        torch.as_tensor(tokens),
        semantic_generation_config=settings.BarkSemanticGenerationConfig(**given.semantic_config),
        coarse_generation_config=settings.BarkCoarseGenerationConfig(**given.coarse_acoustics_config),
        fine_generation_config=settings.BarkFineGenerationConfig(**given.fine_acoustics_config),
        codebook_size=given.codebook_size,
        history_prompt=voice.for_transformers() if voice else None,
        temperature=1.0,
    ).numpy()


def found(checkpoint: BarkCheckpoint, codes: Any, voice: Any = None, temperature: float = 0.0, named: Any = KEY) -> Any:
    gpt = fine.fine_gpt(checkpoint.model.fine_acoustics)
    complete, finite = fine.speak(gpt, checkpoint.layout.fine, codes, voice, named, temperature)
    assert finite
    return complete


@pytest.mark.parametrize(("frames", "voice"), [(1, None), (150, None), (1100, None), (300, 700), (600, 700), (40, 100)])
def test_greedy_codes_equal_those_of_transformers(
    checkpoint: BarkCheckpoint, history: Any, frames: int, voice: int | None
) -> None:
    codes, past = coarse_codes(frames), history.random(50, voice) if voice else None
    expected = transformers_codes(checkpoint, [codes], past)[0]

    complete = found(checkpoint, codes, past)

    assert complete.shape == (8, frames)
    np.testing.assert_array_equal(complete, expected)


def test_in_windows_as_published_too(tmp_path: Path) -> None:
    """Which are four times those of the other tests: most of the time that a tiny model speaks for."""
    tiny.write(tmp_path, tiny.TinyShape(layers=1))
    published, codes = load(tmp_path), coarse_codes(1100)
    assert published.layout.fine.window == 1024

    np.testing.assert_array_equal(found(published, codes), transformers_codes(published, [codes])[0])


def test_the_given_codebooks_stay_and_the_others_are_codes(checkpoint: BarkCheckpoint) -> None:
    codes = coarse_codes(90)

    complete = found(checkpoint, codes, temperature=0.5)

    np.testing.assert_array_equal(complete[:2], codes)
    assert complete.min() >= 0
    assert complete.max() < 1024


def test_the_same_key_finds_the_same_codes_and_another_does_not(checkpoint: BarkCheckpoint) -> None:
    codes = coarse_codes(60)

    one, again, other = (
        found(checkpoint, codes, temperature=0.5, named=named) for named in (KEY, KEY, key(7, 0, 1, "fine"))
    )

    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


@pytest.mark.parametrize("frames", [0, 1, 2, 75, 200])
def test_the_sound_has_320_samples_a_frame(checkpoint: BarkCheckpoint, frames: int) -> None:
    codes = np.random.default_rng(0).integers(0, 1024, (8, frames))

    sound = codec.decode(checkpoint.model.codec_model, codes)

    assert sound.shape == (320 * frames,)
    assert sound.dtype == np.float32
    assert np.isfinite(sound).all()


def test_the_sound_is_that_of_transformers(checkpoint: BarkCheckpoint) -> None:
    codes = np.random.default_rng(0).integers(0, 1024, (8, 50))

    expected = checkpoint.model.codec_decode(torch.as_tensor(codes)[None])[0].numpy()

    np.testing.assert_array_equal(codec.decode(checkpoint.model.codec_model, codes), expected)
