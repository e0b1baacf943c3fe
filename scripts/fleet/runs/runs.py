"""Training runs on a host: start, wait for the first step, stop with a checkpoint, resume."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from fleet.audit import AuditEntry, record
from fleet.command_line import fab
from fleet.errors import FleetError, HostFailedError
from fleet.facts.fact import Unknown
from fleet.facts.gpus import GPUS
from fleet.release.tls import CA_FILE, WEB_FILE
from fleet.rollout import health_gate
from fleet.rollout.commands import compose_options, sums
from fleet.rollout.health_gate import Clock
from fleet.runs.files import (
    ENVIRONMENT,
    DeployedRelease,
    RunFiles,
    RunRequest,
    parse_release,
    render,
    request_from_files,
    run_tls,
    trainer_gpus,
)
from fleet.runs.logs import logs_of, run_labels
from fleet.runs.state import KILLED, NOT_ENFORCEABLE, TrainingRun, read_runs
from fleet.ssh.command_batch import Answer, Command, host_verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import files_of, http, must

log = logging.getLogger("fleet")

POLL_SECONDS = 2.0
START_SECONDS = 1800.0  # from a prepared corpus to the first step: model build and compilation
EXISTS = 73  # EX_CANTCREAT: a run of this name exists
RELEASE_FILES = ("voxyard.env", "plan.yaml", "trainer.yaml", WEB_FILE, CA_FILE)
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}")


def active_runs(session: Session) -> tuple[TrainingRun, ...]:
    """Active runs, including those preparing their corpus. Raises HostFailedError."""
    return tuple(run for run in read_runs(session) if run.active)


def find_run(session: Session, host: str, run: str) -> TrainingRun:
    """Run with this id. Raises HostFailedError with the existing ids."""
    found = read_runs(session)
    for each in found:
        if each.id == run:
            return each
    there = ", ".join(each.id for each in found) or "none"
    raise HostFailedError(f"{host} has no run {run}: expected one of {there}")


def new_run_id(name: str, given: str = "", now: datetime | None = None) -> str:
    """Id of a new run: as given, else from settings name and time. Raises FleetError."""
    if given:
        if not _ID.fullmatch(given):
            raise FleetError(f"--run {given}: expected at most 48 lower-case letters, digits, - and _")
        return given
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:30] or "run"
    return f"{slug}-{(now or datetime.now(UTC)).strftime('%Y%m%d-%H%M%S')}"


def read_release(session: Session, host: str, release: str | None = None) -> DeployedRelease:
    """Parts of the current or named release that runs use. Raises HostFailedError or FleetError."""
    command = host_verb("run_release", "current" if release is None else f"releases/{release}", *RELEASE_FILES)
    answers = session.run([command, GPUS.command])
    if not answers[command.name].ok:
        raise HostFailedError(f"{host} has no release for training runs: run {fab()} deploy --host {host} first")
    gpus = GPUS.among(answers)
    uuids = () if isinstance(gpus, Unknown) else tuple(gpu.uuid for gpu in gpus)
    found = parse_release(answers[command.name].out.strip("\n"), uuids)
    if isinstance(gpus, Unknown) and trainer_gpus(found.plan):
        raise HostFailedError(f"{host}: the host plan assigns GPUs to the trainer, but nvidia-smi fails: {gpus.reason}")
    return found


def refuse_conflict(host: str, files: RunFiles, others: Iterable[TrainingRun]) -> None:
    """Raises HostFailedError where another active run uses a GPU or the port of this one."""
    for other in others:
        if not other.active or other.id == files.wanted.run:
            continue
        shared = [gpu for gpu in files.gpus if gpu in other.gpus]
        if shared:
            what = f"uses GPU {', '.join(shared)}"
        elif other.port == files.deployed.port:
            what = f"uses the metrics port {other.port}"
        else:
            continue
        raise HostFailedError(
            f"{host}: the run {other.id} ({other.state}, by {other.by}) {what}: wait until it has ended, or "
            f"{fab()} stop --host {host} --run {other.id}"
        )


def start_run(session: Session, host: str, files: RunFiles, *, again: bool = False) -> None:
    """Write a run's files and start it under the host's lock. Raises HostFailedError.

    Returns when the start has begun; it continues without the connection.
    """
    run = files.wanted.run
    image = has_image(files.deployed.image)
    if not session.run([image])[image.name].ok:
        raise HostFailedError(
            f"{host} has no image {files.deployed.image} of its release {files.deployed.release}: "
            f"{fab()} deploy --host {host}"
        )
    write = host_verb("run_write", run, sums(files.checksums), *(["again"] if again else []), seconds=60)
    written = must(session, host, "write the run's files", write, [files.archive()], other=EXISTS)
    if written.code == EXISTS:
        raise HostFailedError(f"{host} already has a run {run}: choose another id, or resume it with --resume {run}")
    prepare = files.shards is not None and not _has_shards(session, files)
    must(session, host, f"start the run {run}", start(run, files.compose_files, files.corpora, prepare=prepare))


def start_new_run(session: Session, host: str, wanted: RunRequest, given: DeployedRelease) -> RunFiles:
    """Start a new run under the host's lock; written to the audit log. Raises HostFailedError or FleetError."""
    files = render(wanted, given)
    refuse_conflict(host, files, read_runs(session))
    note = f"run {wanted.run}, by {wanted.by}, corpus {wanted.inputs['train'].place}"
    _audited(session, host, AuditEntry("train", "", given.release, "ok", note), lambda: start_run(session, host, files))
    return files


