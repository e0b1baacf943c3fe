"""Directories that appear whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from voxyard.corpus import CorpusError
from voxyard.corpus.directories import whole_directory


def _ours(_: Path) -> bool:
    return True


def _names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_every_file_is_on_the_disk_before_the_directory_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut there is the whole of it, or nothing."""
    target = tmp_path / "made"
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def note(handle: int) -> None:
        synced.append((Path(f"/proc/self/fd/{handle}").readlink().name, target.exists()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    with whole_directory(target, "shards", _ours) as directory:
        (directory / "inside").mkdir()
        (directory / "inside/a").write_text("a")
        (directory / "b").write_text("b")
    assert sorted(synced[:-1]) == [(".made.unfinished", False), ("a", False), ("b", False), ("inside", False)]
    assert synced[-1] == (tmp_path.name, True)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_only_when_it_is_asked_to_keep_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Some file systems take the bytes and refuse them later."""
    target = tmp_path / "made"
    target.mkdir()
    (target / "old").write_text("old")

    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    refused = pytest.raises(CorpusError, match=f"made cannot be written: {os.strerror(code)}")
    with refused, whole_directory(target, "shards", _ours) as directory:
        (directory / "new").write_text("new")
    assert _names(tmp_path) == ["made", "made/old"]


def test_the_old_comes_back_where_the_new_cannot_be_put_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "made"
    target.mkdir()
    (target / "old").write_text("old")
    rename = Path.rename

    def refuse_the_new(self: Path, other: Path) -> Path:
        if self.name == ".made.unfinished":
            raise PermissionError(errno.EACCES, "Permission denied")
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", refuse_the_new)
    with pytest.raises(CorpusError, match="Permission denied"), whole_directory(target, "shards", _ours) as directory:
        (directory / "new").write_text("new")
    assert _names(tmp_path) == ["made", "made/old"]


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    """The shards of a host may lie on another disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk/made")
    for text in ("first", "second"):
        with whole_directory(tmp_path / "link", "shards", _ours) as directory:
            (directory / "a").write_text(text)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk/made/a").read_text() == "second"
    assert _names(tmp_path) == ["disk", "disk/made", "disk/made/a", "link"]


def test_a_link_to_itself_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(CorpusError, match="loop"), whole_directory(tmp_path / "loop", "shards", _ours):
        pass
    assert (tmp_path / "loop").is_symlink()


def test_missing_parents_are_made(tmp_path: Path) -> None:
    with whole_directory(tmp_path / "a/b/c", "shards", _ours) as directory:
        (directory / "x").write_text("x")
    assert (tmp_path / "a/b/c/x").read_text() == "x"
