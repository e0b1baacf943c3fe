"""Reproducible images: the archive of a built image, rewritten without the times and the order of its build.

Works with every engine that saves and loads archives. BuildKit's own `rewrite-timestamp` needs BuildKit 0.13 and an
exporter that `docker build` has with containerd's image store only.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from fleet.errors import FleetError

FIRST_STEP = "sh /tmp/python.sh"
"""First step of every Dockerfile of images/; the layers below it are the base's, which stay as they are."""
LAYER_TIME = 315_532_800
"""Time of all files in layers, 1980-01-01T00:00:00Z, the earliest that zip archives know.

The commit's time is in the configuration only: a layer that a commit does not change keeps its digest.
"""
SIZE_LABEL = "voxyard.unpacked-bytes"
_XATTRS = "SCHILY.xattr."
_CHUNK = 1 << 20
_END = bytes(1024)  # two empty blocks end a tar archive
_KEPT = ("architecture", "author", "os", "os.version", "variant")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of a rewritten image."""

    tag: str
    created: int  # seconds since 1970
    labels: Mapping[str, str]  # added to those of the Dockerfile
    with_base: bool = False  # contain the base's layers, which a classic image store has and need not load again


@dataclass(frozen=True, slots=True)
class _Layer:
    diff_id: str  # sha256:…
    size: int  # unpacked, in bytes
    path: Path | None  # file of the rewritten layer; None: left out

    @property
    def name(self) -> str:
        return f"{self.diff_id.removeprefix('sha256:')}.tar"


def rewritten(saved: Path, recipe: Recipe, work: Path) -> Iterator[bytes]:
    """Archive for `docker load` of the image that `docker save` wrote to `saved`; `work` is an empty directory.

    Two builds with equal contents yield equal archives. Raises FleetError.
    """
    try:
        with tarfile.open(saved) as archive:
            (document,) = _json(archive, "manifest.json")
            config = _json(archive, document["Config"])
            names = [str(name) for name in document["Layers"]]
            base = base_layers(config, len(names))
            layers = [
                _rewrite(archive, name, work) if number >= base else _kept(archive, name, diff_id, recipe, work)
                for number, (name, diff_id) in enumerate(zip(names, config["rootfs"]["diff_ids"], strict=True))
            ]
    except (KeyError, TypeError, ValueError, tarfile.TarError) as error:
        raise FleetError(f"{saved}: not an archive of docker save ({error})") from error
    body = _configuration(config, layers, recipe)
    yield from _archive(body, layers, recipe.tag)


def base_layers(config: Mapping[str, Any], layers: int) -> int:
    """Number of the base's layers, from the history of an image with `layers`. Raises FleetError."""
    history: Sequence[Mapping[str, Any]] = config.get("history") or ()
    ours = _first_step(history)
    full = [not each.get("empty_layer") for each in history]
    if sum(full) != layers:
        raise FleetError(
            f"the history of the built image has {sum(full)} layers, the image {layers}: its base has a history that "
            "does not fit its layers; take another base"
        )
    return sum(full[:ours])


def _first_step(history: Sequence[Mapping[str, Any]]) -> int:
    """Index of our first step in the history: the last one of its kind, as a base may be one of our images."""
    found = [number for number, each in enumerate(history) if FIRST_STEP in str(each.get("created_by"))]
    if not found:
        raise FleetError(f"the built image has no step {FIRST_STEP!r}, with which the Dockerfiles of images/ begin")
    return found[-1]


def _kept(archive: tarfile.TarFile, name: str, diff_id: str, recipe: Recipe, work: Path) -> _Layer:
    """Layer of the base."""
    with _plain(archive, name, work) as layer:
        size = layer.seek(0, io.SEEK_END)
        if not recipe.with_base:
            return _Layer(diff_id, size, None)
        layer.seek(0)
        path = work / f"{diff_id.removeprefix('sha256:')}.tar"
        with path.open("wb") as file:
            shutil.copyfileobj(layer, file, _CHUNK)
    return _Layer(diff_id, size, path)


