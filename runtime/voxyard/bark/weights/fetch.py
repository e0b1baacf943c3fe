"""Download of a model's files: verified, and resumed where an earlier attempt ended."""

from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from voxyard.bark.errors import BarkError
from voxyard.bark.weights import checksums
from voxyard.bark.weights.checkpoint import check
from voxyard.bark.weights.hub import BrokenError, File, ModelSource, belongs, source
from voxyard.host.durable_files import locked, rename, sync

UNFINISHED = ".fetch"  # in the model's directory, so that a finished file is only renamed
RETRIES = 5  # connections in a row without a new byte
MARGIN = 2**20  # bytes that stay free on the disk

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
    pickled: bool  # weights are pickles, of which only tensors are read

    def render(self) -> str:
        """As text for people."""
        size = sum(file.size for file in self.files)
        at = f" at {self.revision}" if self.revision else ""
        lines = [f"{self.source}{at}: {len(self.files)} files, {size / 2**20:,.1f} MiB, verified, in {self.directory}"]
        if self.pickled:
            lines.append(
                "its weights are pickles, not safetensors: only plain tensors are read from them, no code is run"
            )
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
    """Download a model into a directory and write SHA256SUMS beside it.

    `name`: a published model (`bark`, `bark-small`), owner/name on the hub, or a directory. `expected`: a list of
    checksums that the files must have, in addition to the hub's. `pause`: seconds between two connections.

    Raises:
        BarkError: no such model, no connection, no disk space, or a file differs from its checksum.
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
        raise BarkError(f"{found.title} was downloaded, but is no usable Bark model: {'; '.join(problems)}")
    pickled = any(file.name.endswith(".bin") for file in files)
    return Fetched(out, found.title, found.revision, files, transfer.transferred, pickled)


class _Transfer:
    """Download of files one by one; each gets its own name only when it is complete and verified."""

    def __init__(self, found: ModelSource, out: Path, progress: Progress, pause: float, total: int) -> None:
        self._source, self._out, self._progress, self._pause = found, out, progress, pause
        self._before, self._total = 0, total
        self.transferred = 0
        self.sums: dict[str, str] = {}

    def take(self, file: File, present: str | None) -> None:
        """Download a file; `present` is the SHA-256 of one that is there already."""
        target = self._out / file.name
        if present is not None:
            self.sums[file.name] = present
        else:
            part = self._out / UNFINISHED / _part(file)
            self._receive(file, part)
            self.sums[file.name] = _verified(self._source, file, part)
            if file.name == "config.json":
                _check_kind(self._source, part)
            sync(part)
            rename(part, target)
        self._before += file.size
        self._progress(self._before, self._total)

    def _receive(self, file: File, part: Path) -> None:
        """Download a file to its full size, over several connections if needed."""
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
                        "downloaded. Run the same command again to resume"
                    ) from problem
                _log.info("%s: %s; resuming at %s of %s bytes", file.name, problem, f"{reached:,}", f"{file.size:,}")
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
                        f"{file.name} of {self._source.title} is longer than the expected {file.size:,} bytes: "
                        "it is deleted"
                    )
        if at < file.size:
            raise BrokenError("the connection ended early")


def _verified(found: ModelSource, file: File, part: Path) -> str:
    """SHA-256 of a downloaded file; one that differs from its checksum is deleted."""
    digest = checksums.sha256(part)
    if file.sha256 is not None:
        what, expected, arrived = "SHA-256", file.sha256, digest
    elif file.git_blob is not None:
        what, expected, arrived = "git's checksum", file.git_blob, checksums.git_blob(part)
    else:
        raise BarkError(f"{found.title} has no checksum of {file.name}: give one with --checksums FILE")
    if arrived != expected:
        part.unlink()
        raise BarkError(
            f"{file.name} of {found.title} has the {what} {arrived}, expected {expected}: it is deleted. "
            "Run the same command again; if it happens again, do not trust the source"
        )
    return digest


def _present(out: Path, files: tuple[File, ...]) -> dict[str, str]:
    """SHA-256 of the files that are there already; files of another model are refused, as they would be loaded too."""
    wanted = {file.name: file for file in files}
    done: dict[str, str] = {}
    for path in sorted(each for each in out.iterdir() if belongs(each.name)):
        file = wanted.get(path.name)
        digest = None if file is None else _digest_of(path, file)
        if digest is None:
            raise BarkError(
                f"{path} belongs to another model, or was changed: name a new directory with --out, or delete it"
            )
        done[path.name] = digest
    return done


def _digest_of(path: Path, file: File) -> str | None:
    """SHA-256 of a local file; None where it differs from the listed one."""
    if not path.is_file() or path.stat().st_size != file.size:
        return None
    digest = checksums.sha256(path)
    same = digest == file.sha256 if file.sha256 else checksums.git_blob(path) == file.git_blob
    return digest if same else None


def _with_expected(found: ModelSource, expected: Mapping[str, str]) -> tuple[File, ...]:
    """The files with the caller's checksums, checked against the hub's."""
    files = []
    for file in found.files:
        given = expected.get(file.name)
        if given is None and file.name.endswith((".safetensors", ".bin")):
            raise BarkError(f"the given checksums do not list {file.name}, which {found.title} has")
        if given and file.sha256 and given != file.sha256:
            raise BarkError(
                f"{file.name} of {found.title} has the SHA-256 {file.sha256}, expected {given}: nothing was downloaded"
            )
        files.append(dataclasses.replace(file, sha256=given or file.sha256))
    return tuple(files)


def _check_listing(found: ModelSource, names: set[str]) -> None:
    """Refuse a listing that is no model, before any download."""
    missing = [name for name in ("config.json", "generation_config.json") if name not in names]
    if not names & {"tokenizer.json", "vocab.txt"}:
        missing.append("a tokenizer (tokenizer.json or vocab.txt)")
    if not any(name.endswith((".safetensors", ".bin")) for name in names):
        missing.append("weights (model.safetensors or pytorch_model.bin, or their shards)")
    if missing:
        raise BarkError(f"{found.title} is no Bark model: it lacks {', '.join(missing)}")


def _check_kind(found: ModelSource, config: Path) -> None:
    """Check the model type, before gigabytes are downloaded."""
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
    """Check the disk space for the rest; partial files of another model or commit are removed first."""
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
    """Lock the directory for one download and create its folder of unfinished files, removed when empty."""
    unfinished = out / UNFINISHED
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(out))
        except BlockingIOError:
            raise BarkError(f"another download is writing to {out}: wait for it, or name another directory") from None
        unfinished.mkdir(exist_ok=True)
        try:
            yield
        finally:
            if not any(unfinished.iterdir()):
                unfinished.rmdir()


def _in_words(problem: OSError, out: Path) -> BarkError:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return BarkError(f"no disk space left in {out}. Free some and run the same command again to resume")
    return BarkError(f"the model cannot be written to {out}: {problem}")
