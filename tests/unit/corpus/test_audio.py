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
from voxyard.corpus.mp3 import mp3_samples


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


@pytest.mark.parametrize("left", [b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x94\x35\x77"])
def test_a_streamed_wav_whose_length_was_never_filled_in_is_read(tmp_path: Path, left: bytes) -> None:
    """Programs that write into a pipe leave a large number where the length belongs (kyutai-labs/pocket-tts#229)."""
    path = tmp_path / "a.wav"
    write_wav(path, tone(0.1))
    raw = bytearray(path.read_bytes())
    raw[4:8] = raw[40:44] = left
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


def _riff(
    *chunks: tuple[bytes, bytes], kind: bytes = b"RIFF", promised: int | None = None, cut: int = 0
) -> Callable[[Path], object]:
    """Writes a WAV of these chunks; `promised` bytes of sound are in its header, `cut` are lost at its end."""
    body = b""
    for name, held in chunks:
        size = len(held) if promised is None or name != b"data" else promised
        body += name + struct.pack("<I", size) + held
    whole = kind + struct.pack("<I", len(body) + 4) + b"WAVE" + body
    return lambda path: path.write_bytes(whole[: len(whole) - cut])


def _floats(times: float) -> Callable[[Path], object]:
    return lambda path: soundfile.write(path, times * tone(), RATE, subtype="FLOAT")


def _against_each_other(path: Path) -> None:
    write_wav(path, np.stack([tone(), -tone()], axis=1))


def _cut_ogg(path: Path) -> None:
    soundfile.write(path, tone(3.0), RATE, format="OGG")
    os.truncate(path, path.stat().st_size - 9)


def _flac_without_length(path: Path) -> None:
    soundfile.write(path, tone(), RATE, format="FLAC")
    raw = bytearray(path.read_bytes())
    raw[21] &= 0xF0
    raw[22:26] = bytes(4)
    path.write_bytes(raw)


SOUND = (tone() * 32767).astype("<i2").tobytes()
FORMAT = (b"fmt ", struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16))
LENGTHS = (b"ds64", struct.pack("<QQQI", 0, len(SOUND), len(SOUND) // 2, 0))  # of RF64, where 32 bits are all ones

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
    "FLAC from a pipe": (_flac_without_length, "does not say how long it is.*ffmpeg"),
    "RF64, cut": (
        _riff(LENGTHS, FORMAT, (b"data", SOUND), kind=b"RF64", promised=0xFFFFFFFF, cut=9000),
        "cut short: 351",
    ),
    "a header that was never finished": (_riff(FORMAT, (b"data", SOUND), promised=0), "bytes after a header .* none"),
    "a header that promises half of its sound": (
        _riff(FORMAT, (b"data", SOUND), promised=len(SOUND) // 2),
        "44100 bytes of sound after a header that promises 22050: write it again",
    ),
    "an odd chunk without its pad": (_riff(FORMAT, (b"note", b"abc"), (b"data", SOUND)), "no sound file.*ffmpeg"),
    "numbers of 16 bits as floats": (_floats(32767), "reaches 16383 times full scale: write its samples from -1 to 1"),
    "channels against each other": (_against_each_other, "silent as mono, its channels cancel each other"),
    "MP4": (lambda path: path.write_bytes(b"\0\0\0\x20ftypM4A " + bytes(99)), "it is MP4 .M4A.: convert it .*ffmpeg"),
    "WebM": (lambda path: path.write_bytes(b"\x1aE\xdf\xa3" + bytes(99)), "it is WebM or Matroska: convert"),
    "Windows Media": (lambda path: path.write_bytes(b"0&\xb2u" + bytes(99)), "it is Windows Media: convert"),
    "AAC": (lambda path: path.write_bytes(b"\xff\xf1" + bytes(99)), "it is AAC: convert"),
    "AMR": (lambda path: path.write_bytes(b"#!AMR\n" + bytes(99)), "it is AMR: convert"),
    "a page": (lambda path: path.write_text("<!DOCTYPE html>" + 99 * " "), "a page of HTML or XML, .* fetch it again"),
    "a pointer": (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\n"), "run git lfs pull"),
    "zeros": (lambda path: path.write_bytes(bytes(9999)), "zeros only: copy it again"),
    "WavPack": (lambda path: path.write_bytes(b"wvpk" + bytes(99)), "it is WavPack: convert"),
    "Monkey's Audio": (lambda path: path.write_bytes(b"MAC " + bytes(99)), "it is Monkey's Audio: convert"),
    "a pointer of git-annex": (lambda path: path.write_text("/annex/objects/SHA256E-s1--1.wav\n"), "run git annex get"),
    "Ogg, cut within its last page": (_cut_ogg, r"cut short: the page at byte \d+ lacks \d+ bytes at its end"),
    "an archive": (lambda path: path.write_bytes(b"PK\x03\x04" + bytes(99)), "an archive: unpack it"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_recording_is_named_with_its_fault(corpus: Corpus, fault: str) -> None:
    """Issue 2, Input; found at the latest when the clip is read."""
    break_it, said = FAULTS[fault]
    corpus.add("good").add("broken")
    break_it(corpus.wav("broken"))
    with pytest.raises(CorpusError, match=rf"broken[\s\S]*{said}"):
        corpus.open().read(1)


def test_an_mp3_whose_length_was_never_filled_in_is_read(tmp_path: Path) -> None:
    """Common Voice's come out of a pipe: their length is reckoned from their bytes, a frame or two too long."""
    path = tmp_path / "a.mp3"
    soundfile.write(path, tone(2.0), RATE, bitrate_mode="CONSTANT", compression_level=0.5)
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"Info", bytes(4)).replace(b"Xing", bytes(4)) + bytes(raw[-100:]))
    assert len(read_pcm(path, RATE)) == read_header(path).frames > 2 * RATE


@pytest.mark.parametrize("rate", [16000, 22050, 44100, 48000])
def test_an_mp3_is_as_long_as_its_frames_and_one_that_says_less_is_named(tmp_path: Path, rate: int) -> None:
    """Of a variable bit rate without a tag the bytes of the first frame say nothing: most of it would be lost."""
    path = tmp_path / "a.mp3"
    noise = np.random.default_rng(0).normal(0, 0.2, 3 * rate)
    soundfile.write(path, np.r_[noise, 0.0001 * noise], rate, bitrate_mode="VARIABLE", compression_level=0.5)
    raw = path.read_bytes()
    assert 6 * rate < mp3_samples(raw) < 6 * rate + 4 * 1152
    assert mp3_samples(b"ID3\x03\0\0\0\0\1\2" + bytes(130) + raw) == mp3_samples(raw)
    assert len(read_pcm(path, rate)) == 6 * rate
    path.write_bytes(raw.replace(b"Xing", bytes(4)))
    assert mp3_samples(raw) > 1.2 * read_header(path).frames
    with pytest.raises(CorpusError, match=r"longer than its header says, .* write it again"):
        read_pcm(path, rate)


@pytest.mark.parametrize("tail", [b"LIST\x04\0\0\0INFO", b"ID3\x03" + bytes(9000), bytes(40_000), b"TAG" + bytes(9000)])
def test_what_else_follows_the_samples_of_a_wav_is_no_sound(tail: bytes, tmp_path: Path) -> None:
    """MediaArea/MediaInfoLib#657."""
    _riff(FORMAT, (b"data", SOUND))(tmp_path / "a.wav")
    with (tmp_path / "a.wav").open("ab") as file:
        file.write(tail)
    assert len(read_pcm(tmp_path / "a.wav", RATE)) == RATE


@pytest.mark.parametrize("kind", [b"RF64", b"BW64"])
def test_a_wav_with_lengths_of_64_bits_is_read_or_named(tmp_path: Path, kind: bytes) -> None:
    """openpreserve/jhove#184, ebu/libbw64#10."""
    path = tmp_path / "a.wav"
    _riff(LENGTHS, FORMAT, (b"data", SOUND), kind=kind, promised=0xFFFFFFFF)(path)
    if kind == b"RF64":
        assert read_pcm(path, RATE).tobytes() == SOUND
    else:
        with pytest.raises(CorpusError, match="it is BW64: convert it"):
            read_pcm(path, RATE)


def test_a_recording_that_changed_its_length_since_it_was_opened_is_named(corpus: Corpus) -> None:
    """Batches and caches count on the length that was read first."""
    source = corpus.add("a").open()
    write_wav(corpus.wav("a"), tone(0.7))
    with pytest.raises(CorpusError, match=r"a.*chang"):
        source.read(0)