def resume_run(
    session: Session,
    run: TrainingRun,
    given: DeployedRelease,
    change: Callable[[RunRequest], RunRequest] = lambda it: it,
) -> RunFiles:
    """Resume an ended run with this release, under the host's lock. `change` modifies the request.

    Written to the audit log. Raises HostFailedError or FleetError.
    """
    if run.active:
        raise HostFailedError(f"{run.host}: the run {run.id} is already active ({run.state})")
    files = render(change(request_from_files(_files(session, run))), given)
    refuse_conflict(run.host, files, read_runs(session))
    image = "same image" if run.image == given.image else f"new image {given.image}, was {run.image}"
    note = f"run {run.id} resumed from step {0 if run.checkpoint is None else run.checkpoint}, {image}"
    entry = AuditEntry("resume", run.release, given.release, "ok", note)
    _audited(session, run.host, entry, lambda: start_run(session, run.host, files, again=True))
    _mark(session, run, drained=False)
    return files


def stop_run(session: Session, run: TrainingRun, *, drained: bool) -> TrainingRun:
    """Stop a run with a checkpoint; returns its new state. `drained`: `resume_drained` resumes it.

    Raises HostFailedError where it did not stop gracefully; earlier checkpoints remain.
    """
    _mark(session, run, drained=drained)  # first: an interruption must not lose the run
    command = stop(run.id, run.stop_seconds)
    answer = session.run([command])[command.name]
    ended = find_run(session, run.host, run.id)
    said = "no checkpoint yet" if ended.checkpoint is None else f"checkpoint at step {ended.checkpoint}"
    what = "drain run" if drained else "stop run"
    problem = _stop_problem(ended, answer)
    entry = AuditEntry(what, run.release, run.release, problem or "ok", f"run {run.id}, {said}")
    record(session, run.host, entry)
    if problem:
        raise HostFailedError(f"{run.host}: the run {run.id} {problem}; {said}")
    return ended


def resume_drained(session: Session, release: str | None = None) -> tuple[TrainingRun, ...]:
    """Resume all drained runs with the current or named release; returns their earlier states.

    Raises HostFailedError or FleetError at the first failure: the remaining runs stay drained.
    """
    resumed = []
    for run in read_runs(session):
        if not run.drained:
            continue
        if run.active:  # interrupted between mark and stop
            _mark(session, run, drained=False)
            continue
        log.info("%s: resuming the run %s", run.host, run.id)
        resume_run(session, run, read_release(session, run.host, release))
        resumed.append(run)
    return tuple(resumed)


def wait_until_training(session: Session, host: str, run: str, clock: Clock | None = None) -> TrainingRun:
    """Wait until the run has done a step or has finished; returns its state.

    Raises HostFailedError with the last log lines where it fails, or does not train in time.
    """
    clock, reported, end = clock or Clock(), "", None
    while True:
        now = find_run(session, host, run)
        if now.state != reported:
            log.info("%s: %s is %s", host, run, now.state)
            reported = now.state
        if is_training(session, now) or now.state == "finished":
            return now
        if not now.active:
            raise HostFailedError(f"{host}: the run {run} {failure(now)}{last_log_lines(session, now)}")
        if now.state != "preparing" and end is None:
            end = clock.now() + START_SECONDS
        if end is not None and clock.now() >= end:
            raise HostFailedError(
                f"{host}: the run {run} has done no step after {START_SECONDS / 60:.0f} minutes; it continues: "
                f"{fab()} logs --host {host} --run {run}{last_log_lines(session, now)}"
            )
        clock.wait(POLL_SECONDS)


