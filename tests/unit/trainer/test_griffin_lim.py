"""From a mel back to sound, and to a picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from voxyard.trainer.config import ModelConfig
from voxyard.trainer.model import griffin_lim
from voxyard.trainer.model.griffin_lim import linear_magnitude, spectrogram_image, wav_of, waveform
from voxyard.trainer.model.mel import FLOOR, edge_padding, hann, mel_basis
from voxyard.trainer.model.sizes import SIZES

CONFIG = ModelConfig()


def voice(seconds: float = 0.8) -> NDArray[np.float64]:
    """A buzz with a gliding pitch and two resonances, that starts and stops: near enough to a vowel."""
    time = np.arange(int(seconds * CONFIG.sample_rate)) / CONFIG.sample_rate
    phase = 2 * np.pi * np.cumsum(140 + 60 * np.sin(2 * np.pi * 1.5 * time)) / CONFIG.sample_rate
    harmonics = np.arange(1, 30)
    loudness = 1 / (1 + ((harmonics * 150 - 700) / 200) ** 2) + 0.5 / (1 + ((harmonics * 150 - 2300) / 300) ** 2)
    sound = (np.sin(phase[:, None] * harmonics) * loudness).sum(1)
    return np.asarray(0.2 * sound * np.clip(np.sin(2 * np.pi * 2 * time), 0, 1))


def log_mel(
    samples: NDArray[np.floating], config: ModelConfig = CONFIG, pre_emphasis: float = 0.0
) -> NDArray[np.float64]:
    """(frames, mels), written out frame by frame."""
    hop, size = config.hop_length, config.fft_size
    samples = samples[: len(samples) // hop * hop].astype(np.float64)
    samples = samples - pre_emphasis * np.concatenate([[0.0], samples[:-1]])
    padded = np.pad(samples, edge_padding(size, hop), "reflect")
    frames = [padded[i * hop : i * hop + size] * hann(size) for i in range(len(samples) // hop)]
    return np.log(np.maximum(np.abs(np.fft.rfft(frames)) @ mel_basis(config).T, FLOOR))


@pytest.mark.parametrize("pre_emphasis", [0.0, 0.9])
def test_a_voice_survives_the_way_through_its_mel(pre_emphasis: float) -> None:
    """Wav → mel → wav → mel; where there is sound, the second mel is the first one to a sixth of a neper."""
    before = log_mel(voice(), pre_emphasis=pre_emphasis)
    samples = waveform(before, CONFIG, pre_emphasis=pre_emphasis)
    after = log_mel(samples, pre_emphasis=pre_emphasis)
    assert samples.shape == (len(before) * CONFIG.hop_length,)
    assert samples.dtype == np.float32
    assert np.abs(samples).max() <= 1
    loud = before > -6
    assert loud.mean() > 0.2
    assert np.abs(after - before)[loud].mean() < 0.17


@pytest.mark.parametrize("frames", [1, 2, 30])
def test_analysis_takes_the_mels_frames_and_synthesis_undoes_it(frames: int) -> None:
    """Noise, which is loud to its edges, and shorter than the padding with one frame."""
    samples = np.random.default_rng(frames).normal(size=frames * CONFIG.hop_length)
    spectrum = griffin_lim.analysis(samples, CONFIG)
    mel = np.log(np.maximum(np.abs(spectrum) @ mel_basis(CONFIG).T, FLOOR))
    np.testing.assert_allclose(mel, log_mel(samples), atol=1e-9)
    np.testing.assert_allclose(griffin_lim._synthesis(spectrum, CONFIG), samples, atol=1e-9)


@pytest.mark.slow
def test_the_inverted_mel_is_not_negative_and_has_the_same_mel() -> None:
    """The least-squares magnitudes reproduce the mel that they came from."""
    mel = log_mel(voice())
    magnitude = linear_magnitude(mel, CONFIG)
    again = np.log(np.maximum(magnitude @ mel_basis(CONFIG).T, FLOOR))
    assert magnitude.min() >= 0
    assert np.abs(again - mel).mean() < 0.01


def test_the_same_mel_always_sounds_the_same() -> None:
    """Synthesis is deterministic."""
    mel = log_mel(voice(0.3))
    np.testing.assert_array_equal(waveform(mel, CONFIG), waveform(mel, CONFIG))


@pytest.mark.parametrize("value", [np.log(FLOOR), 6.0])
def test_silence_and_far_too_loud_mels_make_sound_within_range(value: float) -> None:
    """An untrained model's mel still makes a file."""
    samples = waveform(np.full((7, CONFIG.mels), value, np.float32), CONFIG)
    assert samples.shape == (7 * CONFIG.hop_length,)
    assert np.isfinite(samples).all()
    assert np.abs(samples).max() <= 1


def test_a_wav_file_has_16_bits_and_the_given_rate(tmp_path: Path) -> None:
    """Samples beyond the range are clipped, not wrapped."""
    (tmp_path / "x.wav").write_bytes(wav_of(np.array([0.0, 0.5, 2.0, -2.0]), 22050))
    samples, rate = soundfile.read(tmp_path / "x.wav", dtype="int16")
    assert (rate, soundfile.info(tmp_path / "x.wav").subtype) == (22050, "PCM_16")
    np.testing.assert_array_equal(samples, [0, 16384, 32767, -32767])


def test_a_spectrogram_is_drawn_with_low_bands_below_and_loud_ones_pale() -> None:
    """The picture for TensorBoard."""
    mel = np.full((30, 80), -11.5)
    mel[10:, :5] = 1.0
    picture = spectrogram_image(mel)
    assert picture.shape == (160, 60, 3)
    assert picture.dtype == np.uint8
    assert picture[-1, -1].sum() > 500
    assert picture[-1, 0].sum() == picture[0, -1].sum() < 100


def test_mel_filters_have_the_area_that_slaney_gave_them() -> None:
    """Each filter weighs its band by 2 / width: its area over Hz is one. The bands reach to mel_high_hz."""
    fine = ModelConfig(fft_size=4096)
    basis = mel_basis(fine)
    width = fine.sample_rate / fine.fft_size
    np.testing.assert_allclose(basis.sum(1) * width, 1, atol=0.05)
    beyond = np.arange(basis.shape[1]) * width > fine.mel_high_hz
    assert (basis[:, beyond] == 0).all()


def test_the_sizes_are_described_without_loading_tensorflow() -> None:
    """`--model-size` has four rows, of the model and of its vocoder; counting them needs no framework."""
    code = (
        "import sys; from voxyard.trainer.model.sizes import describe; table = describe();"
        "assert not {'tensorflow', 'keras', 'torch'} & set(sys.modules); print(table)"
    )
    table = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in table.splitlines() if line.strip()]
    assert [name for name in names if name in SIZES] == 2 * ["tiny", "small", "normal", "big"]
