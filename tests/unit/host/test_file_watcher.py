"""Replaced files are noticed, also within one tick of the clock."""

from __future__ import annotations

import os
from pathlib import Path

from voxyard.host.file_watcher import WatchedFile


def test_a_file_that_is_replaced_within_one_tick_is_seen(tmp_path: Path) -> None:
    path, new = tmp_path / "expected.json", tmp_path / "new"
    path.write_text("1")
    watched = WatchedFile(path)
    assert watched.replaced()
    assert not watched.replaced()
    new.write_text("2")
    before = path.stat().st_mtime_ns
    os.utime(new, ns=(before, before))
    new.replace(path)
    assert path.stat().st_mtime_ns == before
    assert watched.replaced()
    assert not watched.replaced()


def test_a_file_that_comes_and_goes_is_seen(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path / "later.json")
    assert watched.replaced()
    assert not watched.replaced()
    watched.path.write_text("x")
    assert watched.replaced()
    watched.path.unlink()
    assert watched.replaced()
