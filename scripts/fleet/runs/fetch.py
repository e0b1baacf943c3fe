"""Fetches a run: checkpoints (verified by checksum), samples, report, logs."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from fleet.audit import AuditEntry, record
from fleet.errors import FleetError, HostFailedError
from fleet.inventory.hosts import Host
from fleet.runs.files import MANIFEST
from fleet.runs.state import TrainingRun
from fleet.ssh import rsync
from fleet.ssh.command_batch import host_verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import must

log = logging.getLogger("fleet")

CHECKPOINTS = "checkpoints"
_STATE, _META = "state.safetensors", "meta.json"
_LEFT_OUT = (".lock", ".*.unfinished", ".*.part", "start.*", "drained", "clips.cache*", "run.env")
_TRIES = 3  # an active run may remove old checkpoints during the fetch


@dataclass(frozen=True, slots=True)
class FetchedRun:
    """Content of a fetched run."""

    folder: Path
    checkpoints: tuple[int, ...]  # steps
    samples: int
    report: bool
    logs: int


def fetch_run(session: Session, host: Host, run: TrainingRun, out: Path) -> FetchedRun:
    """Copy the run to the directory `out`: new, or with an earlier fetch of the same run.

    Raises FleetError where `out` has other content; HostFailedError for a corrupt checkpoint.
    """
    _refuse_other(out, run.id)
    out.mkdir(parents=True, exist_ok=True)
    must(session, host.name, f"write the logs of {run.id}", host_verb("run_keep_logs", run.id, seconds=120))
    readable = host_verb("run_make_readable", run.id, run.image, seconds=120)
    must(session, host.name, f"make the checkpoints of {run.id} readable", readable)
    source = f"{host.files}/runs/{run.id}"
    command = rsync.pull_command(host, source, out, exclude=_LEFT_OUT)
    for _ in range(_TRIES):
        ended = rsync.run(host, command, allowed=(rsync.VANISHED,))
        if ended.code == 0:
            break
    steps = _checked(host.name, out / CHECKPOINTS)
    note = f"run {run.id}: checkpoints {', '.join(map(str, steps)) or 'none'}"
    record(session, host.name, AuditEntry("fetch", run.release, run.release, "ok", note))
    return FetchedRun(
        folder=out,
        checkpoints=steps,
        samples=len(list((out / CHECKPOINTS / "samples").glob("*.wav"))),
        report=(out / CHECKPOINTS / "report.json").is_file(),
        logs=len(list((out / "logs").glob("*.log"))),
    )


def _refuse_other(out: Path, run: str) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise FleetError(f"--out {out} is a file: name a directory")
    if not any(out.iterdir()):
        return
    try:
        there = json.loads((out / MANIFEST).read_bytes())["run"]
    except (OSError, ValueError, LookupError, TypeError):
        there = None
    if there != run:
        what = f"the run {there}" if there else "other files"
        raise FleetError(f"--out {out} contains {what}: name a new directory, or one with an earlier fetch of {run}")


def _checked(host: str, folder: Path) -> tuple[int, ...]:
    """Steps of the verified checkpoints. Raises HostFailedError for a corrupt one."""
    good: list[int] = []
    for path in sorted(folder.glob("step-*")):
        if not path.is_dir():
            continue
        if not (path / _STATE).is_file() or not (path / _META).is_file():
            log.info("%s: %s was removed on the host during the fetch", host, path.name)
            shutil.rmtree(path)
            continue
        meta = json.loads((path / _META).read_bytes())
        with (path / _STATE).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != meta["sha256"]:
            raise HostFailedError(
                f"{path} differs from the checkpoint written on {host} (SHA-256 {found[:12]}…, expected "
                f"{meta['sha256'][:12]}…): fetch again; if it recurs, check the disk of the host"
            )
        good.append(int(meta["step"]))
    return tuple(good)
