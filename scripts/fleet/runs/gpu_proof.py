"""GPU proof on a host: the trainer's benchmarks in its released image, on the trainer's GPUs; fetches the report."""

from __future__ import annotations

import base64
import io
import json
import shlex
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fleet.audit import AuditEntry, record
from fleet.errors import FleetError, HostFailedError
from fleet.lock import locked
from fleet.rollout.commands import HOME
from fleet.runs.files import DeployedRelease, trainer_gpus
from fleet.runs.runs import active_runs, read_release
from fleet.ssh.command_batch import Command
from fleet.ssh.connection_pool import Session

STEPS = ("bench-trainer", "profile-trace", "exporter")
LEFT_OUT = (
    "tests marked gpu: released images have no pytest; make test-gpu in a clone on the host runs them",
    "Bark's tests and bench-bark: they need programs that no image has; make test-gpu runs them, too",
)
SOURCES = ("scripts/gpu_report", "scripts/demo", "tests/bench")
POLL_SECONDS = 5.0
LONGEST_SECONDS = 3 * 3600.0
_MOUNT = "/proof"


def prove(
    session: Session,
    host: str,
    proof: str,
    root: Path,
    out: Path,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Run the proof under the host's lock and unpack its report into `out`; the report, as JSON has it.

    The container and its files are removed from the host in any case. Raises FleetError where `out` has files,
    HostFailedError where a training run is active, the host's plan has no GPUs, or no report was made.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FleetError(f"--out {out} exists and is not an empty directory: name a new one")
    with locked(session, host, f"prove {proof}"):
        release = read_release(session, host)
        gpus = trainer_gpus(release.plan)
        if not gpus:
            raise HostFailedError(f"{host}: its plan has no GPUs for the trainer: nothing can be proved on one there")
        if busy := active_runs(session):
            raise HostFailedError(f"{host}: the run {busy[0].id} is active and would disturb it: wait, or fab stop it")
        begin = begin_command(proof, release, gpus)
        begun = session.send(begin, [archive(root)])
        try:
            if not begun.ok:
                raise HostFailedError(f"{host} could not start the proof: {begun.message}")
            code = _ended(session, host, proof, sleep, now)
            report = _fetched(session, host, proof, code, out)
        finally:
            session.run([remove_command(proof)])
        result = "ok" if report["ok"] else "failed"
        record(session, host, AuditEntry("prove", release.release, release.release, result, f"proof {proof}"))
    return report


def archive(root: Path) -> bytes:
    """Sources that the image lacks, as a tar archive."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for source in SOURCES:
            for path in sorted((root / source).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    tar.add(path, str(path.relative_to(root)))
    return made.getvalue()


def begin_command(proof: str, release: DeployedRelease, gpus: Sequence[str]) -> Command:
    """Unpacks the archive of standard input and starts the container, which goes on without the connection."""
    container = [
        "docker", "run", "--rm", "--init", "--name", _container(proof), "--gpus", f'"device={",".join(gpus)}"',
        "--user", f"{release.uid}:{release.gid}", "--read-only", "--tmpfs", "/tmp:mode=1777,size=4g,exec",  # noqa: S108
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true", "--network", "none", "--ipc", "host",
        "--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--workdir", _MOUNT, "--env", "HOME=/tmp",
    ]  # fmt: skip
    program = [
        "--entrypoint", "python", release.image, "scripts/gpu_report", "--only", *STEPS, "--place", release.image,
        "--out", f"{_MOUNT}/report",
    ]  # fmt: skip
    run = f'{shlex.join(container)} --volume "$PWD:{_MOUNT}" {shlex.join(program)}'
    behind = f"{run} >report/proof.log 2>&1; echo $? >.code; mv .code code"
    lines = [
        "set -eu",
        "umask 077",
        f"mkdir -p {HOME}/proofs",
        f"cd {HOME}/proofs",
        f"mkdir {shlex.quote(proof)}",
        f"cd {shlex.quote(proof)}",
        "tar -xf -",
        "mkdir report",
        f"setsid nohup sh -c {shlex.quote(behind)} </dev/null >/dev/null 2>&1 &",
    ]
    return Command("begin-proof", "\n".join(lines), 120)


def state_command(proof: str) -> Command:
    """Prints the exit code of the container once it has ended."""
    return Command("proof-state", f"cd {HOME}/proofs/{shlex.quote(proof)} && cat code 2>/dev/null || true")


def report_command(proof: str) -> Command:
    """Prints the report's folder as a base64 tar archive."""
    return Command("proof-report", f"cd {HOME}/proofs/{shlex.quote(proof)}/report && tar -cf - . | base64 -w 0", 60)


def remove_command(proof: str) -> Command:
    """Ends the container and removes the files of the proof."""
    text = f"docker rm --force {_container(proof)} >/dev/null 2>&1; rm -rf {HOME}/proofs/{shlex.quote(proof)}"
    return Command("remove-proof", text, 60)


def _container(proof: str) -> str:
    return f"voxyard-proof-{proof}"


def _ended(session: Session, host: str, proof: str, sleep: Callable[[float], None], now: Callable[[], float]) -> int:
    """Exit code of the container. Raises HostFailedError after LONGEST_SECONDS."""
    state, deadline = state_command(proof), now() + LONGEST_SECONDS
    while now() < deadline:
        if said := session.run([state])[state.name].out.strip():
            return int(said)
        sleep(POLL_SECONDS)
    raise HostFailedError(f"{host}: the proof has not ended after {LONGEST_SECONDS / 3600:.0f} hours and was stopped")


def _fetched(session: Session, host: str, proof: str, code: int, out: Path) -> dict[str, Any]:
    command = report_command(proof)
    answer = session.run([command])[command.name]
    if not answer.ok:
        raise HostFailedError(f"{host}: the report cannot be read: {answer.message}")
    out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(answer.out))) as tar:
        tar.extractall(out, filter="data")
    try:
        found: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        log = out / "proof.log"
        said = " ".join(log.read_text(encoding="utf-8", errors="replace").split())[-500:] if log.exists() else ""
        raise HostFailedError(f"{host}: the proof made no report (exit code {code}): {said}; see {log}") from error
    found["host"]["name"] = host
    return found | {"left_out": list(LEFT_OUT)}
