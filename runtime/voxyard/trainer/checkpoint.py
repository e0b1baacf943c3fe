"""Checkpoints: written whole or not at all, verified before they are used, the newest few and the best kept."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxyard.host import durable_files
from voxyard.host.durable_files import digest_of
from voxyard.trainer.errors import TrainerError

log = logging.getLogger("voxyard.trainer")

FORMAT = 1
STATE, META, BEST = "state.safetensors", "meta.json", "best"
_NAME = re.compile(r"step-\d{8,}")


class CheckpointError(TrainerError):
    """Failure to write a checkpoint, or to read back what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint: its path, its metadata and its arrays."""

    path: Path
    step: int
    meta: Mapping[str, Any]
    state: Mapping[str, NDArray[Any]]


def save(directory: Path, step: int, state: Mapping[str, NDArray[Any]], meta: Mapping[str, Any], *, keep: int) -> Path:
    """Writes DIRECTORY/step-N, then removes all but the `keep` newest and the best.

    Everything is written and synced under another name first and renamed last, so that a kill or a full disk leaves
    the earlier checkpoints as they were. Raises CheckpointError.
    """
    path = directory / f"step-{step:08d}"
    unfinished = durable_files.unfinished(path)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for left in directory.glob(".step-*"):  # by a run that was killed
            shutil.rmtree(left, ignore_errors=True)
        unfinished.mkdir()
        write_state(unfinished / STATE, state)
        described = {**meta, "format": FORMAT, "step": step, "sha256": digest_of(unfinished / STATE)}
        (unfinished / META).write_text(json.dumps(described, indent=1, sort_keys=True) + "\n")
        durable_files.put_directory(unfinished, path)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise CheckpointError(_why_not_saved(path, error, newest(directory)), exit_code=1) from error
    _prune(directory, keep)
    return path


def mark_best(directory: Path, path: Path) -> None:
    """Points DIRECTORY/best at a checkpoint; it is kept from then on. Raises CheckpointError."""
    link = directory / f".{BEST}.new"
    try:
        link.unlink(missing_ok=True)
        link.symlink_to(path.name)
        link.replace(directory / BEST)
    except OSError as error:
        raise CheckpointError(
            f"{directory / BEST} cannot point to {path.name}: {error.strerror or error}", exit_code=1
        ) from error


def load(path: Path) -> Checkpoint:
    """Reads one checkpoint and verifies it. Raises CheckpointError with its path and the fault."""
    try:
        meta = json.loads((path / META).read_text())
        digest = digest_of(path / STATE)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"checkpoint {path} cannot be read: {error}") from error
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        found = meta.get("format") if isinstance(meta, dict) else meta
        raise CheckpointError(f"checkpoint {path} has format {found!r}; this voxyard reads format {FORMAT}")
    written = str(meta.get("sha256"))
    if digest != written:
        raise CheckpointError(
            f"checkpoint {path} is damaged: {STATE} has {(path / STATE).stat().st_size} bytes with SHA-256 "
            f"{digest[:12]}…, but {written[:12]}… was written"
        )
    from safetensors.numpy import load_file

    return Checkpoint(path, int(meta["step"]), meta, load_file(path / STATE))


def peek(path: Path) -> dict[str, Any] | None:
    """Metadata of one checkpoint, or of the newest of a run's directory, not verified; None where there are none."""
    for each in (path, *reversed(_all(path))):
        try:
            meta = json.loads((each / META).read_text())
        except (OSError, ValueError):  # `newest_good` names it
            continue
        if isinstance(meta, dict) and isinstance(meta.get("config"), dict):
            return meta
    return None


