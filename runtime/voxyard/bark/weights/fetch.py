"""Download of a model's files: whole, verified, and resumed where an earlier try ended."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from voxyard.bark.errors import BarkError
from voxyard.bark.weights import checksums
from voxyard.bark.weights.checkpoint import check
from voxyard.bark.weights.hub import BrokenError, File, ModelSource, belongs, source

UNFINISHED = ".fetch"  # below the model's directory, so that a finished file needs only another name
RETRIES = 5  # connections in a row that bring nothing new
MARGIN = 2**20  # bytes of a disk that are left free

Progress = Callable[[int, int], None]  # bytes done, of how many

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fetched:
    """A fetched model."""

    directory: Path
    source: str
    revision: str | None
    files: tuple[File, ...]
    transferred: int  # bytes of this run
    pickled: bool  # its weights are pickles: voxyard reads their tensors and nothing else

    def render(self) -> str:
        """A few lines for people."""
        size = sum(file.size for file in self.files)
        at = f" at {self.revision}" if self.revision else ""
        lines = [f"{self.source}{at}: {len(self.files)} files, {size / 2**20:,.1f} MiB, verified, in {self.directory}"]
        if self.pickled:
            lines.append("its weights are no safetensors but pickles: voxyard takes plain tensors from them, no code")
        return "\n".join(lines)


def fetch(
    name: str,
    out: Path,
    *,
    revision: str | None = None,
    expected: Path | None = None,
    endpoint: str | None = None,
    progress: Progress = lambda _done, _total: None,
    pause: float = 1.0,
) -> Fetched:
    """Bring a model into a directory and write SHA256SUMS beside it.

    `name`: a published model (`bark`, `bark-small`), owner/name on the hub, or a directory. `expected`: a list of
    checksums that the files must have, beside what the hub says of them. `pause`: seconds between two connections.

    Raises:
        BarkError: there is no such model, no connection, no room, or something else arrived than was promised.
    """
    found = source(name, revision, endpoint)
    files = _with_expected(found, checksums.read(expected)) if expected else found.files
    _check_listing(found, {file.name for file in files})
    try:
        out.mkdir(parents=True, exist_ok=True)
        with _alone(out):
            done = _present(out, files)
            _check_room(out, [file for file in files if file.name not in done])
            transfer = _Transfer(found, out, progress, pause, total=sum(file.size for file in files))
            for file in sorted(files, key=lambda file: (file.name != "config.json", file.size)):
                transfer.take(file, done.get(file.name))
            checksums.write(out, transfer.sums)
    except OSError as problem:
        raise _in_words(problem, out) from problem
    problems = check(out)
    if problems:
        raise BarkError(f"{found.title} arrived whole, but is no usable Bark model: {'; '.join(problems)}")
    pickled = any(file.name.endswith(".bin") for file in files)
    return Fetched(out, found.title, found.revision, files, transfer.transferred, pickled)


class _Transfer:
    """One file after the other, each under its own name only when it is whole and verified."""

    def __init__(self, found: ModelSource, out: Path, progress: Progress, pause: float, total: int) -> None:
        self._source, self._out, self._progress, self._pause = found, out, progress, pause
        self._before, self._total = 0, total
        self.transferred = 0
        self.sums: dict[str, str] = {}

    def take(self, file: File, present: str | None) -> None:
        """Have a file in its place; `present` is the SHA-256 of one that is there."""
        target = self._out / file.name
        if present is not None:
            self.sums[file.name] = present
        else:
            part = self._out / UNFINISHED / _part(file)
            self._receive(file, part)
            self.sums[file.name] = _verified(self._source, file, part)
            if file.name == "config.json":
                _check_kind(self._source, part)
            _finish(part, target)
        self._before += file.size
        self._progress(self._before, self._total)

    def _receive(self, file: File, part: Path) -> None:
        """Fill a file to its size, over as many connections as that takes."""
        part.touch()
        furthest, idle = part.stat().st_size, 0
        while (have := part.stat().st_size) != file.size:
            if have > file.size:
                os.truncate(part, 0)
                have = 0
            try:
                self._append(file, part, have)
            except BrokenError as problem:
                reached = part.stat().st_size
                idle = 0 if reached > furthest else idle + 1
                furthest = max(furthest, reached)
                if idle > RETRIES:
                    raise BarkError(
                        f"{file.name} of {self._source.title}: {problem}; {reached:,} of {file.size:,} bytes are "
                        "here. Run the same command again: it goes on from there"
                    ) from problem
                _log.info("%s: %s; going on at %s of %s bytes", file.name, problem, f"{reached:,}", f"{file.size:,}")
                time.sleep(self._pause)

    def _append(self, file: File, part: Path, have: int) -> None:
        with self._source.open(file, have) as (start, blocks), part.open("r+b") as content:
            content.truncate(start)
            content.seek(start)
            at = start
            for block in blocks:
                content.write(block)
                at += len(block)
                self.transferred += len(block)
                self._progress(self._before + min(at, file.size), self._total)
                if at > file.size:
                    content.truncate(0)
                    raise BarkError(
                        f"{file.name} of {self._source.title} is longer than the {file.size:,} bytes that were "
                        "promised: it is thrown away"
                    )
        if at < file.size:
            raise BrokenError("the connection ended early")


def _verified(found: ModelSource, file: File, part: Path) -> str:
    """The SHA-256 of what arrived; something else than was promised is thrown away."""
    digest = checksums.sha256(part)
    if file.sha256 is not None:
        what, expected, arrived = "SHA-256", file.sha256, digest
    elif file.git_blob is not None:
        what, expected, arrived = "git's checksum", file.git_blob, checksums.git_blob(part)
    else:
        raise BarkError(f"{found.title} names no checksum of {file.name}: give one with --checksums FILE")
    if arrived != expected:
        part.unlink()
        raise BarkError(
            f"{file.name} of {found.title} arrived with {what} {arrived}, expected {expected}: it is thrown away. "
            "Run the same command again; if it happens again, do not trust the source"
        )
    return digest


def _finish(part: Path, target: Path) -> None:
    """Give a whole file its name; after a power cut it is there whole or not at all."""
    with part.open("rb") as content:
        os.fsync(content.fileno())
    part.replace(target)


def _present(out: Path, files: tuple[File, ...]) -> dict[str, str]:
    """SHA-256 of what is there already. Other parts of a model would be read together with these: they are refused."""
    wanted = {file.name: file for file in files}
    done: dict[str, str] = {}
    for path in sorted(each for each in out.iterdir() if belongs(each.name)):
        file = wanted.get(path.name)
        digest = None if file is None else _digest_of(path, file)
        if digest is None:
            raise BarkError(
                f"{path} is of another model, or was changed: name an empty or a new directory with --out, or delete it"
            )
        done[path.name] = digest
    return done


def _digest_of(path: Path, file: File) -> str | None:
    """The SHA-256 of a file that is the one wanted."""
    if not path.is_file() or path.stat().st_size != file.size:
        return None
    digest = checksums.sha256(path)
    same = digest == file.sha256 if file.sha256 else checksums.git_blob(path) == file.git_blob
    return digest if same else None


def _with_expected(found: ModelSource, expected: Mapping[str, str]) -> tuple[File, ...]:
    """The files with the caller's checksums, where the hub does not contradict them at once."""
    files = []
    for file in found.files:
        given = expected.get(file.name)
        if given is None and file.name.endswith((".safetensors", ".bin")):
            raise BarkError(f"the given checksums say nothing of {file.name}, which {found.title} has")
        if given and file.sha256 and given != file.sha256:
            raise BarkError(
                f"{file.name} of {found.title} has the SHA-256 {file.sha256}, expected {given}: nothing was fetched"
            )
        files.append(dataclasses.replace(file, sha256=given or file.sha256))
    return tuple(files)