def _rewrite(archive: tarfile.TarFile, name: str, work: Path) -> _Layer:
    with _plain(archive, name, work) as layer, tempfile.NamedTemporaryFile(dir=work, delete=False) as file:
        hashed = _Hashed(file)
        normalize(layer, hashed)
    return _Layer(f"sha256:{hashed.digest}", hashed.size, Path(file.name))


class _Hashed:
    """File being written, with digest and size."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash, self.size = file, hashlib.sha256(), 0

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def write(self, content: bytes) -> int:
        self._hash.update(content)
        self.size += len(content)
        return self._file.write(content)


def normalize(layer: IO[bytes], into: Any) -> None:
    """Write the layer with sorted members, without times, names of users and headers of one engine only.

    Extended attributes stay. Hard links follow all files, as their targets have to be there.
    """
    with (
        tarfile.open(fileobj=layer, mode="r:", encoding="utf-8") as source,
        tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8") as target,
    ):
        for member in sorted(source, key=lambda each: (each.islnk(), each.name)):
            plain = copy.copy(member)
            plain.mtime, plain.uname, plain.gname = LAYER_TIME, "", ""
            plain.pax_headers = {key: value for key, value in member.pax_headers.items() if key.startswith(_XATTRS)}
            target.addfile(plain, source.extractfile(member) if member.isreg() else None)


@contextmanager
def _plain(archive: tarfile.TarFile, name: str, work: Path) -> Iterator[IO[bytes]]:
    """Layer of the archive, unpacked where the engine saved it with gzip. Raises FleetError for other compression."""
    packed = archive.extractfile(name)
    if packed is None:
        raise KeyError(name)
    begin = packed.read(4)
    packed.seek(0)
    if begin[:2] == b"\x1f\x8b":
        with tempfile.TemporaryFile(dir=work) as file, gzip.open(packed) as unpacked:
            shutil.copyfileobj(unpacked, file, _CHUNK)
            file.seek(0)
            yield file
    elif begin == b"\x28\xb5\x2f\xfd":
        raise FleetError(
            "this engine keeps a layer compressed with zstd, which cannot be rewritten here: build the images with an "
            "engine that has the classic image store, or on a base with gzip layers"
        )
    else:
        yield packed


def _configuration(config: Mapping[str, Any], layers: Sequence[_Layer], recipe: Recipe) -> bytes:
    """Configuration of the rewritten image; entries that are empty or only of one engine are left out."""
    created = datetime.fromtimestamp(recipe.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    history = list(config["history"])
    ours = _first_step(history)
    settings = {key: value for key, value in config["config"].items() if value and key != "ArgsEscaped"}
    labels = {**settings.get("Labels", {}), **recipe.labels, SIZE_LABEL: str(sum(each.size for each in layers))}
    document = {
        **{key: config[key] for key in _KEPT if config.get(key)},
        "created": created,
        "config": {**settings, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [each.diff_id for each in layers]},
        "history": [*history[:ours], *({**each, "created": created} for each in history[ours:])],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _archive(config: bytes, layers: Sequence[_Layer], tag: str) -> Iterator[bytes]:
    """Archive in the layout that all engines load."""
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [tag], "Layers": [each.name for each in layers]}]
    yield from _member("manifest.json", json.dumps(manifest).encode())
    yield from _member(name, config)
    for layer in dict.fromkeys(layers):
        if layer.path is not None:
            yield _header(layer.name, layer.size)
            with layer.path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    yield chunk
            yield bytes(-layer.size % tarfile.BLOCKSIZE)
            layer.path.unlink()
    yield _END


def _member(name: str, body: bytes) -> Iterable[bytes]:
    return _header(name, len(body)), body, bytes(-len(body) % tarfile.BLOCKSIZE)


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mtime = size, LAYER_TIME
    return member.tobuf(tarfile.PAX_FORMAT)


def _json(archive: tarfile.TarFile, name: str) -> Any:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(name)
    return json.load(file)
