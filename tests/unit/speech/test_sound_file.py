"""A sound that becomes a file: whole or under another name, and what a full disk leaves."""

from __future__ import annotations

import errno
import gc
import shutil
import signal
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import av
import numpy as np
import pytest
from eventually import PATIENCE, eventually

from voxyard.host import durable_files
from voxyard.speech.audio import audiobook
from voxyard.speech.audio.audiobook import ChapterMark
from voxyard.speech.audio.encoder import NO_TAGS, EncodeError, Tags, three_letters
from voxyard.speech.audio.sound_file import BOOK, SUFFIXES, AudiobookFile, Book, SoundFile, check_target, open_sound
from voxyard.speech.audio.wav import pcm16

NAMES = (*SUFFIXES, BOOK)
RATE = 24_000
PADDING = {".mp3": 0, ".aac": 2048, BOOK: 2048}  # a file of MP3 says how much of it is padding


def tone(seconds: float) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, round(seconds * RATE)).astype(np.float32)


def partial(suffix: str) -> str:
    """Name of the unfinished file of a book."""
    return f"book.part{'.flac' if suffix == BOOK else suffix}"


def heard(path: Path) -> float:
    """Seconds of sound in a file, until its end or what breaks off there."""
    if path.suffix == ".pcm":
        return path.stat().st_size / 2 / RATE
    seconds = 0.0
    with av.open(path) as container:
        packets = container.demux(audio=0)
        try:
            for packet in packets:
                seconds += sum(frame.samples / frame.sample_rate for frame in packet.decode())
        except av.InvalidDataError:
            pass
    return seconds


def spoken(path: Path, seconds: float = 2.3) -> Path:
    with open_sound(path) as sound:
        for second in np.split(tone(seconds), 5):
            sound.write(second)
    return path


@pytest.mark.parametrize("suffix", NAMES)
def test_a_whole_sound_has_its_name_and_its_length(tmp_path: Path, suffix: str) -> None:
    path = spoken(tmp_path / f"a book{suffix}")
    assert list(tmp_path.iterdir()) == [path]
    assert 0 <= round(heard(path) * RATE) - round(2.3 * RATE) <= PADDING.get(suffix, 0)


@pytest.mark.parametrize("suffix", [".wav", ".mp3", ".flac", ".opus"])
def test_a_whole_file_knows_its_length_without_being_played(tmp_path: Path, suffix: str) -> None:
    with av.open(spoken(tmp_path / f"book{suffix}")) as container:
        assert container.duration is not None
        assert container.duration / 1e6 == pytest.approx(2.3, abs=0.03)


def test_a_whole_wav_is_right_to_the_byte(tmp_path: Path) -> None:
    path = spoken(tmp_path / "book.WAV")
    with wave.open(str(path)) as file:
        assert file.getnframes() == round(2.3 * RATE)
        assert file.readframes(file.getnframes()) == pcm16(tone(2.3)).tobytes()
    assert path.read_bytes()[4:8] == (path.stat().st_size - 8).to_bytes(4, "little")


@pytest.mark.parametrize("suffix", [".wav", ".mp3", ".opus", ".ogg", ".flac", BOOK])
def test_a_file_has_its_title_its_author_and_its_language(tmp_path: Path, suffix: str) -> None:
    tags = Tags("Der Hafen", "Ödön", language="de-AT")
    with open_sound(tmp_path / f"book{suffix}", tags=tags) as sound:
        sound.write(tone(1.0))
    with av.open(sound.path) as found:
        known = {name.lower(): value for name, value in {**found.metadata, **found.streams.audio[0].metadata}.items()}
    assert {name: known.get(name) for name in ("title", "artist", "language")} == {
        "title": "Der Hafen", "artist": "Ödön", "language": "deu",
    }  # fmt: skip
    assert 0 <= round(heard(sound.path) * RATE) - RATE <= PADDING.get(suffix, 0)


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("en", "eng"), ("en_GB", "eng"), ("deu", "deu"), ("ger", "deu"), ("fr-CA", "fra"), ("zh-Hans", "zho"),
        ("fa", "fas"), ("gu", "guj"), ("cs", "ces"), ("yue", "yue"), ("und", None), ("x", None), (None, None),
    ],
)  # fmt: skip
def test_a_language_has_three_letters_in_a_file(language: str | None, code: str | None) -> None:
    assert three_letters(language) == code


