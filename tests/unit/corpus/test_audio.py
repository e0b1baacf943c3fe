"""Sound files: every kind of them to 16-bit mono, every broken one a sentence."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from tones import RATE, Corpus, tone, write_wav

from voxyard.corpus import CorpusError
from voxyard.corpus.audio import read_header, read_pcm, resampled_length


def _loudest_hertz(pcm: np.ndarray) -> float:
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm))))
    return float(np.argmax(spectrum)) * RATE / len(pcm)


def _level(pcm: np.ndarray) -> float:
    """Of a sine, without the edges, where filters ring."""
    middle = pcm[len(pcm) // 4 : -len(pcm) // 4].astype(float) / 32768
    return float(np.sqrt(2 * np.mean(middle**2)))


def test_a_recording_at_the_rate_of_the_model_is_read_bit_by_bit(tmp_path: Path) -> None:
    sound = np.array([0, 1, -1, 32767, -32768, 12345], np.int16)
    soundfile.write(tmp_path / "a.wav", sound, RATE, subtype="PCM_16")
    assert read_pcm(tmp_path / "a.wav", RATE).tolist() == sound.tolist()


@pytest.mark.parametrize("rate", [8000, 16000, 44100, 48000])
def test_other_rates_keep_pitch_and_level_and_their_length_is_known_beforehand(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "a.wav"
    write_wav(path, tone(1.2345, rate), rate)
    header = read_header(path)
    pcm = read_pcm(path, RATE)
    assert (header.sample_rate, header.channels) == (rate, 1)
    assert len(pcm) == resampled_length(header.frames, rate, RATE)
    assert len(pcm) == pytest.approx(1.2345 * RATE, abs=2)
    assert _loudest_hertz(pcm) == pytest.approx(440, abs=1)
    assert _level(pcm) == pytest.approx(0.5, abs=0.005)


@given(frames=st.integers(1, 3000), rate=st.sampled_from([8000, 11025, 16000, 24000, 44100, 48000]))
def test_the_predicted_length_is_the_length(tmp_path_factory: pytest.TempPathFactory, frames: int, rate: int) -> None:
    """The buckets are planned from headers alone."""
    path = tmp_path_factory.getbasetemp() / "any-length.wav"
    write_wav(path, np.zeros(frames), rate)
    assert len(read_pcm(path, RATE)) == resampled_length(frames, rate, RATE) > 0


def test_stereo_is_averaged(tmp_path: Path) -> None:
    sound = np.stack([np.full(100, 0.5), np.full(100, -0.25)], axis=1)
    write_wav(tmp_path / "a.wav", sound)
    assert read_pcm(tmp_path / "a.wav", RATE) == pytest.approx(0.125 * 32768, abs=2)


@pytest.mark.parametrize("subtype", ["PCM_24", "FLOAT", "DOUBLE", "PCM_U8", "ULAW"])
def test_other_sample_formats_keep_the_level(tmp_path: Path, subtype: str) -> None:
    soundfile.write(tmp_path / "a.wav", tone(), RATE, subtype=subtype)
    assert _level(read_pcm(tmp_path / "a.wav", RATE)) == pytest.approx(0.5, abs=0.01)


def test_what_is_louder_than_full_scale_is_clipped_and_does_not_wrap(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.array([2.0, -2.0, 0.5]), RATE, subtype="FLOAT")
    assert read_pcm(tmp_path / "a.wav", RATE).tolist() == [32767, -32768, 16384]


def test_a_streamed_wav_whose_length_was_never_filled_in_is_read(tmp_path: Path) -> None:
    """Programs that write into a pipe leave the largest number where the length belongs."""
    path = tmp_path / "a.wav"
    write_wav(path, tone(0.1))
    raw = bytearray(path.read_bytes())
    raw[4:8] = raw[40:44] = b"\xff" * 4
    path.write_bytes(raw)
    assert len(read_pcm(path, RATE)) == 2205


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _flip_header(path: Path) -> None:
    path.write_bytes(b"RIFX" + path.read_bytes()[4:20] + bytes(20) + path.read_bytes()[40:])


def _promise_more(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[40:44] = struct.pack("<I", 10 * len(raw))
    path.write_bytes(raw)


def _no_numbers(path: Path) -> None:
    soundfile.write(path, np.array([0.1, np.nan, 0.2] * 5000), RATE, subtype="FLOAT")


def _no_samples(path: Path) -> None:
    write_wav(path, np.zeros(0))


def _a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut in half": (_cut, "cut short"),
    "promises more than it holds": (_promise_more, "cut short"),
    "corrupt header": (_flip_header, "no sound file"),
    "noise": (lambda path: path.write_bytes(os.urandom(999)), "no sound file"),
    "text": (lambda path: path.write_text("once upon a time\n" * 99), "no sound file"),
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "only a header": (lambda path: os.truncate(path, 44), "cut short"),
    "half a header": (lambda path: os.truncate(path, 20), "no sound file"),
    "no samples": (_no_samples, "no sound: 0 samples"),
    "not a number": (_no_numbers, "no numbers"),
    "missing": (Path.unlink, "is missing"),
    "a directory": (_a_directory, "no file"),
    "a pipe": (_a_pipe, "no file"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_recording_is_named_with_its_fault(corpus: Corpus, fault: str) -> None:
    """Issue 2, Input; found at the latest when the clip is read."""
    break_it, said = FAULTS[fault]
    corpus.add("good").add("broken")
    break_it(corpus.wav("broken"))
    with pytest.raises(CorpusError, match=rf"broken[\s\S]*{said}"):
        corpus.open().read(1)


def test_a_recording_that_changed_its_length_since_it_was_opened_is_named(corpus: Corpus) -> None:
    """Batches and caches count on the length that was read first."""
    source = corpus.add("a").open()
    write_wav(corpus.wav("a"), tone(0.7))
    with pytest.raises(CorpusError, match=r"a.*chang"):
        source.read(0)
