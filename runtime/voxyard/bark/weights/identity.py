"""Identity of a model's files: a digest that is read in no time, to compare the weights of two hosts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from voxyard.bark.errors import BarkError
from voxyard.bark.weights.hub import chosen, parts

_ENDS = 2**20  # bytes at the beginning and the end of a file


def identity(directory: Path) -> str:
    """First 16 hex digits of a SHA-256 over the files of a model: names, sizes, and a MiB at both ends of each.

    Other weights differ in the middle of a file only where somebody edits it; `voxyard weights check --checksums`
    reads all of it.

    Raises:
        BarkError: a file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for name in sorted(chosen(parts(directory))):
            _add(digest, directory / name)
    except OSError as problem:
        raise BarkError(f"the model in {directory} cannot be read: {problem}") from problem
    return digest.hexdigest()[:16]


def _add(digest: hashlib._Hash, file: Path) -> None:
    with file.open("rb") as content:
        size = os.fstat(content.fileno()).st_size
        digest.update(f"{file.name} {size}\n".encode())
        digest.update(content.read(_ENDS))
        if size > _ENDS:
            content.seek(max(_ENDS, size - _ENDS))
            digest.update(content.read(_ENDS))