def test_plain_samples_have_no_header(tmp_path: Path) -> None:
    assert spoken(tmp_path / "book.pcm").read_bytes() == pcm16(tone(2.3)).tobytes()


@pytest.mark.parametrize("suffix", NAMES)
def test_the_same_sound_is_the_same_file(tmp_path: Path, suffix: str) -> None:
    assert spoken(tmp_path / f"a{suffix}").read_bytes() == spoken(tmp_path / f"b{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_without_any_sound_opens(tmp_path: Path, suffix: str) -> None:
    with open_sound(tmp_path / f"empty{suffix}") as sound:
        pass
    assert sound.path.exists()
    assert heard(sound.path) < 0.1


@pytest.mark.parametrize("suffix", NAMES)
def test_an_abandoned_sound_plays_under_its_partial_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"book{suffix}"
    path.write_bytes(b"an older one")
    sound = open_sound(path)
    sound.write(tone(1.5))
    kept = sound.abandon()
    assert kept == sound.partial == tmp_path / partial(suffix)
    assert heard(kept) == pytest.approx(1.5, abs=0.09)
    assert path.read_bytes() == b"an older one"
    assert sound.abandon() == kept
    with pytest.raises(EncodeError, match="is closed"):
        sound.commit()


def test_an_abandoned_wav_has_its_length_in_its_header(tmp_path: Path) -> None:
    sound = open_sound(tmp_path / "book.wav")
    sound.write(tone(1.0))
    with wave.open(str(sound.abandon())) as file:
        assert file.getnframes() == RATE


def test_an_exception_abandons_and_success_replaces_what_was_there(tmp_path: Path) -> None:
    path = spoken(tmp_path / "book.flac", 1.0)
    before = path.read_bytes()
    sound = open_sound(path)
    sound.write(tone(2.0))
    with pytest.raises(ZeroDivisionError), sound:
        raise ZeroDivisionError
    assert path.read_bytes() == before
    assert heard(sound.partial) == pytest.approx(2.0)
    assert heard(spoken(path, 2.3)) == pytest.approx(2.3)
    assert not sound.partial.exists()


def test_nothing_has_the_name_before_the_sound_is_whole(tmp_path: Path) -> None:
    sound = open_sound(tmp_path / "book.opus")
    sound.write(tone(1.0))
    assert not sound.path.exists()
    assert sound.commit() == sound.path
    assert sound.seconds == 1.0


def test_the_sound_is_on_the_disk_before_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "book.wav", list[tuple[str, bool]]()

    def fsync(file: int) -> None:
        synced.append((Path(f"/proc/self/fd/{file}").readlink().name, path.exists()))

    monkeypatch.setattr("os.fsync", fsync)
    spoken(path)
    assert synced == [("book.part.wav", False), (tmp_path.name, True)]


def test_an_audiobook_has_what_is_known_once_its_sound_is_whole(tmp_path: Path) -> None:
    marks = list[ChapterMark]()
    with open_sound(tmp_path / "book.m4b", book=lambda: Book(marks, captions="WEBVTT\n")) as sound:
        sound.write(tone(2.0))
        marks += [ChapterMark("One", 0), ChapterMark("Two", RATE)]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["book.m4b", "book.vtt"]
    assert (tmp_path / "book.vtt").read_text() == "WEBVTT\n"
    with av.open(tmp_path / "book.m4b") as container:
        starts = [
            (each["metadata"]["title"], each["start"] * (each["time_base"] or 0)) for each in container.chapters()
        ]
    assert starts == [("One", 0), ("Two", 1)]


def test_what_ends_the_encoding_of_an_audiobook_leaves_its_sound_and_an_older_book(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("m4b", "vtt"):
        (tmp_path / f"book.{kind}").write_bytes(b"an older one")
    write, begun = audiobook.write, threading.Event()

    def slowly(file: BinaryIO, audio: Iterator[np.ndarray], **options: Any) -> None:
        def parts() -> Iterator[np.ndarray]:
            for part in audio:
                begun.set()
                eventually(lambda: sound._cancelled, "it is given up")
                yield part

        write(file, parts(), **options)

    monkeypatch.setattr(audiobook, "write", slowly)
    sound = AudiobookFile(tmp_path / "book.m4b", NO_TAGS, lambda: Book(captions="WEBVTT\n"))
    sound.write(tone(2.0))
    with ThreadPoolExecutor(1) as other:
        committed = other.submit(sound.commit)
        assert begun.wait(PATIENCE)
        kept = sound.abandon()
        with pytest.raises(EncodeError, match="was given up"):
            committed.result(PATIENCE)
    assert kept == tmp_path / "book.part.flac"
    assert heard(kept) == pytest.approx(2.0)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["book.m4b", "book.part.flac", "book.vtt"]
    assert {(tmp_path / f"book.{kind}").read_bytes() for kind in ("m4b", "vtt")} == {b"an older one"}


def test_a_book_that_cannot_get_its_name_leaves_the_older_captions_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("m4b", "vtt"):
        (tmp_path / f"book.{kind}").write_bytes(b"an older one")
    rename = durable_files.rename

    def refused(part: Path, path: Path) -> None:
        if path.suffix == BOOK:
            raise OSError(errno.EIO, "Input/output error")
        rename(part, path)

    monkeypatch.setattr(durable_files, "rename", refused)
    sound = open_sound(tmp_path / "book.m4b", book=lambda: Book(captions="WEBVTT\n"))
    sound.write(tone(1.0))
    with pytest.raises(EncodeError, match="Input/output error"):
        sound.commit()

    assert sorted(each.name for each in tmp_path.iterdir()) == ["book.m4b", "book.part.flac", "book.vtt"]
    assert {(tmp_path / f"book.{kind}").read_bytes() for kind in ("m4b", "vtt")} == {b"an older one"}


def test_a_disk_without_room_for_the_book_keeps_its_sound(tiny_disk: Path) -> None:
    sound = open_sound(tiny_disk / "book.m4b")
    if sound.partial.is_symlink():
        pytest.skip("needs a small disk: nobody may mount one here")
    sound.write(noise(1.2))
    with pytest.raises(EncodeError, match=r"no disk space left .* 1\.2 s, is in .*book\.part\.flac"):
        sound.commit()
    assert [each.name for each in tiny_disk.iterdir()] == ["book.part.flac"]
    assert heard(sound.abandon()) == pytest.approx(1.2)


def test_an_unknown_suffix_is_told_the_known_ones(tmp_path: Path) -> None:
    for name, found in (("book.wma", r"\.wma"), ("book", "no suffix")):
        with pytest.raises(EncodeError, match=rf"{found}.*\.wav, \.mp3, \.opus, \.ogg, \.flac, \.aac, \.pcm, \.m4b"):
            open_sound(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(EncodeError, match=r"cannot write .*nowhere.*No such file"):
        open_sound(tmp_path / "nowhere" / "book.mp3")
    (tmp_path / "folder.mp3").mkdir()
    with pytest.raises(EncodeError, match="is a folder"):
        open_sound(tmp_path / "folder.mp3")


@pytest.mark.parametrize("name", ["a.wav", "a.mp3", "a.m4b"])
def test_two_never_write_one_file_and_the_next_may(tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    first = open_sound(out)
    first.write(tone(0.5))
    for attempt in (check_target, open_sound):
        with pytest.raises(EncodeError, match="is being written by another process: wait for it"):
            attempt(out)
    first.commit()
    assert list(tmp_path.iterdir()) == [out]
    check_target(out)
    with open_sound(out) as second:
        second.write(tone(0.5))
    assert list(tmp_path.iterdir()) == [out]


def test_a_rate_that_a_format_cannot_have_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(EncodeError, match="opus cannot have 22050"):
        open_sound(tmp_path / "book.opus", 22_050)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".wav", ".mp3"])
def test_bad_audio_keeps_what_came_before_it(tmp_path: Path, suffix: str) -> None:
    sound = open_sound(tmp_path / f"book{suffix}")
    sound.write(tone(1.0))
    with pytest.raises(EncodeError, match="NaN or infinite"):
        sound.write(np.full(10, np.nan, np.float32))
    assert heard(sound.abandon()) == pytest.approx(1.0)
    with pytest.raises(EncodeError, match="is closed"):
        sound.write(tone(1.0))


def speak_noise(sound: SoundFile, turns: int) -> None:
    for turn in range(turns):
        sound.write(noise(0.2, turn))


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with 64 KiB of room; where nobody may mount one, every partial file in it is /dev/full."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        for suffix in SUFFIXES:
            (folder / f"book.part{suffix}").symlink_to("/dev/full")
    yield folder
    if not mounted.returncode:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # a test that failed has its file open


@pytest.mark.parametrize("suffix", NAMES)
def test_a_full_disk_is_explained_and_what_was_written_plays(tiny_disk: Path, suffix: str) -> None:
    sound = open_sound(tiny_disk / f"book{suffix}")
    with pytest.raises(EncodeError, match=r"no disk space left for .* free some, or .* another disk") as raised:
        speak_noise(sound, 200)
    assert str(sound.partial) in str(raised.value)
    with pytest.raises(EncodeError, match="is closed"):
        sound.commit()
    kept = sound.abandon()
    if not kept.is_symlink():
        assert kept.stat().st_size > 50_000
        assert heard(kept) > (1.0 if suffix in (".wav", ".pcm", ".flac", BOOK) else 3.0)
    if suffix == ".wav" and not kept.is_symlink():
        with wave.open(str(kept)) as file:
            assert file.getnframes() == (kept.stat().st_size - 44) // 2
            expected = pcm16(np.concatenate([noise(0.2, turn) for turn in range(10)]))
            assert file.readframes(file.getnframes()) == expected[: file.getnframes()].tobytes()


def test_a_disk_that_takes_only_a_part_is_a_full_one(tiny_disk: Path) -> None:
    sound = open_sound(tiny_disk / "book.pcm")
    with pytest.raises(EncodeError, match=r"no disk space left .* so far, 2\.0 s"):
        sound.write(noise(2.0))


@pytest.mark.parametrize("suffix", NAMES)
def test_a_disk_that_is_full_at_the_very_end_commits_nothing(tmp_path: Path, suffix: str) -> None:
    (tmp_path / partial(suffix)).symlink_to("/dev/full")
    with pytest.raises(EncodeError, match="no disk space left"), open_sound(tmp_path / f"book{suffix}") as sound:
        sound.write(tone(0.001))
    assert not (tmp_path / f"book{suffix}").exists()


@pytest.mark.parametrize("suffix", NAMES)
def test_a_folder_that_goes_away_fails_the_command_and_is_no_wrong_use(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(EncodeError, match="the audio so far, is gone") as raised, open_sound(folder / f"book{suffix}"):
        shutil.rmtree(folder)
    assert raised.value.exit_code == 1


def test_a_full_disk_leaves_no_open_file(tmp_path: Path) -> None:
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    for suffix in SUFFIXES:
        (tmp_path / partial(suffix)).symlink_to("/dev/full")
        with pytest.raises(EncodeError, match="no disk space left"):
            open_sound(tmp_path / f"book{suffix}").write(noise(9))
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before


def test_no_thread_is_left_of_a_sound_that_ended_or_was_forgotten(tmp_path: Path) -> None:
    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "sound-file"]

    before = threads()
    sounds = [open_sound(tmp_path / f"{number}.wav") for number in range(3)]
    started = [thread for thread in threads() if thread not in before]
    assert len(started) == 3
    sounds[0].commit()
    sounds[1].abandon()
    sounds[2].write(tone(0.1))
    sounds.clear()
    gc.collect()
    for thread in started:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in started)


def test_a_failure_while_another_error_is_on_its_way_is_a_note_to_it(tmp_path: Path) -> None:
    (tmp_path / "book.part.mp3").symlink_to("/dev/full")
    with pytest.raises(ZeroDivisionError) as raised, open_sound(tmp_path / "book.mp3"):
        raise ZeroDivisionError
    assert "no disk space left" in raised.value.__notes__[0]


_INTERRUPTED = """
import resource, sys
import numpy as np
from pathlib import Path
from voxyard.speech.audio.sound_file import open_sound
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))  # should Ctrl-C be lost, it ends at 1 GiB
sound = open_sound(Path(sys.argv[1]))
part = np.random.default_rng(0).uniform(-0.5, 0.5, 2400).astype(np.float32)
try:
    print("ready", flush=True)
    while True:
        sound.write(part)
except KeyboardInterrupt:
    print(sound.abandon(), sound.seconds)
"""


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.0, 0.0337])
@pytest.mark.parametrize("suffix", [".wav", ".mp3", ".opus", ".flac"])
def test_ctrl_c_while_it_is_written_leaves_a_file_that_plays(tmp_path: Path, suffix: str, wait: float) -> None:
    path = tmp_path / f"book{suffix}"
    with subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            time.sleep(wait)
            writer.send_signal(signal.SIGINT)
            out, err = writer.communicate(timeout=60)
        finally:
            writer.kill()
    assert (writer.returncode, err) == (0, "")
    kept, seconds = out.split()
    assert Path(kept) == path.with_name(f"book.part{suffix}")
    assert heard(Path(kept)) == pytest.approx(float(seconds), abs=0.3)
