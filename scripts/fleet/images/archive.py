"""Image archives (`docker save`): cached for all hosts, sent without the layers that a host has."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import posixpath
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError
from fleet.images.image import LocalImage, save

log = logging.getLogger("fleet")

_CHUNK = 1 << 20
_IN_USE_SECONDS = 3600  # after its last use a file may still be in transfer
_END = bytes(1024)  # two empty blocks end a tar archive


@dataclass(frozen=True, slots=True)
class _Member:
    """Member of the archive, from the first byte of its header to the last of its padding."""

    name: str
    start: int
    end: int
    target: str | None  # link target


class ImageCache:
    """Saved images in a local folder, named by image id."""

    def __init__(self, folder: Path, save: Callable[[LocalImage], Iterable[bytes]] = save) -> None:
        self._folder, self._save = folder, save

    def archive(self, image: LocalImage) -> Path:
        """Archive file of the image, saved on first use. Raises FleetError."""
        path = self._path(image)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._locked():
                if not path.exists():
                    log.info("saving image %s to %s", image.release_tag, path)
                    self._write(image, path)
            path.touch()
        except OSError as error:
            raise FleetError(f"{path}: the image cannot be saved there: {error.strerror or error}") from error
        return path

    def keep_only(self, images: Iterable[LocalImage]) -> None:
        """Remove the files of other images, except recently used ones."""
        kept = {self._path(image) for image in images}
        for path in self._folder.glob("*.tar"):
            with suppress(FileNotFoundError):  # a parallel deploy may remove files, too
                if path not in kept and path.stat().st_mtime < time.time() - _IN_USE_SECONDS:
                    path.unlink()

    def _path(self, image: LocalImage) -> Path:
        return self._folder / f"{image.release_tag.replace(':', '-')}.tar"

    def _write(self, image: LocalImage, path: Path) -> None:
        partial = path.with_suffix(".part")
        try:
            with partial.open("wb") as file:
                for chunk in self._save(image):
                    file.write(chunk)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """File lock: one process saves at a time."""
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def read(path: Path) -> Iterator[bytes]:
    """Whole archive in chunks."""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def without_layers(path: Path, count: int) -> Iterator[bytes]:
    """Archive without the lowest `count` layers, which the engine need not load again.

    Supports the layout of Docker up to 24 (a directory per layer) and the OCI layout of newer engines. Raises
    FleetError for other archives.
    """
    members = _members(path)
    left_out = _unneeded(members, _layers(path), count)
    with path.open("rb") as file:
        for member in members:
            if member.name not in left_out:
                yield from _copy(file.fileno(), member.start, member.end)
    yield _END


def size_without_layers(path: Path, count: int) -> int:
    """Size of the output of `without_layers`, in bytes."""
    members = _members(path)
    left_out = _unneeded(members, _layers(path), count)
    return sum(each.end - each.start for each in members if each.name not in left_out) + len(_END)


def _copy(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        chunk = os.pread(descriptor, min(_CHUNK, end - start), start)
        if not chunk:
            raise FleetError("the saved image is truncated: remove its file below build/images-cache")
        start += len(chunk)
        yield chunk


def _members(path: Path) -> list[_Member]:
    """Members of the archive; a long-name header belongs to the next member."""
    try:
        with tarfile.open(path) as archive:
            found = list(archive)
            end = archive.offset
    except tarfile.TarError as error:
        raise FleetError(f"{path}: not an archive ({error}): remove it") from error
    starts = [member.offset for member in found]
    return [
        _Member(member.name, member.offset, after, _target(member))
        for member, after in zip(found, [*starts[1:], _data_end(found, end)], strict=True)
    ]


def _data_end(found: Sequence[tarfile.TarInfo], end: int) -> int:
    """Offset of the end of the last member's padding."""
    if not found:
        return end
    last = found[-1]
    size = last.size if last.isreg() else 0
    return last.offset_data + -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _target(member: tarfile.TarInfo) -> str | None:
    if member.issym():
        return posixpath.normpath(posixpath.join(posixpath.dirname(member.name), member.linkname))
    return posixpath.normpath(member.linkname) if member.islnk() else None


def _layers(path: Path) -> list[str]:
    """File names of the layers, lowest first."""
    try:
        with tarfile.open(path) as archive:
            body = archive.extractfile("manifest.json")
            documents = json.loads(body.read()) if body is not None else []
        (document,) = documents
        return [str(name) for name in document["Layers"]]
    except (KeyError, ValueError, TypeError, tarfile.TarError) as error:
        raise FleetError(f"{path}: not an archive of docker save ({error}): remove it") from error


def _unneeded(members: Sequence[_Member], layers: Sequence[str], count: int) -> set[str]:
    """Files of the lowest `count` layers, except those that upper layers link to."""
    links = {member.name: member.target for member in members if member.target is not None}

    def file_of(name: str) -> str:
        seen = set()
        while name in links and name not in seen:
            seen.add(name)
            name = links[name]
        return name

    lower, upper = set(layers[:count]), set(layers[count:])
    needed = upper | {file_of(name) for name in upper}
    return (lower | {file_of(name) for name in lower}) - needed
