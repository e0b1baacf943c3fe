"""GPU proof on a host: the trainer's benchmarks in a container as training runs have it; fetches the report."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fleet.audit import AuditEntry, record
from fleet.command_line import fab
from fleet.errors import FleetError, HostFailedError
from fleet.lock import locked
from fleet.release import compose
from fleet.rollout.commands import compose_options
from fleet.rollout.health_gate import Clock
from fleet.runs.files import COMPOSE, DeployedRelease, trainer_gpus
from fleet.runs.runs import active_runs, read_release
from fleet.ssh.command_batch import host_verb
from fleet.ssh.connection_pool import Session
from fleet.ssh.verbs import files_of, must, tar_of, wait_until
from gpu_report import run as gpu_report

STEPS = ("tests-trainer", "bench-trainer", "profile-trace", "exporter")
STAND_IN_STEPS = ("tests-trainer", "bench-trainer", "profile-trace")  # the scripted driver library has to be compiled
LEFT_OUT = "Bark's tests and bench-bark: they need programs that no image has; make test-gpu in a clone runs them"
STAND_IN_LEFT_OUT = "the exporter's readings: a stand-in needs a C compiler, which no image has"
SOURCES = (
    "scripts/gpu_report", "scripts/demo", "tests/bench", "tests/support/trainer", "pyproject.toml",
    "tests/integration/trainer/conftest.py", gpu_report.TRAINER_TESTS,
)  # fmt: skip
PACKAGES = ("pytest", "pytest-timeout", "pluggy", "iniconfig", "packaging", "pygments")
"""Packages of the tests that released images lack: Python code alone, which goes with the sources."""
POLL_SECONDS = 5.0
LONGEST_SECONDS = 3 * 3600.0
SERVICE = "train"  # of the release's compose file, and of the operator's additions to it
_MOUNT = "/proof"
_PACKAGES = "packages"
_SCRATCH = "build"  # where benchmarks write what they need
OF_RUNS = ("command", "depends_on", "ports", "volumes", "healthcheck", "labels", "environment")


def prove(
    session: Session,
    host: str,
    proof: str,
    root: Path,
    out: Path,
    *,
    overrides: Sequence[tuple[str, bytes]] = (),
    stand_in: bool = False,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Run the proof under the host's lock and unpack its report into `out`; the report, as JSON has it.

    The container is that of a training run on this host, with the compose files `overrides` merged last; a `stand_in`
    takes the same way with CPU devices and measures nothing. The container and its files are removed from the host in
    any case. Raises FleetError where `out` has files, HostFailedError where a training run is active, the host's plan
    has no GPUs, or no report was made.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FleetError(f"--out {out} exists and is not an empty directory: name a new one")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FleetError(f"--out {out} cannot be made: {error.strerror}: name another directory") from error
    with locked(session, host, f"prove {proof}"):
        release = read_release(session, host)
        gpus = trainer_gpus(release.plan)
        if not gpus and not stand_in:
            raise HostFailedError(f"{host}: its plan has no GPUs for the trainer: nothing can be proved on one there")
        if busy := active_runs(session):
            raise HostFailedError(
                f"{host}: the run {busy[0].id} is active and would disturb it: wait, or stop it: "
                f"{fab()} stop --host {host} --run {busy[0].id}"
            )
        files = {COMPOSE: compose_file(release, gpus, stand_in=stand_in), **dict(overrides)}
        session.run([host_verb("proof_remove_left_over", release.image, seconds=120)])
        try:
            assigned = [f"{name}={value}" for name, value in variables(release).items()]
            words = (proof, _SCRATCH, SERVICE, *assigned, *compose_options(tuple(files)))
            begin = host_verb("proof_begin", *words, seconds=120)
            must(session, host, "start the proof", begin, [archive(root, files)])
            code = _ended(session, host, proof, clock or Clock())
            report = _fetched(session, host, proof, code, out)
        finally:
            session.run([host_verb("proof_remove", proof, release.image, seconds=60)])
        result = "ok" if report["ok"] else "failed"
        record(session, host, AuditEntry("prove", release.release, release.release, result, f"proof {proof}"))
    return report | {"left_out": [LEFT_OUT, *([STAND_IN_LEFT_OUT] if stand_in else [])]}


def compose_file(release: DeployedRelease, gpus: Sequence[str], *, stand_in: bool) -> bytes:
    """Compose file of the proof: the release's service of training runs, with another program and without a network."""
    service = dict(yaml.safe_load(release.compose)["services"][SERVICE])
    for key in OF_RUNS:
        service.pop(key, None)
    program = ["scripts/gpu_report", "--only", *(STAND_IN_STEPS if stand_in else STEPS)]
    service |= {
        "entrypoint": ["python"],
        "command": [
            *program, *(["--stand-in"] if stand_in else []), "--place", release.image, "--out", f"{_MOUNT}/report",
        ],
        "working_dir": _MOUNT,
        "network_mode": "none",
        "tmpfs": [*service.get("tmpfs", ()), f"{_MOUNT}/{_SCRATCH}:mode=1777,size=4g"],
        "environment": {"HOME": "/tmp", "USER": "voxyard", "PYTHONPATH": f"{_MOUNT}/{_PACKAGES}"},  # noqa: S108 - a tmpfs
        "volumes": [compose.mount(".", _MOUNT)],
    }  # fmt: skip
    if release.memory_mib is not None:
        service["mem_limit"] = f"{release.memory_mib}m"
    if gpus:
        service |= compose.gpu_request(gpus)
    return yaml.safe_dump({"services": {SERVICE: service}}, sort_keys=False).encode()


