"""The page cache: what leaves it, what stays, and what cannot be told."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cached_pages import cached_pages
from disks import on_disk

from voxyard.host import page_cache
from voxyard.host.page_cache import Extent, Pages, drop

MIB = 2**20
PAGES = MIB // mmap.PAGESIZE
CONTENT = os.urandom(MIB)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A mebibyte on a disk, written and read."""
    with on_disk(tmp_path) as folder:
        path = folder / "file"
        with path.open("wb") as written:
            written.write(CONTENT)
            written.flush()
            os.fsync(written.fileno())
        assert path.read_bytes() == CONTENT
        yield path


def test_what_was_read_leaves_the_cache_and_comes_back_with_the_next_reading(file: Path) -> None:
    assert cached_pages(file) == (PAGES, PAGES)
    assert drop([Extent(file)]) == Pages(PAGES, 0)
    assert cached_pages(file) == (0, PAGES)
    assert file.read_bytes() == CONTENT
    assert cached_pages(file) == (PAGES, PAGES)


def test_what_is_still_to_be_written_is_written_and_then_dropped(file: Path) -> None:
    changed = CONTENT[::-1]
    file.write_bytes(changed)
    assert drop([Extent(file)]).state == "cold"
    assert cached_pages(file) == (0, PAGES)
    assert file.read_bytes() == changed


def test_a_map_of_our_own_does_not_hold_its_pages(file: Path) -> None:
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as mapped:
        mapped[5:8] = b"new"  # through the map, and nobody called flush()
        assert drop([Extent(file, 0, 100, mapped)]) == Pages(1, 0)
        assert cached_pages(file)[0] == 0
        assert mapped[5:8] == b"new"
    assert file.read_bytes()[5:8] == b"new"


def test_pages_that_another_program_has_mapped_are_counted_and_reported(file: Path) -> None:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as strange:
        assert strange[:] == CONTENT
        found = drop([Extent(file)])
    assert (found.state, found.cached) == ("warm", PAGES)
    assert "another program" in str(found)


def test_only_the_neighbourhood_of_what_is_read_is_dropped(tmp_path: Path) -> None:
    with on_disk(tmp_path) as folder:
        large = folder / "large"
        large.write_bytes(bytes(8 * MIB))
        assert drop([Extent(large, 3 * MIB, 100), Extent(large, 3 * MIB + 50, 100)]) == Pages(1, 0)
        assert cached_pages(large) == (6 * PAGES, 8 * PAGES)


def test_files_in_memory_are_warm_and_the_reason_is_given() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "file"
        path.write_bytes(CONTENT)
        found = drop([Extent(path)])
    assert (found.state, found.share, found.why) == ("warm", 1.0, ("tmpfs keeps its files in memory",))


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.glusterfs", "zfs"])
def test_what_others_cache_is_never_called_cold(file: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(page_cache, "_file_system", lambda *_: kind)
    found = drop([Extent(file)])
    assert found.state == "warm"
    assert kind in str(found)


def test_where_the_kernel_hides_what_is_cached_the_reason_is_given(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mincore(2) calls every page cached where the asker neither owns a file nor may write it."""
    monkeypatch.setattr(page_cache, "_resident", lambda *_: PAGES)
    monkeypatch.setattr(os, "geteuid", lambda: 1 + file.stat().st_uid)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    found = drop([Extent(file)])
    assert found.state == "warm"
    assert f"only their owner is told which pages of the files in {file.parent}" in str(found)


def test_what_cannot_be_read_counts_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    names = ("missing", "pipe", "empty", ".")
    assert drop(Extent(tmp_path / name) for name in names) == Pages()


@pytest.mark.parametrize(
    ("cached", "state"), [(0, "cold"), (5, "cold"), (6, "partly"), (94, "partly"), (95, "warm"), (100, "warm")]
)
def test_up_to_a_twentieth_is_cold_and_from_all_but_a_twentieth_warm(cached: int, state: str) -> None:
    assert Pages(100, cached).state == state
    assert Pages(100, cached).trusted == (state == "cold")


def test_pages_add_up_and_have_each_reason_once() -> None:
    found = Pages(10, 1, ("a",)) + Pages(30, 3, ("b", "a")) + Pages()
    assert found == Pages(40, 4, ("a", "b"))
    assert found.document() == {"state": "partly", "share_cached": 0.1, "pages": 40, "why": ["a", "b"]}
    assert (Pages().state, Pages().trusted) == ("none", True)


def test_the_kind_of_a_file_system_is_found_by_its_mount_point_too(tmp_path: Path) -> None:
    """Layered file systems give their files device numbers that no mount has."""
    assert page_cache._file_system(1, Path("/dev/shm")) == "tmpfs"
    assert page_cache._file_system(1, Path("/proc/self")) == "proc"
