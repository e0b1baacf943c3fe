"""Artefacts of a release: weights and voices from local directories, named by their content hash."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError
from fleet.inventory.bark_settings import VOICE_NAMES
from voxyard.bark import BarkError
from voxyard.bark.weights.checkpoint import check
from voxyard.bark.weights.checksums import SUMS
from voxyard.bark.weights.checksums import read as read_sums
from voxyard.bark.weights.hub import chosen, parts

LARGEST_VOICE = 8 << 20  # bytes, as the service takes them


@dataclass(frozen=True, slots=True)
class Artefact:
    """Directory of files, transferred once, verified by checksums, mounted read-only."""

    kind: str  # weights, voices
    id: str  # 12 hex digits over the checksums
    source: Path  # local directory
    checksums: Mapping[str, str]  # SHA-256 by file name
    size_bytes: int

    @property
    def name(self) -> str:
        """Directory name on a host, below artefacts/."""
        return f"{self.kind}-{self.id}"


def artefact_variables(found: Mapping[str, Artefact]) -> dict[str, str]:
    """Variables of the compose files that mount artefacts, by kind."""
    return {f"VOXYARD_BARK_{kind.upper()}_ARTEFACT": each.name for kind, each in found.items()}


class ChecksumCache:
    """Cache of SHA-256 checksums in a file: unchanged files are not read again."""

    def __init__(self, path: Path | None = None) -> None:
        """A missing or damaged cache file counts as empty; without a path nothing is saved."""
        self._path = path
        self._known = _read_cache(path) if path else {}

    def of(self, file: Path) -> str:
        """SHA-256 of the file. Raises OSError."""
        found = file.stat()
        stamp = [found.st_size, found.st_mtime_ns, found.st_ino]
        known = self._known.get(str(file))
        if known is not None and known[:3] == stamp and isinstance(known[3], str):
            return known[3]
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        self._known[str(file)] = [*stamp, digest]
        self._save()
        return digest

    def _save(self) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        unfinished.write_text(json.dumps(self._known), encoding="utf-8")
        unfinished.replace(self._path)


def weights(directory: Path, checksums: ChecksumCache) -> Artefact:
    """Artefact of a directory made by `voxyard weights fetch`. Raises FleetError for an unusable model."""
    _require_directory(directory, "weights")
    try:
        problems = check(directory)
    except ImportError as error:
        raise FleetError(
            f"the weights in {directory} cannot be checked: {error.name or error} is not installed: "
            "pip install 'voxyard[fleet]'"
        ) from None
    except OSError as error:
        raise FleetError(f"{directory}: cannot be read: {error}") from None
    if problems:
        raise FleetError(f"{directory} is not a usable Bark model: {'; '.join(problems)}: see `voxyard weights check`")
    return _artefact("weights", directory, chosen(parts(directory)), checksums, _listed_sums(directory))


def voices(directory: Path, checksums: ChecksumCache) -> Artefact:
    """Artefact of voice files (.npz), and voices.yaml with aliases. Raises FleetError where there are none."""
    _require_directory(directory, "voices")
    names = {each.name for each in directory.iterdir() if each.suffix == ".npz" or each.name == VOICE_NAMES}
    if not names:
        raise FleetError(f"{directory}: no voices: expected files NAME.npz, or {VOICE_NAMES} with aliases")
    found = _artefact("voices", directory, names, checksums, {})
    for name in sorted(names):
        if (directory / name).stat().st_size > LARGEST_VOICE:
            raise FleetError(f"{directory / name}: larger than {LARGEST_VOICE >> 20} MiB, not a voice file: remove it")
    return found


BUILDERS: Mapping[str, Callable[[Path, ChecksumCache], Artefact]] = {"weights": weights, "voices": voices}


def _artefact(
    kind: str, directory: Path, names: Iterable[str], checksums: ChecksumCache, said: Mapping[str, str]
) -> Artefact:
    found: dict[str, str] = {}
    size = 0
    for name in sorted(names):
        file = directory / name
        _require_inside(file, directory)
        try:
            found[name] = checksums.of(file.resolve())
            size += file.stat().st_size
        except OSError as error:
            raise FleetError(f"{file}: cannot be read: {error.strerror}") from None
        if name in said and said[name] != found[name]:
            raise FleetError(
                f"{file}: its SHA-256 is {found[name]}, expected {said[name]} ({SUMS}): fetch the {kind} again"
            )
    lines = "".join(f"{digest}  {name}\n" for name, digest in found.items())
    return Artefact(kind, hashlib.sha256(lines.encode()).hexdigest()[:12], directory, found, size)


def _require_directory(directory: Path, kind: str) -> None:
    if not directory.is_dir():
        how = ": create it with voxyard weights fetch --out DIR" if kind == "weights" else ""
        raise FleetError(f"{directory}: no such directory, named as bark.{kind} in the inventory{how}")


def _require_inside(file: Path, directory: Path) -> None:
    """Raises FleetError for a missing file, or a link that leaves the directory."""
    if not file.is_file():
        raise FleetError(f"{file}: expected a file, found {'a dangling link' if file.is_symlink() else 'none'}")
    if not file.resolve().is_relative_to(directory.resolve()):
        raise FleetError(f"{file}: links to {file.resolve()}, outside of the directory: copy the files (cp -rL)")


def _listed_sums(directory: Path) -> Mapping[str, str]:
    """Checksums of the list beside the files; empty where there is none."""
    try:
        return read_sums(directory / SUMS) if (directory / SUMS).exists() else {}
    except BarkError as error:
        raise FleetError(str(error)) from None


def _read_cache(path: Path) -> dict[str, list[object]]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {name: row for name, row in document.items() if isinstance(row, list) and len(row) == 4}