def verify_limits(session: Session, run: TrainingRun) -> tuple[str, ...]:
    """Verify the GPU memory limits of the run; text lines. Raises HostFailedError where it exceeds them."""
    if NOT_ENFORCEABLE in run.log:
        return ("limits: not enforceable on the CPU, according to the run's log",)
    if not run.limits:
        return ("limits: none" if run.gpus else "limits: none, trains on the CPU",)
    if run.train is None or not run.train.alive:
        return ("limits: not verified, the run has ended",)
    return health_gate.verify_memory(session, f"{run.host}: the run {run.id}", run.train.id, run.limits)


def with_new_settings(wanted: RunRequest, *, file: bytes, flags: Sequence[tuple[str, str]], by: str) -> RunRequest:
    """Request with new settings: replaces the file where one is given, merges flags."""
    settings = wanted.settings
    merged = tuple(sorted({**dict(settings.flags), **dict(flags)}.items()))
    return replace(wanted, settings=replace(settings, file=file or settings.file, flags=merged), by=by)


def is_training(session: Session, run: TrainingRun) -> bool:
    """True where its metrics show at least one step."""
    if run.train is None or not run.train.alive:
        return False
    command = http("metrics", run.address, run.port, "/metrics", tls=run_tls(run.id, run.tls))
    answer = session.run([command])[command.name]
    label = re.escape(f'voxyard_train_steps_total{{run="{run.id}"}} ')
    found = re.search(rf"^{label}(\S+)", answer.out, re.MULTILINE)
    return found is not None and float(found[1]) >= 1


def _stop_problem(run: TrainingRun, answer: Answer) -> str:
    """Problem of a stopped run; "" after a graceful stop."""
    if run.active:
        return f"did not stop ({answer.message})"
    if run.train is not None and run.train.exit_code == KILLED:
        return f"did not stop within {run.stop_seconds} s and was killed (raise trainer.stop_seconds in the inventory)"
    return "" if answer.ok else f"could not be stopped: {answer.message}"


def failure(run: TrainingRun) -> str:
    """State of a run that has ended, as the rest of a sentence."""
    return run.state if run.state.startswith("failed") else f"is {run.state}"


def last_log_lines(session: Session, run: TrainingRun) -> str:
    """Last log lines of a run, or of its start, as the end of a message."""
    said = run.log
    if not said.strip():
        logs, start = logs_of(run_labels(run.id), lines=20), host_verb("run_start_log", run.id)
        answers = session.run([logs, start])
        said = "\n".join(answers[each.name].out.strip() for each in (logs, start))
    lines = [line for line in said.strip().splitlines() if line.strip()]
    return ". Last log lines:\n" + ("\n".join(lines[-20:]) or "(none)")


def _files(session: Session, run: TrainingRun) -> dict[str, bytes]:
    return files_of(must(session, run.host, "read the run's files", host_verb("run_files", run.id)).out)


def _mark(session: Session, run: TrainingRun, *, drained: bool) -> None:
    """Mark a run as to be resumed after the deployment, or not."""
    mark = host_verb("run_mark_drained", run.id) if drained else host_verb("run_unmark_drained", run.id)
    must(session, run.host, "mark the run", mark)


def has_image(image: str) -> Command:
    """Exits with 0 where the host has the image."""
    return Command("has-image", f"docker image inspect --format '{{{{.Id}}}}' {shlex.quote(image)}")


def start(run: str, compose_files: Sequence[str], corpora: Sequence[str], *, prepare: bool) -> Command:
    """Starts a run, which goes on without the connection."""
    options = [*compose_options(compose_files), *([] if prepare else ["--no-deps"])]
    return host_verb("run_start", run, ENVIRONMENT, *options, "--", *corpora, seconds=60)


def stop(run: str, seconds: int) -> Command:
    """Stops the containers of a run, with a grace period for the checkpoint."""
    return host_verb("run_stop", run, str(seconds), seconds=seconds + 60)


def _has_shards(session: Session, files: RunFiles) -> bool:
    corpus = files.wanted.inputs["train"]
    command = host_verb("corpus_has", f"{corpus.place}/{files.shards or ''}")
    return session.run([command])[command.name].ok


def _audited(session: Session, host: str, entry: AuditEntry, action: Callable[[], None]) -> None:
    """Run the action and write the audit log, on success and failure."""
    try:
        action()
    except FleetError as error:
        record(session, host, replace(entry, result="failed", note=f"{entry.note}: {error}"))
        raise
    record(session, host, entry)