def archive(root: Path, files: Mapping[str, bytes]) -> bytes:
    """Sources that the image lacks, and further `files`, as a tar archive."""
    found: dict[str, bytes] = {}
    for source in SOURCES:
        place = root / source
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found[str(path.relative_to(root))] = path.read_bytes()
    for name in PACKAGES:
        found |= {f"{_PACKAGES}/{where}": path.read_bytes() for path, where in _installed(name)}
    return tar_of([*found.items(), *files.items()], dict.fromkeys(found, 0o644))


def _installed(package: str) -> Iterator[tuple[Path, str]]:
    """Files of an installed package and their places in site-packages. Raises FleetError where it is missing."""
    try:
        files = importlib.metadata.files(package) or ()
    except importlib.metadata.PackageNotFoundError:
        raise FleetError(f"{package} is not installed here, and the tests go to the host with it: make setup") from None
    for each in files:
        path = Path(str(each.locate()))
        if ".." not in each.parts and "__pycache__" not in each.parts and path.is_file():
            yield path, str(each)


def variables(release: DeployedRelease) -> dict[str, str]:
    """Variables of the compose file."""
    return {
        "VOXYARD_TRAINER_IMAGE": release.image,
        "VOXYARD_UID": str(release.uid),
        "VOXYARD_GID": str(release.gid),
        "VOXYARD_TRAINER_STOP_SECONDS": str(release.stop_seconds),
    }


def _ended(session: Session, host: str, proof: str, clock: Clock) -> int:
    """Exit code of the container. Raises HostFailedError after LONGEST_SECONDS."""
    state, said = host_verb("proof_state", proof), ""

    def runs() -> str | None:
        nonlocal said
        said = session.run([state])[state.name].out.strip()
        return None if said else "it runs"

    if wait_until(runs, LONGEST_SECONDS, clock, POLL_SECONDS) is not None:
        hours = LONGEST_SECONDS / 3600
        raise HostFailedError(f"{host}: the proof has not ended after {hours:.0f} hours and was stopped")
    if said == "gone":
        raise HostFailedError(f"{host}: the proof ended without a report, as by a restart of the host: start it again")
    return int(said)


def _fetched(session: Session, host: str, proof: str, code: int, out: Path) -> dict[str, Any]:
    answer = must(session, host, "read the report", host_verb("proof_report", proof, seconds=60))
    try:
        files = files_of(answer.out)
    except ValueError as error:
        raise HostFailedError(f"{host}: the report cannot be read: {error}") from error
    for name, content in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    try:
        found: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        log = out / "proof.log"
        said = " ".join(log.read_text(encoding="utf-8", errors="replace").split())[-500:] if log.exists() else ""
        raise HostFailedError(f"{host}: the proof made no report (exit code {code}): {said}; see {log}") from error
    try:
        found["host"]["name"] = host
        gpu_report.verdict(found)
        return found if isinstance(found["ok"], bool) else {**found, "ok": False}
    except (LookupError, TypeError, AttributeError) as error:
        raise HostFailedError(f"{host}: {out / 'report.json'} is no report ({error!r})") from error
