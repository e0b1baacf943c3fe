"""Sound as bytes: every format plays, streams, has its length, and is the same every time."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
import wave
import weakref

import av
import numpy as np
import pytest

from voxyard.speech.audio import wav
from voxyard.speech.audio.encoder import FORMATS, MEDIA_TYPES, EncodeError, Encoder, Format
from voxyard.speech.audio.wav import pcm16

RATE = 24_000
PADDING = {"mp3": 2400, "aac": 2048}  # samples: what the codec puts before and behind


def tone(seconds: float, hertz: float = 440.0, rate: int = RATE) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def encoded(kind: Format, audio: np.ndarray, step: int = 5000, **options: float) -> bytes:
    with Encoder(kind, **options) as encoder:  # type: ignore[arg-type]
        parts = [encoder.encode(audio[start : start + step]) for start in range(0, len(audio), step)]
        return b"".join([*parts, encoder.finish()])


def decoded(data: bytes, kind: Format, rate: int = RATE) -> np.ndarray:
    """The sound of the bytes as FFmpeg plays them, (n,) at `rate`."""
    if kind == "pcm" and not data:
        return np.zeros(0, np.float32)
    resampler = av.AudioResampler("flt", "mono", rate)
    raw = {"sample_rate": str(rate), "ch_layout": "mono"} if kind == "pcm" else None
    with av.open(io.BytesIO(data), "r", format="s16le" if raw else None, options=raw) as container:
        assert container.streams.audio[0].codec_context.channels == 1
        frames = [frame for packed in container.decode(audio=0) for frame in resampler.resample(packed)]
        frames += resampler.resample(None)
    return np.concatenate([np.zeros(0, np.float32), *(frame.to_ndarray()[0] for frame in frames)])


def peak(audio: np.ndarray) -> float:
    middle = audio[len(audio) // 4 : -len(audio) // 4]
    return float(np.argmax(np.abs(np.fft.rfft(middle * np.hanning(len(middle))))) * RATE / len(middle))


def surplus(kind: Format) -> int:
    return PADDING.get(kind, 0)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("samples", [1, 479, 24_000, 70_001])
def test_what_is_decoded_is_as_long_as_what_was_spoken(kind: Format, samples: int) -> None:
    rate = 48_000 if kind == "opus" else RATE  # Opus is always decoded at that
    heard = decoded(encoded(kind, tone(samples / RATE)), kind, rate)
    assert 0 <= len(heard) - samples * rate // RATE <= surplus(kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_sound_is_the_one_that_was_spoken(kind: Format) -> None:
    heard = decoded(encoded(kind, tone(2.0)), kind)
    assert peak(heard) == pytest.approx(440, abs=2)
    assert np.abs(heard[RATE // 2 : RATE]).max() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("kind", ["wav", "pcm", "flac"])
def test_nothing_is_lost_of_sixteen_bits(kind: Format) -> None:
    audio = np.random.default_rng(1).uniform(-1, 1, 10_000).astype(np.float32)
    assert np.array_equal(np.rint(decoded(encoded(kind, audio), kind) * 32768).astype(np.int16), pcm16(audio))


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_sound_is_the_same_bytes_however_it_is_cut(kind: Format) -> None:
    audio = tone(1.3)
    assert encoded(kind, audio) == encoded(kind, audio) == encoded(kind, audio, step=333)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_bytes_are_the_same_in_another_process(kind: Format) -> None:
    program = (
        "import sys, numpy as np\n"
        "from voxyard.speech.audio.encoder import Encoder\n"
        f"encoder = Encoder({kind!r}, speed=1.5)\n"
        "sys.stdout.buffer.write(encoder.encode(np.full(9000, 0.25, np.float32)) + encoder.finish())"
    )
    first, second = (subprocess.run([sys.executable, "-c", program], capture_output=True, check=True) for _ in range(2))
    assert len(first.stdout) > 100
    assert first.stdout == second.stdout


@pytest.mark.parametrize("kind", FORMATS)
def test_the_first_second_is_heard_before_the_second_one_comes(kind: Format) -> None:
    with Encoder(kind) as encoder:
        heard = decoded(encoder.encode(tone(1.0)), kind)
    assert len(heard) > 0.8 * RATE


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("speed", [0.25, 4.0])
def test_a_listener_does_not_wait_at_another_speed_either(kind: Format, speed: float) -> None:
    with Encoder(kind, speed=speed) as encoder:
        heard = decoded(b"".join(encoder.encode(tone(0.5)) for _ in range(4)), kind)
    assert len(heard) > 0.5 * 2.0 * RATE / speed


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("speed", [0.25, 0.5, 0.9, 1.25, 2.0, 4.0])
def test_the_speed_changes_the_length_and_not_the_pitch(kind: Format, speed: float) -> None:
    heard = decoded(encoded(kind, tone(3.0), speed=speed), kind)
    assert 0 <= len(heard) - round(3.0 * RATE / speed) <= surplus(kind)
    assert peak(heard) == pytest.approx(440, rel=0.01)


@pytest.mark.parametrize("speed", [0.2499, 4.0001, 0.0, -1.0, float("nan"), float("inf")])
def test_a_speed_out_of_range_is_refused(speed: float) -> None:
    with pytest.raises(EncodeError, match=r"expected 0\.25 .* to 4"):
        Encoder("wav", speed=speed)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_no_sound_at_all_is_a_valid_file(kind: Format, speed: float) -> None:
    data = encoded(kind, np.zeros(0, np.float32), speed=speed)
    assert bool(data) == (kind != "pcm")
    assert len(decoded(data, kind)) <= surplus(kind) + 1


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_has_a_media_type(kind: Format) -> None:
    assert MEDIA_TYPES[kind].startswith("audio/")


def test_loud_samples_are_clipped_and_others_rounded_to_the_nearest() -> None:
    audio = np.array([0, 1, -1, 1.5, -7, 1e30, 0.4 / 32767, 0.6 / 32767, -0.6 / 32767], np.float32)
    assert pcm16(audio).tolist() == [0, 32767, -32767, 32767, -32767, 32767, 0, 1, -1]
    assert np.frombuffer(encoded("pcm", audio), "<i2").tolist() == pcm16(audio).tolist()


def test_what_a_faster_sound_overshoots_is_clipped_not_wrapped() -> None:
    square = np.sign(tone(1.0, 300.0)) * np.float32(1.0)
    values = np.frombuffer(encoded("pcm", square, speed=1.3), "<i2")
    assert np.abs(values.astype(int)).max() <= 32767
    assert np.abs(np.diff(values.astype(int)))[2000:-2000].max() <= 2 * 32767


@pytest.mark.parametrize(
    ("audio", "complaint"),
    [
        (np.array([0.0, np.nan, np.inf], np.float32), "2 of 3 samples are NaN or infinite"),
        (np.zeros(4, np.int16), r"int16 \(4,\), expected one channel of float"),
        (np.zeros((2, 4), np.float32), r"float32 \(2, 4\)"),
        (np.float32(0.5).reshape(()), r"float32 \(\)"),
    ],
)
@pytest.mark.parametrize("kind", ["wav", "opus"])
def test_what_is_not_sound_is_refused_and_changes_nothing(kind: Format, audio: np.ndarray, complaint: str) -> None:
    with Encoder(kind) as encoder:
        data = encoder.encode(tone(0.5))
        with pytest.raises(EncodeError, match=complaint):
            encoder.encode(audio)
        data += encoder.finish()
    assert data == encoded(kind, tone(0.5))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_finished_encoder_takes_no_more(kind: Format) -> None:
    encoder = Encoder(kind)
    encoder.finish()
    for more in (lambda: encoder.encode(tone(0.1)), encoder.finish):
        with pytest.raises(EncodeError, match="create another"):
            more()


def test_an_unknown_format_and_a_rate_that_a_format_cannot_have_are_named() -> None:
    with pytest.raises(EncodeError, match="'ogg', expected one of mp3, opus"):
        Encoder("ogg")  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match="opus cannot have 22050 samples a second, expected one of 8000, 12000"):
        Encoder("opus", 22_050)
    with pytest.raises(EncodeError, match="the sample rate is 0"):
        Encoder("wav", 0)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("rate", [8000, 16_000, 48_000])
def test_other_sample_rates_are_kept(kind: Format, rate: int) -> None:
    audio = tone(1.0, rate=rate)
    with Encoder(kind, rate, speed=2.0) as encoder:
        data = encoder.encode(audio) + encoder.finish()
    heard = decoded(data, kind, rate)
    assert 0 <= len(heard) - rate // 2 <= max(surplus(kind), 0)


def test_a_wav_of_known_length_says_so_and_any_other_says_unknown() -> None:
    audio = tone(0.5)
    known, unknown = encoded("wav", audio, samples=len(audio)), encoded("wav", audio)
    with wave.open(io.BytesIO(known)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, RATE)
        assert file.readframes(file.getnframes()) == pcm16(audio).tobytes()
        assert file.getnframes() == len(audio)
    assert known[4:8] == (len(known) - 8).to_bytes(4, "little")
    assert unknown[4:8] == unknown[40:44] == b"\xff" * 4
    assert known[44:] == unknown[44:]


def test_a_wav_of_known_length_at_another_speed_has_the_length_it_gets() -> None:
    with wave.open(io.BytesIO(encoded("wav", tone(1.0), speed=3.0, samples=RATE))) as file:
        assert file.getnframes() == RATE // 3


def test_a_wav_that_does_not_keep_its_promise_is_an_error() -> None:
    with Encoder("wav", samples=100) as encoder:
        encoder.encode(tone(0.1))
        with pytest.raises(EncodeError, match="announces 100 samples, 2400 were written"):
            encoder.finish()


def test_a_wav_of_more_than_four_gibibytes_is_an_rf64_with_its_length() -> None:
    with Encoder("wav", samples=2**31) as encoder:
        head = encoder.encode(tone(0.0))
    assert (head[:4], head[4:8], len(head)) == (b"RF64", b"\xff" * 4, 80)
    assert int.from_bytes(head[28:36], "little") == 2**32


def test_a_wav_that_grew_beyond_four_gibibytes_in_a_file_says_that_its_length_is_not_known() -> None:
    assert wav.short_header(2**31) == wav.header(None)
    assert wav.short_header(1000) == wav.header(1000)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("speed", [1.0, 0.5])
def test_a_closed_encoder_leaves_nothing_behind(kind: Format, speed: float) -> None:
    encoder = Encoder(kind, speed=speed)
    encoder.encode(tone(0.3))
    parts = [weakref.ref(part) for part in (encoder, encoder._coder, encoder._stretch) if part is not None]
    encoder.close()
    encoder.close()
    with pytest.raises(EncodeError, match="was closed"):
        encoder.encode(tone(0.1))
    del encoder
    gc.collect()
    assert [part() for part in parts] == [None] * len(parts)


_GROWTH = """
import resource, sys
import numpy as np
from voxyard.speech.audio.encoder import FORMATS, EncodeError, Encoder
def used():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * resource.getpagesize() / 2**20
"""


def grown(body: str) -> float:
    """Memory in MiB that a program's second half takes more than its first."""
    done = subprocess.run([sys.executable, "-c", _GROWTH + body], capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_a_long_sound_needs_no_more_memory_than_a_short_one(kind: Format) -> None:
    growth = grown(
        f"encoder = Encoder({kind!r}, speed=2.0)\n"
        "second = np.random.default_rng(0).uniform(-0.1, 0.1, 24000).astype(np.float32)\n"
        "def go():\n"
        "    for _ in range(100): encoder.encode(second)\n"
        "go()\nbefore = used()\ngo(); go()\nprint(used() - before)\n"
    )
    assert growth < 2  # the samples that went in would be 9 MiB as 16 bit


@pytest.mark.slow
def test_sounds_that_break_off_leak_no_memory() -> None:
    growth = grown(
        "def go():\n"
        "    for turn in range(60):\n"
        "        for format in FORMATS:\n"
        "            try:\n"
        "                with Encoder(format, speed=0.5) as encoder:\n"
        "                    encoder.encode(np.zeros(2400, np.float32))\n"
        "                    if turn % 2: encoder.encode(np.full(9, np.nan, np.float32))\n"
        "            except EncodeError: pass\n"
        "go()\nbefore = used()\ngo(); go()\nprint(used() - before)\n"
    )
    assert growth < 6  # a leaked Opus encoder alone is about 100 KiB


def test_the_room_is_light_until_a_sound_is_encoded() -> None:
    program = "import sys, voxyard.speech.audio.encoder\nprint({'av', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_encoders_start_no_threads() -> None:
    """Twenty encoders at once in a process of its own, whose threads the system counts."""
    program = """
import os
import numpy as np
from voxyard.speech.audio.encoder import FORMATS, Encoder

def threads():
    return len(os.listdir("/proc/self/task"))

allowed = os.sched_getaffinity(0)
with Encoder("wav") as warm:
    warm.encode(np.zeros(1000, np.float32))
import av
before = threads()
encoders = [Encoder(each) for each in FORMATS for _ in range(4)]
for each in encoders:
    each.encode(np.zeros(30_000, np.float32))
print(threads() - before, os.sched_getaffinity(0) == allowed)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["0", "True"]