def newest_good(directory: Path) -> Checkpoint | None:
    """The newest checkpoint that is intact; damaged ones are named in the log and passed over. None without any.

    Raises CheckpointError where all are damaged: a run that began anew would write over what may be brought back.
    """
    paths = _all(directory)
    for path in reversed(paths):
        try:
            return load(path)
        except CheckpointError as error:
            log.warning("%s; trying the one before", error)
    if paths:
        raise CheckpointError(
            f"none of the {len(paths)} checkpoints in {directory} is intact, as told above: bring back a copy of one, "
            "or move them away to begin anew (train --no-resume does)"
        )
    return None


def open_any(path: Path) -> Checkpoint:
    """The checkpoint that a user means: one checkpoint, or the best (else the newest good one) of a run's directory."""
    if (path / META).exists():
        return load(path)
    if (path / BEST).exists():
        try:
            return load((path / BEST).resolve())
        except CheckpointError as error:
            log.warning("%s; taking the newest good one", error)
    found = newest_good(path) if path.is_dir() else None
    if found is None:
        raise CheckpointError(f"{path} holds no checkpoint: expected a step-… directory, or a directory of them")
    return found


def set_aside(directory: Path) -> Path | None:
    """Moves a directory's checkpoints into DIRECTORY/before-N, for a run that starts anew. None if there are none."""
    paths = _all(directory)
    if not paths:
        return None
    number = 1
    while (aside := directory / f"before-{number}").exists():
        number += 1
    aside.mkdir()
    for path in paths:
        path.replace(aside / path.name)
    if (directory / BEST).is_symlink():
        (directory / BEST).replace(aside / BEST)
    return aside


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Locks the directory for one run. Raises CheckpointError when another run has it, or it cannot be made."""
    lock = directory / ".lock"
    try:
        str(directory).encode()  # reports, samples and metrics bear the name
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = durable_files.open_locked(lock)
    except BlockingIOError as error:
        raise CheckpointError(
            f"--checkpoint-dir {directory} is in use by another run (process {lock.read_text().strip() or '?'}): "
            "wait for it, or give another directory"
        ) from error
    except UnicodeEncodeError as error:
        raise CheckpointError(f"--checkpoint-dir {str(directory)!a} is not UTF-8: give another directory") from error
    except OSError as error:
        raise CheckpointError(
            f"--checkpoint-dir {directory} cannot be used ({error.filename}: {error.strerror}): expected a directory "
            "that can be written, or the name of a new one"
        ) from error
    with os.fdopen(descriptor, "r+") as handle:
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def write_state(path: Path, state: Mapping[str, NDArray[Any]]) -> None:
    """Writes arrays by name as a safetensors file. Raises OSError."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        save_file({name: np.asarray(value, order="C") for name, value in state.items()}, path)
        path.chmod(path.parent.stat().st_mode & 0o666)  # as the umask says: safetensors lets its owner alone read it
    except SafetensorError as error:  # wraps the system's error in its text
        number = errno.ENOSPC if "os error 28" in str(error) or "StorageFull" in str(error) else errno.EIO
        raise OSError(number, os.strerror(number) + f" ({error})", str(path)) from error


def _why_not_saved(path: Path, error: OSError, last: Path | None) -> str:
    kept = f"the last good one is {last}" if last else "there is no earlier one"
    advice = ": make room, or give a --checkpoint-dir on another disk" if error.errno == errno.ENOSPC else ""
    return f"checkpoint {path} was not saved, {error.strerror or error}{advice}; {kept}"


def _all(directory: Path) -> list[Path]:
    """The run's own checkpoints, oldest first; a copy that somebody made (step-00000500.good) is left alone."""
    found = [path for path in directory.glob("step-*") if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name[5:]))


def newest(directory: Path) -> Path | None:
    """The newest checkpoint's directory, unverified."""
    paths = _all(directory)
    return paths[-1] if paths else None


def _prune(directory: Path, keep: int) -> None:
    best = (directory / BEST).resolve() if (directory / BEST).exists() else None
    for path in _all(directory)[:-keep]:
        if path.resolve() != best:
            shutil.rmtree(path, ignore_errors=True)