def _check_listing(found: ModelSource, names: set[str]) -> None:
    """Refuse what can be no model before a byte of it is fetched."""
    missing = [name for name in ("config.json", "generation_config.json") if name not in names]
    if not names & {"tokenizer.json", "vocab.txt"}:
        missing.append("a tokenizer (tokenizer.json or vocab.txt)")
    if not any(name.endswith((".safetensors", ".bin")) for name in names):
        missing.append("weights (model.safetensors or pytorch_model.bin, or their shards)")
    if missing:
        raise BarkError(f"{found.title} is no Bark model: it lacks {', '.join(missing)}")


def _check_kind(found: ModelSource, config: Path) -> None:
    """Checks that it is Bark at all: said before gigabytes of something else are fetched."""
    try:
        settings = json.loads(config.read_text(encoding="utf-8"))
    except ValueError as problem:
        config.unlink()
        raise BarkError(f"config.json of {found.title} is not JSON: {problem}") from problem
    kind = settings.get("model_type") if isinstance(settings, dict) else None
    if kind != "bark":
        config.unlink()
        raise BarkError(f"{found.title} is of the model type {kind!r}, expected 'bark'")


def _check_room(out: Path, files: list[File]) -> None:
    """Checks that the rest fits; partial files of another model or commit are removed first."""
    begun, of_these = 0, {_part(file) for file in files}
    for path in (out / UNFINISHED).iterdir():
        if path.name in of_these:
            begun += path.stat().st_size
        else:
            path.unlink()
    needed = max(0, sum(file.size for file in files) - begun) + MARGIN
    free = shutil.disk_usage(out).free
    if needed > free:
        raise BarkError(
            f"{out} has {free / 2**20:,.1f} MiB free, the model needs {needed / 2**20:,.1f} MiB: free some, or name "
            "a directory on another disk"
        )


def _part(file: File) -> str:
    return f"{file.name}.{file.identity}"


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """The place for unfinished files, for one fetch at a time; empty, it goes with the fetch."""
    unfinished = out / UNFINISHED
    lock = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BarkError(f"another fetch is writing to {out}: wait for it, or name another directory") from None
        unfinished.mkdir(exist_ok=True)
        try:
            yield
        finally:
            if not any(unfinished.iterdir()):
                unfinished.rmdir()
    finally:
        os.close(lock)


def _in_words(problem: OSError, out: Path) -> BarkError:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return BarkError(
            f"there is no room left in {out}. Free some and run the same command again: it goes on where it ended"
        )
    return BarkError(f"the model cannot be written to {out}: {problem}")
