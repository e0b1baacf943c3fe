"""The archive of a diagnosis: parts that passed through the redactor, written whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from voxyard.diagnose.bundle.redact import Redactor
from voxyard.diagnose.errors import DiagnoseError
from voxyard.host import durable_files

Contents = Mapping[str, Any]
"""By name of the file: a text, or data that becomes JSON."""


class PartError(Exception):
    """Reason why a part could not be collected; `files` are those of it that exist all the same."""

    def __init__(self, reason: str, files: Contents | None = None) -> None:
        super().__init__(reason)
        self.files = files or {}


@dataclass(frozen=True)
class Part:
    """One part of the archive. `missing` is the reason why it is absent or incomplete."""

    name: str
    files: tuple[str, ...]
    missing: str | None
    seconds: float

    def document(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self) | {"files": list(self.files), "seconds": round(self.seconds, 1)}


@dataclass
class Archive:
    """Files to be written, every one of them without secrets: each passes through the redactor."""

    redactor: Redactor
    files: dict[str, bytes] = field(default_factory=dict)
    documents: dict[str, Any] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)

    def collect(self, name: str, part: Callable[[], Contents]) -> Part:
        """Adds the files of `part`; a part that fails is recorded with the reason, and raises nothing."""
        begin, missing = time.monotonic(), None
        try:
            contents = part()
        except PartError as error:
            contents, missing = error.files, str(error)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is why the part is not there)
            text = str(error) if hasattr(error, "exit_code") else f"{type(error).__name__}: {error}"
            contents, missing = {}, text
        for file, content in contents.items():
            self.add(file, content)
        said = None if missing is None else self.redactor.text(missing)
        self.parts.append(Part(name, tuple(contents), said, time.monotonic() - begin))
        return self.parts[-1]

    def add(self, name: str, content: Any) -> None:
        """Adds a file: a text as it is, anything else as JSON; without secrets either way."""
        if isinstance(content, str):
            text = self.redactor.text(content)
        else:
            self.documents[name] = self.redactor.data(content)
            text = json.dumps(self.documents[name], indent=1, ensure_ascii=False, default=str) + "\n"
        self.files[name] = text.encode("utf-8", errors="replace")

    def manifest(self, **more: Any) -> dict[str, Any]:
        """Manifest of the archive: its contents, with checksums, and what is missing."""
        sums = {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in self.files.items()
        }
        return {**more, "parts": [part.document() for part in self.parts], "files": sums}


@contextmanager
def whole_file(path: Path) -> Iterator[Callable[[Mapping[str, bytes]], int]]:
    """A place for an archive: gives a function that writes files into it, and returns its size in bytes.

    Nothing is seen under `path` before it is whole; a file that was there stays until then. The place is taken at the
    beginning, so that what cannot be written is refused before anything is measured. Raises DiagnoseError.
    """
    if not path.name.endswith((".tar.gz", ".tgz")):
        raise DiagnoseError(f"--out {path}: expected a name that ends in .tar.gz")
    if path.is_dir():
        raise DiagnoseError(f"--out {path} is a directory: give the name of a file")
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with ExitStack() as stack:
        try:
            file = stack.enter_context(durable_files.unfinished_file(part, durable_files.PRIVATE))
        except OSError as error:
            raise DiagnoseError(f"--out {path} cannot be written: {error.strerror}", exit_code=2) from error

        def write(files: Mapping[str, bytes]) -> int:
            try:
                _write(file, files, path.name.removesuffix(".gz").removesuffix(".tgz").removesuffix(".tar"))
                durable_files.flush(file)
                durable_files.rename(part, path)
            except OSError as error:
                raise DiagnoseError(_why_not(path, error, files), exit_code=1) from error
            return path.stat().st_size

        yield write


def _write(file: Any, files: Mapping[str, bytes], folder: str) -> None:
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
            tar.addfile(entry, io.BytesIO(data))


def _why_not(path: Path, error: OSError, files: Mapping[str, bytes]) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        most = sum(map(len, files.values())) / 2**20
        return (
            f"--out {path}: the disk is full; up to {most:.1f} MiB are needed there: make room, or give another place "
            "(nothing was written)"
        )
    return f"--out {path} could not be written: {error.strerror} (nothing was written)"
