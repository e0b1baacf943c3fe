"""SHA-256 checksums of a model's files, written in `sha256sum`'s format and verified."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from voxyard.bark.errors import BarkError
from voxyard.host.durable_files import write_file

SUMS = "SHA256SUMS"
BLOCK = 2**20  # bytes read at a time
_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *]([^/\\]+)")


def sha256(file: Path, read: Callable[[int], None] = lambda _: None) -> str:
    """Digest of a file; `read` is called with the number of bytes after each block."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(BLOCK):
            digest.update(block)
            read(len(block))
    return digest.hexdigest()


def git_blob(file: Path) -> str:
    """Git's blob id of a file of this content: SHA-1 over its length and bytes."""
    digest = hashlib.sha1(f"blob {file.stat().st_size}\0".encode(), usedforsecurity=False)
    with file.open("rb") as content:
        while block := content.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def read(file: Path) -> dict[str, str]:
    """Digests by file name, from a list of checksums.

    Raises:
        BarkError: the file cannot be read, or is no list of checksums.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise BarkError(f"the checksums {file} cannot be read: {problem}") from problem
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise BarkError(
                f"{file}:{number}: found {line[:80]!r}, expected 64 hexadecimal digits, two spaces and a file name, "
                "as `sha256sum` writes them"
            )
        found[match[2]] = match[1].lower()
    if not found:
        raise BarkError(f"{file} lists no checksums: expected lines as `sha256sum` writes them")
    return found


def write(directory: Path, sums: Mapping[str, str]) -> None:
    """Write the list beside the files."""
    write_file(directory / SUMS, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def problems(
    directory: Path, names: frozenset[str], progress: Callable[[int, int], None] = lambda _done, _total: None
) -> tuple[str, ...]:
    """Differences between a directory and its list; each of `names` must be listed. Reads all files.

    Raises:
        BarkError: there is no list, or it cannot be read.
    """
    if not (directory / SUMS).is_file():
        raise BarkError(f"{directory} has no {SUMS} to verify: `voxyard weights fetch` writes one beside the weights")
    listed = read(directory / SUMS)
    present = {name: (directory / name).stat().st_size for name in listed if (directory / name).is_file()}
    total, done = sum(present.values()), 0
    found = [f"{name} is missing (listed in {SUMS})" for name in sorted(listed.keys() - present)]
    found += [f"{name} is not listed in {SUMS}" for name in sorted(names - listed.keys())]

    def count(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    for name in sorted(present):
        digest = sha256(directory / name, count)
        if digest != listed[name]:
            found.append(f"{name} has the SHA-256 {digest}, {SUMS} lists {listed[name]}: download the model again")
    return tuple(found)
