"""Artefacts: content hashes of weights and voices, and rejected files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.errors import FleetError
from fleet.release.artefact import ChecksumCache, voices, weights


def test_weights_are_named_after_their_content(model: Path, tmp_path: Path) -> None:
    found = weights(model, ChecksumCache())
    assert found.kind == "weights"
    assert found.name == f"weights-{found.id}"
    assert set(found.checksums) == {"config.json", "generation_config.json", "vocab.txt", "model.safetensors"}
    assert found.checksums["vocab.txt"] == hashlib.sha256((model / "vocab.txt").read_bytes()).hexdigest()
    assert found.size_bytes == sum((model / name).stat().st_size for name in found.checksums)
    moved = tmp_path / "elsewhere"
    model.rename(moved)
    assert weights(moved, ChecksumCache()).id == found.id


def test_another_byte_is_another_artefact(model: Path) -> None:
    before = weights(model, ChecksumCache())
    (model / "vocab.txt").write_text("[UNK]\nb\n")
    assert weights(model, ChecksumCache()).id != before.id


def test_what_is_no_part_of_the_model_does_not_count(model: Path) -> None:
    before = weights(model, ChecksumCache())
    (model / "notes.txt").write_text("mine")
    (model / "pytorch_model.bin").write_text("a pickle beside safetensors")
    assert weights(model, ChecksumCache()).id == before.id


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def overwrite(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (remove("model.safetensors"), "is not a usable Bark model: there are no weights"),
        (remove("config.json"), "config.json is missing"),
        (remove("vocab.txt"), "there is no tokenizer"),
        (overwrite("model.safetensors", "damaged"), "model.safetensors is damaged"),
        (overwrite("config.json", '{"model_type": "bert"}'), "model type 'bert', expected 'bark'"),
        (overwrite("SHA256SUMS", f"{'0' * 64}  vocab.txt\n"), "vocab.txt: its SHA-256 is"),
        (overwrite("SHA256SUMS", "what\n"), "SHA256SUMS:1: found 'what'"),
    ],
)
def test_weights_that_bark_would_refuse_are_refused_here(
    model: Path, fault: Callable[[Path], object], said: str
) -> None:
    fault(model)
    with pytest.raises(FleetError, match=said):
        weights(model, ChecksumCache())


def test_a_link_that_leads_out_is_refused_and_one_inside_is_not(model: Path, tmp_path: Path) -> None:
    (model / "vocab.txt").rename(model / "blob")
    (model / "vocab.txt").symlink_to("blob")
    assert "vocab.txt" in weights(model, ChecksumCache()).checksums
    (model / "blob").rename(tmp_path / "blob")
    (model / "vocab.txt").unlink()
    (model / "vocab.txt").symlink_to(tmp_path / "blob")
    with pytest.raises(FleetError, match=r"vocab.txt: links to .*blob, outside of the directory: copy"):
        weights(model, ChecksumCache())


def test_a_file_that_cannot_be_read_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_cache: ChecksumCache, file: Path) -> str:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(ChecksumCache, "of", fail)
    with pytest.raises(FleetError, match=r"config\.json: cannot be read: Input/output error"):
        weights(model, ChecksumCache())


def test_a_missing_directory_says_how_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(
        FleetError, match=r"named as bark\.weights in the inventory: create it with voxyard weights fetch"
    ):
        weights(tmp_path / "none", ChecksumCache())


def test_files_that_did_not_change_are_not_read_again(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "build/artefacts.json"
    first = weights(model, ChecksumCache(path))
    file = model / "model.safetensors"
    stamp = file.stat()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    with file.open("r+b") as same:
        same.write(content)
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert weights(model, ChecksumCache(path)).id == first.id  # size and time are what is looked at
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    assert weights(model, ChecksumCache(path)).id != first.id


@pytest.mark.parametrize("content", ["", "{", "[]", '{"x": 5}', '{"x": [1, 2]}'])
def test_a_damaged_memory_is_one_that_knows_nothing(model: Path, tmp_path: Path, content: str) -> None:
    path = tmp_path / "artefacts.json"
    path.write_text(content)
    assert weights(model, ChecksumCache(path)).id == weights(model, ChecksumCache()).id


def test_voices_are_their_files_and_further_names(tmp_path: Path) -> None:
    folder = tmp_path / "voices"
    folder.mkdir()
    (folder / "notes.txt").write_text("x")
    with pytest.raises(FleetError, match="no voices: expected files"):
        voices(folder, ChecksumCache())
    (folder / "mine.npz").write_bytes(b"PK")
    (folder / "voices.yaml").write_text("narrator: mine\n")
    found = voices(folder, ChecksumCache())
    assert set(found.checksums) == {"mine.npz", "voices.yaml"}
    assert found.name.startswith("voices-")


def test_a_file_that_is_too_large_for_a_voice_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "mine.npz").open("wb") as file:
        file.truncate((8 << 20) + 1)
    with pytest.raises(FleetError, match="larger than 8 MiB, not a voice file"):
        voices(tmp_path, ChecksumCache())
