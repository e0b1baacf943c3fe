"""Voices that come from users: hostile files, what is kept of a good one, mixed voices."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voxyard.bark import voices
from voxyard.bark.voices import BarkVoiceFiles
from voxyard.speech.errors import SpeechError

FILES = BarkVoiceFiles()


def arrays(**changes: Any) -> dict[str, Any]:
    fine = np.random.default_rng(7).integers(0, 1024, (8, 150))
    whole = {"semantic_prompt": np.arange(100), "coarse_prompt": fine[:2], "fine_prompt": fine, **changes}
    return {name: each for name, each in whole.items() if each is not None}


def packed(**changes: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays(**changes))
    return file.getvalue()


def zipped(**members: bytes) -> bytes:
    """An archive of these members, as .npy files."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def header(shape: str, dtype: str = "<i8") -> bytes:
    """An .npy file that claims a shape, and has no content."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def encrypted(content: bytes) -> bytes:
    """The archive with each member marked as encrypted."""
    marked = bytearray(content)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        while at >= 0:
            marked[at + flags] |= 1
            at = content.find(signature, at + 1)
    return bytes(marked)


class Trap:
    """Raises where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return (Path.unlink, (Path("a-file-that-is-not-there"),))


HOSTILE = {
    "a pickle": lambda: packed(fine_prompt=np.array([Trap()], dtype=object)),
    "a pickle as the manner": lambda: packed(manner_prompt=np.array([Trap()], dtype=object)),
    "no archive": lambda: b"MZ\x90\x00",
    "nothing": lambda: b"",
    "an archive of nothing": zipped,
    "other names": lambda: packed(semantic_prompt=None, semantics=np.arange(100)),
    "a truncated archive": lambda: packed()[:-200],
    "half an archive": lambda: packed()[: len(packed()) // 2],
    "a bomb": lambda: packed(more=np.zeros(2**21)),
    "a header that claims 80 GB": lambda: zipped(**dict.fromkeys(arrays(), header("(10000000000,)"))),
    "a header that claims more than there is": lambda: zipped(**dict.fromkeys(arrays(), header("(" + "9" * 30 + ",)"))),
    "a header with code": lambda: zipped(**dict.fromkeys(arrays(), header("__import__('os').getpid()"))),
    "a header with an object": lambda: zipped(**dict.fromkeys(arrays(), header("(3,)", "|O"))),
    "members that are no arrays": lambda: zipped(**dict.fromkeys(arrays(), b"tokens")),
    "negative codes": lambda: packed(semantic_prompt=np.full(100, -1)),
    "codes beyond the vocabulary": lambda: packed(semantic_prompt=np.full(100, 10_000)),
    "coarse codes beyond the codebook": lambda: packed(coarse_prompt=np.full((2, 150), 1024)),
    "numbers with a fraction": lambda: packed(fine_prompt=np.zeros((8, 150))),
    "no numbers": lambda: packed(semantic_prompt=np.full(100, np.nan)),
    "complex numbers": lambda: packed(semantic_prompt=np.zeros(100, complex)),
    "texts": lambda: packed(semantic_prompt=np.array(["a"] * 100)),
    "records": lambda: packed(semantic_prompt=np.zeros(100, [("a", "<i8")])),
    "dates": lambda: packed(semantic_prompt=np.zeros(100, "<M8[s]")),
    "an empty array": lambda: packed(semantic_prompt=np.zeros(0, int)),
    "another shape": lambda: packed(coarse_prompt=np.zeros((150, 2), int)),
    "four dimensions": lambda: packed(fine_prompt=np.zeros((8, 150, 1, 1), int)),
    "more coarse than fine frames": lambda: packed(coarse_prompt=np.zeros((2, 160), int)),
    "arrays of different recordings": lambda: packed(semantic_prompt=np.arange(20)),
    "a manner of wrong codes": lambda: packed(manner_prompt=np.full(10, 10_000)),
    "a manner of another shape": lambda: packed(manner_prompt=np.zeros((2, 10), int)),
    "encrypted members": lambda: encrypted(packed()),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_refused_in_words(what: str) -> None:
    with pytest.raises(SpeechError, match="voice 'mine'"):
        FILES.read("mine", HOSTILE[what]())


def test_a_file_with_changed_bytes_is_refused_or_a_voice() -> None:
    whole, draw = packed(), np.random.default_rng(3)
    for _ in range(300):
        damaged = bytearray(whole)
        for at in draw.integers(0, len(whole), draw.integers(1, 9)):
            damaged[at] = draw.integers(0, 256)
        try:
            voices.read("mine", FILES.read("mine", bytes(damaged)))
        except SpeechError:
            continue


def test_a_voice_keeps_its_codes_and_loses_all_else() -> None:
    kept = FILES.read("mine", packed(secret=np.zeros(1000, int)))
    before, after = voices.read("mine", packed()), voices.read("mine", kept)
    for name in ("semantic_prompt", "coarse_prompt", "fine_prompt"):
        assert np.array_equal(getattr(before, name), getattr(after, name))
    assert after.manner is None
    with np.load(io.BytesIO(kept), allow_pickle=False) as file:
        assert sorted(file.files) == ["coarse_prompt", "fine_prompt", "semantic_prompt"]
        assert {file[name].dtype for name in file.files} == {np.dtype(np.uint16)}
    assert FILES.read("mine", kept) == kept


def test_every_preset_is_small_enough_to_travel_with_each_chunk() -> None:
    assert max(len(voices.pack(voices.load(name))) for name in voices.names()) < 32 * 1024


def test_a_mixed_voice_has_the_manner_of_one_and_the_timbre_of_the_other() -> None:
    one, other = voices.load("v2/en_speaker_6"), voices.load("v2/de_speaker_3")
    mixed = voices.read("both", FILES.mix("both", "v2/en_speaker_6", voices.pack(other)))
    assert mixed.manner is not None
    assert np.array_equal(mixed.manner, one.semantic_prompt)
    assert np.array_equal(mixed.semantic_prompt, other.semantic_prompt)  # what the coarse frames were said with
    assert np.array_equal(mixed.coarse_prompt, other.coarse_prompt)
    assert np.array_equal(mixed.fine_prompt, other.fine_prompt)
    again = voices.read("more", FILES.mix("more", voices.pack(mixed), "v2/en_speaker_6"))
    assert again.manner is not None
    assert np.array_equal(again.manner, one.semantic_prompt)
    assert np.array_equal(again.fine_prompt, one.fine_prompt)


def test_an_unknown_part_of_a_mix_is_named() -> None:
    with pytest.raises(SpeechError, match="there is no voice 'v2/en_speaker_66'"):
        FILES.mix("both", "v2/en_speaker_66", "v2/en_speaker_6")
