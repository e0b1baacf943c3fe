"""The one mel of the trainer, its pitch and its energy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from voxyard.trainer.config import DataConfig, ModelConfig
from voxyard.trainer.model.features import FeatureExtractor
from voxyard.trainer.model.mel import FLOOR, mel_basis

HOP, RATE = 256, 22050
NAMES = ("mel", "pitch", "energy")


def clips(sounds: list[NDArray[np.int16]], frames: int) -> dict[str, tf.Tensor]:
    pcm = np.zeros((len(sounds), frames * HOP), np.int16)
    for row, sound in enumerate(sounds):
        pcm[row, : len(sound)] = sound[: frames * HOP]
    rows = len(sounds)
    return {
        "pcm": tf.constant(pcm),
        "pcm_length": tf.constant([min(len(sound), frames * HOP) for sound in sounds], tf.int32),
        "tokens": tf.ones([rows, 3], tf.int32),
        "token_length": tf.fill([rows], 3),
        "speaker": tf.zeros([rows], tf.int32),
        "clip_seed": tf.constant(np.arange(2 * rows, dtype=np.int32).reshape(rows, 2)),
    }


def noise(samples: int, seed: int = 0) -> NDArray[np.int16]:
    return (np.random.default_rng(seed).normal(size=samples) * 4000).astype(np.int16)


def buzz(hertz: float, samples: int) -> NDArray[np.int16]:
    time = np.arange(samples) / RATE
    return np.asarray(3000 * sum(np.cos(2 * np.pi * hertz * k * time) / k for k in range(1, 9)), np.int16)


def features(sounds: list[NDArray[np.int16]], frames: int, **data: Any) -> dict[str, NDArray[np.float32]]:
    made = FeatureExtractor(ModelConfig(), DataConfig(**data))(clips(sounds, frames))
    return {name: value.numpy() for name, value in made.items()}


def slaney_hertz(mel: float) -> float:
    """A mel is 200/3 Hz below 1 kHz; above, 27 mels are a factor of 6.4."""
    return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)


def slaney_mel(hertz: float) -> float:
    return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * np.log(hertz / 1000) / np.log(6.4)


def mel_by_formula(pcm: NDArray[np.int16]) -> NDArray[np.float64]:
    """HiFi-GAN's mel in double precision, by the discrete Fourier sum and filters written out band by band."""
    samples = pcm[: len(pcm) // HOP * HOP] / 32768
    padded = np.pad(samples, 384, mode="reflect")
    n = np.arange(1024)
    window = np.sin(np.pi * n / 1024) ** 2
    transform = np.exp(-2j * np.pi * np.outer(np.arange(513), n) / 1024)
    frames = np.stack([padded[start : start + 1024] * window for start in range(0, len(samples), HOP)])
    magnitude = np.abs(frames @ transform.T)
    centres = [slaney_hertz(m) for m in np.linspace(0, slaney_mel(8000), 82)]
    mel = np.zeros((len(frames), 80))
    for band in range(80):
        low, middle, high = centres[band : band + 3]
        for k in range(513):
            hertz = k * RATE / 1024
            height = min((hertz - low) / (middle - low), (high - hertz) / (high - middle))
            if height > 0:
                mel[:, band] += magnitude[:, k] * height * 2 / (high - low)
    return np.log(np.maximum(mel, 1e-5))


def test_the_log_mel_is_the_one_that_published_vocoders_expect() -> None:
    """Against an independent computation by the formulas; a frame a hop, reflected at the edges."""
    sound = noise(20 * HOP + 100)
    made = features([sound], 21)
    expected = mel_by_formula(sound)
    assert made["mel_length"].tolist() == [20]
    np.testing.assert_allclose(made["mel"][0, :20], expected, atol=2e-4)


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_a_clip_that_is_shorter_than_the_padding_is_reflected_again(frames: int) -> None:
    """As numpy.pad does it; padded to a longer bucket, and beside a longer clip."""
    sound = noise(frames * HOP, seed=frames)
    made = features([sound, noise(9 * HOP)], 9)
    np.testing.assert_allclose(made["mel"][0, :frames], mel_by_formula(sound), atol=2e-4)


def test_energy_is_the_level_of_the_windowed_frame() -> None:
    """A tone of amplitude a has the energy log(a · √(3/16)), wherever its frame is full."""
    time = np.arange(20 * HOP) / RATE
    made = features([(16384 * np.sin(2 * np.pi * 441 * time)).astype(np.int16)], 20)
    np.testing.assert_allclose(made["energy"][0, 3:-3], np.log(0.5 * np.sqrt(3 / 16)), atol=0.01)


def test_padding_and_batch_mates_change_no_feature() -> None:
    """A clip alone in its own length, and between others in a longer bucket; its odd last samples never count."""
    sound = noise(17 * HOP + 200, seed=1)
    alone = features([sound], 17)
    among = features([noise(30 * HOP, seed=2), sound, buzz(120, 5 * HOP)], 32)
    for name in NAMES:
        np.testing.assert_allclose(among[name][1, :17], alone[name][0], atol=1e-5, err_msg=name)


def test_padded_frames_hold_the_documented_values() -> None:
    """Log(1e-5) in the mel, zero in pitch and energy."""
    made = features([buzz(150, 10 * HOP)], 14)
    assert (made["mel"][0, 10:] == np.float32(np.log(FLOOR))).all()
    assert not made["pitch"][0, 10:].any()
    assert not made["energy"][0, 10:].any()


@pytest.mark.parametrize("hertz", [70.0, 110.0, 220.5, 441.0])
def test_the_pitch_of_a_buzz_is_found(hertz: float) -> None:
    """To half a percent, in every frame that is full."""
    made = features([buzz(hertz, 24 * HOP)], 24)
    np.testing.assert_allclose(np.exp(made["pitch"][0, 2:-2]), hertz, rtol=5e-3)


def test_noise_and_silence_have_no_pitch() -> None:
    """Unvoiced is 0; a faint buzz beside a loud one counts as silence."""
    quiet = np.concatenate([buzz(150, 20 * HOP), buzz(150, 20 * HOP) // 200])
    made = features([noise(40 * HOP), np.zeros(40 * HOP, np.int16), quiet], 40)
    assert (made["pitch"][0] > 0).mean() < 0.1
    assert not made["pitch"][1].any()
    assert (made["pitch"][2, 2:18] > 0).all()
    assert not made["pitch"][2, 23:].any()


def test_a_random_gain_shifts_the_mel_and_follows_from_the_clip_seed() -> None:
    """data.gain_augment_db: the same clip and seed give the same gain in any batch, another seed another one."""
    sounds = [noise(8 * HOP, seed=3)] * 2
    plain, louder = features(sounds, 8), features(sounds, 8, gain_augment_db=6.0)
    shift = louder["mel"][:, :, 20:60] - plain["mel"][:, :, 20:60]
    np.testing.assert_allclose(shift, np.broadcast_to(shift[:, :1, :1], shift.shape), atol=1e-3)
    gains = shift[:, 0, 0] / np.log(10) * 20
    assert abs(gains[0] - gains[1]) > 0
    assert (np.abs(gains) <= 6).all()
    backwards = clips(sounds, 8)
    backwards["clip_seed"] = backwards["clip_seed"][::-1]
    again = FeatureExtractor(ModelConfig(), DataConfig(gain_augment_db=6.0))(backwards)["mel"].numpy()
    np.testing.assert_array_equal(again, louder["mel"][::-1])


def test_pre_emphasis_weighs_the_spectrum_by_its_filter() -> None:
    """data.pre_emphasis: a steady tone changes by |1 − a·e^(−jω)|."""
    time = np.arange(20 * HOP) / RATE
    tone = (8000 * np.sin(2 * np.pi * 1000 * time)).astype(np.int16)
    change = features([tone], 20, pre_emphasis=0.97)["mel"] - features([tone], 20)["mel"]
    band = int(features([tone], 20)["mel"][0, 10].argmax())
    expected = np.log(np.abs(1 - 0.97 * np.exp(-2j * np.pi * 1000 / RATE)))
    np.testing.assert_allclose(change[0, 5:15, band], expected, atol=0.02)


def test_xla_and_another_device_compute_the_same_features() -> None:
    """The function that the data device runs, compiled, and placed on the second logical device."""
    raw = clips([noise(12 * HOP), buzz(200, 9 * HOP)], 12)
    extractor = FeatureExtractor(ModelConfig(), DataConfig())
    plain, compiled = extractor(raw), tf.function(extractor, jit_compile=True, autograph=False)(raw)
    with tf.device("CPU:1"):
        elsewhere = tf.function(extractor, autograph=False)(raw)
    for name in NAMES:
        np.testing.assert_allclose(compiled[name], plain[name], atol=2e-4, err_msg=name)
        np.testing.assert_allclose(elsewhere[name], plain[name], atol=1e-5, err_msg=name)
        assert "CPU:1" in elsewhere[name].device
        assert plain[name].shape.is_fully_defined()


def test_a_product_in_tf32_changes_the_log_mel_by_less_than_a_thousandth() -> None:
    """GPUs from Ampere on round the factors of a product to 11 significant bits; the sum of positive terms keeps it."""

    def tf32(values: NDArray[np.float64]) -> NDArray[np.float32]:
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)

    basis = mel_basis(ModelConfig()).T
    magnitudes = np.abs(np.fft.rfft(noise(1024 * 200).reshape(200, 1024) / 32768 * np.hanning(1024)))
    exact, rounded = (np.log(np.maximum(product, FLOOR)) for product in (
        magnitudes @ basis, tf32(magnitudes).astype(np.float64) @ tf32(basis).astype(np.float64)
    ))  # fmt: skip
    assert 0 < np.abs(exact - rounded).max() < 1e-3
