"""Reports of training runs: tables, text, JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.command_line import fab
from fleet.rollout.report import add_row, console, table_of
from fleet.runs.fetch import CHECKPOINTS, FetchedRun
from fleet.runs.files import RunFiles
from fleet.runs.state import TrainingRun
from fleet.ssh.connection_pool import GroupResult

_COLUMNS = ("host", "run", "state", "step", "loss", "checkpoint", "since", "release", "GPUs")


def print_table(result: GroupResult[tuple[TrainingRun, ...]], names: Sequence[str]) -> None:
    """Print a table, one row per run, hosts in the order of the inventory."""
    table = table_of(*_COLUMNS)
    for name in names:
        runs = result.succeeded.get(name, ())
        for run in runs:
            add_row(table, name, *_cells(run))
        if not runs:
            add_row(table, name, "", str(result.failed.get(name, "no runs")))
    console().print(table)


def document(result: GroupResult[tuple[TrainingRun, ...]], names: Sequence[str]) -> dict[str, Any]:
    """JSON document: `ok`, and `hosts` with name, `error` (string or null) and `runs`."""
    hosts: list[dict[str, Any]] = []
    for name in names:
        error = result.failed.get(name)
        runs = [] if error else [run.to_json() for run in result.succeeded[name]]
        hosts.append({"name": name, "error": None if error is None else str(error), "runs": runs})
    return {"ok": not result.failed, "hosts": hosts}


def started(files: RunFiles) -> str:
    """Report of a started run."""
    wanted, given = files.wanted, files.deployed
    gpus = [f"{gpu}, {_limit(files.limits.get(gpu))}" for gpu in files.gpus] or ["none, trains on the CPU"]
    corpus = wanted.inputs["train"]
    rows = [
        ("run", f"{wanted.run} on {wanted.host}, release {given.release}, image {given.image}"),
        *(("GPU", text) for text in gpus),
        ("corpus", f"{corpus.name}, version {corpus.id}" + (", prepared once on the host" if files.shards else "")),
        ("metrics", files.metrics),
        ("logs", f"{fab()} logs --host {wanted.host} --run {wanted.run} --follow"),
    ]
    return "\n".join(f"{name:<9} {text}" for name, text in rows)


def training(run: TrainingRun, limits: Sequence[str]) -> str:
    """State of a training run, and its verified memory limits."""
    return "\n".join([f"{'state':<9} {run.state}{_at(run)}", *(f"{'verified':<9} {line}" for line in limits)])


def stopped(run: TrainingRun) -> str:
    """Report of a stopped run."""
    checkpoint = "no checkpoint" if run.checkpoint is None else f"checkpoint at step {run.checkpoint}"
    resume = f"{fab()} train --host {run.host} --resume {run.id}"
    return f"{run.id} on {run.host}: {run.state}, {checkpoint}; resume with: {resume}"


def fetched(found: FetchedRun) -> str:
    """Report of a fetched run, with the next command."""
    checkpoints = ", ".join(map(str, found.checkpoints)) or "none"
    lines = [
        f"{found.folder}: checkpoints at step {checkpoints}, verified; {found.samples} samples, "
        f"{'report' if found.report else 'no report yet'}, {found.logs} logs",
    ]
    if found.checkpoints:
        where = found.folder / CHECKPOINTS
        lines.append(f'synthesize with it: voxyard synthesize --checkpoint {where} --text "…" --out spoken.wav')
    return "\n".join(lines)


def fetched_document(found: FetchedRun) -> dict[str, Any]:
    """JSON document of a fetched run."""
    return {
        "folder": str(found.folder),
        "checkpoints": list(found.checkpoints),
        "samples": found.samples,
        "report": found.report,
        "logs": found.logs,
    }


def _cells(run: TrainingRun) -> tuple[str, ...]:
    step = "" if run.step is None else f"{run.step}" + (f"/{run.last_step}" if run.last_step else "")
    return (
        run.id,
        run.state + (f", over {', '.join(run.hosts)}" if run.hosts else ""),
        step,
        "" if run.loss is None else f"{run.loss:.4g}",
        "" if run.checkpoint is None else str(run.checkpoint),
        run.since,
        run.release,
        ", ".join(run.gpus) or "CPU",
    )


def _at(run: TrainingRun) -> str:
    return "" if run.step is None else f", step {run.step}"


def _limit(mib: int | None) -> str:
    return "no limit" if mib is None else f"limit {mib} MiB"
