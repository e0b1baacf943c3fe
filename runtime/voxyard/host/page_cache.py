"""Linux's page cache: counts the cached pages of a file, and drops them so that the disk is read again."""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

State = Literal["cold", "partly", "warm", "none"]

COLD, WARM = 0.05, 0.95
"""Shares of pages in memory up to which reading is cold, and from which it is warm."""
MOST_WHY = 4

_PAGE = mmap.PAGESIZE
_BLOCK = 2 << 20  # the kernel keeps pages together in folios up to this size, and drops only whole ones
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
_OWN_CACHE = frozenset({"zfs"})
_SERVED = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "9p", "virtiofs", "lustre", "gpfs", "beegfs", "glusterfs", "afs",
    "fuse", "fuseblk",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extent:
    """A part of a file, in bytes, to its end without a `length`; `mapped`: the whole file, where we read it by map."""

    path: Path
    offset: int = 0
    length: int | None = None
    mapped: mmap.mmap | None = None


@dataclass(frozen=True)
class Pages:
    """Pages that are to be read, how many of them come from memory for all that is known, and why."""

    total: int = 0
    cached: int = 0
    why: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Cached ÷ total."""
        return self.cached / self.total if self.total else 0.0

    @property
    def state(self) -> State:
        """`none` where no file is read at all."""
        if not self.total:
            return "none"
        return "cold" if self.share <= COLD else "warm" if self.share >= WARM else "partly"

    @property
    def trusted(self) -> bool:
        """True where a time measured with these reads is the disk's own, or no disk has a part in it."""
        return self.state in ("cold", "none")

    def __add__(self, other: Pages) -> Pages:
        why = tuple(dict.fromkeys((*self.why, *other.why)))[:MOST_WHY]
        return Pages(self.total + other.total, self.cached + other.cached, why)

    def __str__(self) -> str:
        if not self.total:
            return "none (no file is read: the clips lie in memory)"
        reason = "" if self.trusted or not self.why else f": {'; '.join(self.why)}"
        return f"{self.state} ({self.share:.0%} of {self.total} pages were cached before{reason})"

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {"state": self.state, "share_cached": self.share, "pages": self.total, "why": list(self.why)}


NOTHING = Pages()
"""Pages of a measurement that reads no file."""


def drop(extents: Iterable[Extent]) -> Pages:
    """Takes what is to be read out of the page cache, and counts what stayed there.

    Pages that are still to be written are written first. What lies in memory by its nature, or is cached where nobody
    here can drop it (by a server), counts as cached. A file that cannot be opened counts nothing: nor can it be read.
    """
    files: dict[Path, list[Extent]] = {}
    for each in extents:
        files.setdefault(each.path, []).append(each)
    found = NOTHING
    for path, parts in files.items():
        found += _drop_of(path, parts)
    return found


def _drop_of(path: Path, parts: Sequence[Extent]) -> Pages:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return NOTHING
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return NOTHING
        spans = _spans(parts, found.st_size)
        total = sum(end - begin for begin, end in spans)
        kind = _file_system(found.st_dev, path.parent)
        if kind in _IN_MEMORY:
            return Pages(total, total, (f"{kind} keeps its files in memory",))
        left, why = _dropped(descriptor, parts, spans)
    finally:
        os.close(descriptor)
    if kind in _SERVED or kind.startswith("fuse."):
        return Pages(total, total, (f"what the other end of {kind} has cached cannot be dropped from here",))
    if kind in _OWN_CACHE:
        return Pages(total, total, (f"{kind} has a cache of its own, which cannot be dropped",))
    if left and not _mincore_is_reliable(path, found):
        why = f"only their owner is told which pages of the files in {path.parent} are cached: run as their owner"
    return Pages(total, left, (why,) if left else ())


def _dropped(descriptor: int, parts: Sequence[Extent], spans: Sequence[tuple[int, int]]) -> tuple[int, str]:
    """Pages that stay in memory after all, and why. What is clean goes at once; only what stays is written first."""
    try:
        left = _try_to_drop(descriptor, parts, spans)
        if left:
            os.fdatasync(descriptor)
            left = _try_to_drop(descriptor, parts, spans)
    except OSError as error:
        return sum(end - begin for begin, end in spans), f"what is cached cannot be told ({error.strerror})"
    return left, "another program has the files mapped, or reads them too"


def _try_to_drop(descriptor: int, parts: Sequence[Extent], spans: Sequence[tuple[int, int]]) -> int:
    for part in parts:
        if part.mapped is not None:  # mapped pages stay; what is written through a map becomes the file's
            size = len(part.mapped)
            begin, end = _blocks(part.offset, size if part.length is None else part.offset + part.length)
            if begin < min(end, size):
                part.mapped.madvise(mmap.MADV_DONTNEED, begin, min(end, size) - begin)
    for first, last in spans:
        begin, end = _blocks(first * _PAGE, last * _PAGE)
        os.posix_fadvise(descriptor, begin, end - begin, os.POSIX_FADV_DONTNEED)
    return _resident(descriptor, spans)


def _blocks(begin: int, end: int) -> tuple[int, int]:
    return begin // _BLOCK * _BLOCK, -(-end // _BLOCK) * _BLOCK


def _spans(parts: Sequence[Extent], size: int) -> list[tuple[int, int]]:
    """Pages from … to, in order, none twice."""
    pages = []
    for part in parts:
        end = size if part.length is None else min(size, part.offset + part.length)
        if end > part.offset:
            pages.append((part.offset // _PAGE, -(-end // _PAGE)))
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(pages):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _resident(descriptor: int, spans: Sequence[tuple[int, int]]) -> int:
    """Pages of the spans that lie in memory, by mincore(2)."""
    libc, count = _libc(), 0
    for begin, end in spans:
        size = (end - begin) * _PAGE
        if not size:
            continue
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, begin * _PAGE)
        if address == ctypes.c_void_p(-1).value:
            raise _error()
        try:
            told = ctypes.create_string_buffer(end - begin)
            if libc.mincore(address, size, told) != 0:
                raise _error()
        finally:
            libc.munmap(address, size)
        count += sum(byte & 1 for byte in told.raw)
    return count


def _mincore_is_reliable(path: Path, found: os.stat_result) -> bool:
    """True where mincore(2) is reliable: to others than a file's owner and its writers it calls every page cached."""
    user = os.geteuid()
    return user in (0, found.st_uid) or os.access(path, os.W_OK, effective_ids=True)


@cache
def _file_system(device: int, directory: Path) -> str:
    """The kind of file system, by the device's number, or else by the longest mount point above the directory."""
    where, best, kind = os.path.realpath(directory), "", ""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        words = line.split(" ")
        found = words[words.index("-") + 1]
        major, _, minor = words[2].partition(":")
        if os.makedev(int(major), int(minor)) == device:
            return found
        point = words[4].replace("\\040", " ")
        if os.path.commonpath([where, point]) == point and len(point) >= len(best):
            best, kind = point, found
    return kind


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    return libc


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
