"""Rendered runs on a real Slurm: a run that is preempted, or near its time limit, continues at its step."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml
from eventually import PATIENCE, eventually
from runs import environment, write_tones
from slurm_cluster import SlurmCluster, started

from tasks.render import render
from voxyard.trainer import checkpoint

patiently = partial(eventually, seconds=2 * PATIENCE, every=0.2)

pytestmark = [pytest.mark.needs("slurmctld", "slurmd", "munged"), pytest.mark.timeout(600)]
VOXYARD = Path(sys.executable).with_name("voxyard")
STEPS = 150


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    try:
        with started(folder) as found:
            slow = {"PYTHONPATH": environment()["PYTHONPATH"], "SLOW_TRAIN": "0.2"}
            yield replace(found, environment=found.environment | slow)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tones(tmp_path_factory.mktemp("corpus") / "tones", 24)


def rendered(folder: Path, tones: Path, name: str) -> Path:
    """Directory of a rendered run of half a minute; its only checkpoints are those of a stop and of its end."""
    settings = {
        "model": {"module": "slow_stages:make"},
        "data": {"train_data": str(tones), "num_workers": 1, "model_start_delay": 0.2},
        "training": {"device": "cpu", "batch_size": 2, "max_steps": STEPS, "cpu_devices": 1},
        "telemetry": {"tensorboard": False, "sample_text": "", "log_every": 1},
    }
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(settings))
    render.body(None, to="slurm", out=str(folder / "out"), config=str(file), voxyard=str(VOXYARD), time="10")
    return folder / "out" / name


def log_of(run: Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in sorted(run.glob("*.log")))


def step_of(run: Path) -> int | None:
    found = checkpoint.newest(run / "checkpoints")
    return None if found is None else int(found.name.removeprefix("step-"))


def logged_step(run: Path) -> int:
    """The last step in the log, which has not every one."""
    return max((int(step) for step in re.findall(rf"step (\d+)/{STEPS}", log_of(run))), default=0)


def submitted(cluster: SlurmCluster, run: Path, *options: str) -> str:
    job = cluster.submit(f"--chdir={run}", *options, run / "run.sbatch")
    patiently(lambda: logged_step(run) > 1, lambda: f"{log_of(run)}\n{cluster.run('squeue')}\n{cluster.logs()}")
    return job


def resumed_at(cluster: SlurmCluster, run: Path, job: str, restarts: int) -> int:
    """Step at which the start after so many restarts continues, once it trains."""

    def starts() -> list[str]:
        return re.findall(r"Resuming from \S+ at step (\d+)", log_of(run))

    patiently(lambda: len(starts()) == restarts, lambda: f"{log_of(run)}\n{cluster.run('squeue')}")
    assert f"Restarts={restarts}" in cluster.run("scontrol", "show", "job", job)
    return int(starts()[-1])


def test_a_preempted_run_resumes_at_its_step(cluster: SlurmCluster, tmp_path: Path, tones: Path) -> None:
    run = rendered(tmp_path, tones, "preempted")
    job = submitted(cluster, run, "--nodelist=n1", "--gres=gpu:2", "--partition=low")
    assert step_of(run) is None
    urgent = cluster.submit("--nodelist=n1", "--gres=gpu:2", "--partition=high", "--output=/dev/null", "--wrap=true")
    patiently(lambda: cluster.state(urgent) == "COMPLETED", lambda: cluster.run("squeue"))
    stopped_at = step_of(run) or 0
    assert 0 < stopped_at < STEPS
    assert resumed_at(cluster, run, job, 1) == stopped_at
    patiently(lambda: cluster.state(job) == "COMPLETED", lambda: f"{log_of(run)}\n{cluster.run('squeue')}")
    report = json.loads((run / "checkpoints/report.json").read_text())
    assert (report["first_step"], report["last_step"], step_of(run)) == (stopped_at, STEPS, STEPS)


@pytest.mark.long
def test_a_run_near_its_time_limit_requeues_itself_and_a_cancelled_one_does_not(
    cluster: SlurmCluster, tmp_path: Path, tones: Path
) -> None:
    run = rendered(tmp_path, tones, "limited")
    job = submitted(cluster, run, "--nodelist=n2")
    cluster.run("scancel", "--batch", "--signal=TERM", job)  # as --signal=B:TERM does before the limit
    stopped_at = resumed_at(cluster, run, job, 1)
    assert 0 < stopped_at < STEPS
    assert "stopped by SIGTERM, the job is RUNNING" in log_of(run)
    patiently(lambda: logged_step(run) > stopped_at, lambda: log_of(run))
    cluster.run("scancel", job)
    patiently(lambda: (step_of(run) or 0) > stopped_at, lambda: log_of(run))
    patiently(lambda: cluster.state(job) == "CANCELLED", lambda: cluster.run("squeue"))
    assert "Restarts=1" in cluster.run("scontrol", "show", "job", job)


TOLD = """#!/bin/bash
echo "told $VOXYARD_TRAIN_HOST_INDEX on $SLURMD_NODENAME with $SLURM_CPUS_ON_NODE of $VOXYARD_TRAIN_HOSTS"
"""


def test_each_node_of_a_job_has_a_trainer_that_is_told_all_of_them(cluster: SlurmCluster, tmp_path: Path) -> None:
    trainer = tmp_path / "voxyard"
    trainer.write_text(TOLD)
    trainer.chmod(0o755)
    settings = tmp_path / "wide.yaml"
    settings.write_text(
        "data: {train_data: /shared/LJ, num_workers: 2}\ntraining: {device: cpu, batch_size: 2, max_steps: 1}\n"
    )
    options = {"config": str(settings), "voxyard": str(trainer), "time": "10", "nodes": "2"}
    render.body(None, to="slurm", out=str(tmp_path / "out"), **options)
    run = tmp_path / "out/wide"
    job = cluster.submit(f"--chdir={run}", run / "run.sbatch")
    patiently(lambda: cluster.state(job) in ("COMPLETED", "FAILED"), lambda: f"{log_of(run)}\n{cluster.logs()}")
    port = 20000 + int(job) % 10000
    hosts = f"n1:{port},n2:{port}"
    found = sorted(line for line in log_of(run).splitlines() if line.startswith("told"))
    assert found == [f"told 0 on n1 with 2 of {hosts}", f"told 1 on n2 with 2 of {hosts}"], log_of(run)
