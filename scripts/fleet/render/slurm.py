"""Slurm: an sbatch file a run, which stops with a checkpoint on SIGTERM and requeues itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError
from fleet.render.run import ClusterRun

SCRIPT, SETTINGS = "run.sbatch", "train.yaml"
BODY = Path("deploy/slurm/train.sh")
CPUS = 16  # threads that read clips, as many as the trainer takes on a large host
_TIME = re.compile(r"[0-9]+|[0-9]+(:[0-5][0-9]){1,2}|[0-9]+-[0-9]{1,2}(:[0-5][0-9]){0,2}")


START_SECONDS = 300  # in which a run starts and makes some steps


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """Properties of a job beside those of its run."""

    trainer: str  # image by digest, or the program voxyard on the nodes
    containers: bool  # `trainer` is an image
    time: str = "1-00:00:00"  # longest time of one start
    stop_seconds: int = 120  # before the end: SIGTERM
    nodes: int = 1


def job_of(*, program: str, image: str | None, time: str, stop_seconds: int, nodes: int = 1) -> SlurmJob:
    """Job that trains with the image, or with a `program` of the nodes. Raises FleetError."""
    if nodes < 1:
        raise FleetError(f"--nodes {nodes}: expected a number of nodes, such as 2")
    if not _TIME.fullmatch(time):
        raise FleetError(f"--time {time}: expected minutes, HH:MM:SS or DAYS-HH:MM:SS")
    if seconds_of(time) < stop_seconds + START_SECONDS:
        raise FleetError(
            f"--time {time}: expected at least {-(-(stop_seconds + START_SECONDS) // 60)} minutes: the job is told to "
            f"stop {stop_seconds} s before its end, and would requeue itself for ever without training"
        )
    if program:
        if not Path(program).is_absolute():
            raise FleetError(f"--voxyard {program}: expected an absolute path, as the nodes see it")
        return SlurmJob(program, containers=False, time=time, stop_seconds=stop_seconds, nodes=nodes)
    if image is None:
        raise FleetError(
            "the trainer's image was never pushed to a registry, from which the nodes could pull it: make images "
            'ARGS="--push REGISTRY", or name a program on the nodes with --voxyard PATH'
        )
    return SlurmJob(image, containers=True, time=time, stop_seconds=stop_seconds, nodes=nodes)


def seconds_of(time: str) -> int:
    """Seconds of a time in a form of sbatch: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    days, dash, rest = time.rpartition("-")
    parts = [int(each) for each in rest.split(":")]
    if dash or len(parts) == 3:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:
        hours, (minutes, seconds) = 0, (*parts, 0)[:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def render(run: ClusterRun, job: SlurmJob, body: str) -> Mapping[str, bytes]:
    """Files of the run by name; `body` is the script after the directives and variables.

    Raises FleetError where the settings do not fit so many nodes.
    """
    _refuse_misfit(run, job.nodes)
    parts = [*_directives(run, job), "", *_variables(run), _command(run, job), *_over_nodes(job.nodes)]
    text = "\n".join([*parts, "", body.rstrip(), ""])
    return {SCRIPT: text.encode(), SETTINGS: run.settings}


def _refuse_misfit(run: ClusterRun, nodes: int) -> None:
    training = run.loaded.config.training
    for name in ("hosts", "host_index"):
        if run.is_set(f"training.{name}"):
            raise FleetError(f"training.{name} has no effect here: the job names its nodes itself, with --nodes N")
    if nodes == 1:
        if training.strategy == "multiworker":
            raise FleetError("training.strategy multiworker is for several nodes: say with --nodes how many")
        return
    if training.strategy not in (None, "auto", "multiworker"):
        raise FleetError(
            f"training.strategy {training.strategy} cannot be used with --nodes {nodes}: leave it out, and name "
            "data.data_gpu and data.model_gpu for a split within each node"
        )
    if training.batch_size is None or training.batch_size % nodes:
        raise FleetError(
            f"training.batch_size is {training.batch_size}: over {nodes} nodes it counts the clips of all together, "
            f"and must be given and divide by {nodes}"
        )


def _over_nodes(nodes: int) -> Sequence[str]:
    """The trainer on each node of the job, which tells it all of them and its place; a port follows from the job."""
    if nodes == 1:
        return ()
    return (
        'mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")',
        'VOXYARD_TRAIN_HOSTS=$(printf "%s:$((20000 + SLURM_JOB_ID % 10000))," "${nodes[@]}")',
        "export VOXYARD_TRAIN_HOSTS=${VOXYARD_TRAIN_HOSTS%,}",
        f"train=(srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --kill-on-bad-exit=0 --cpu-bind=none",
        """  bash -c 'VOXYARD_TRAIN_HOST_INDEX=$SLURM_PROCID exec "$@"' voxyard "${train[@]}")""",
    )


def _directives(run: ClusterRun, job: SlurmJob) -> Sequence[str]:
    options = {
        "job-name": run.name,
        "nodes": str(job.nodes),
        "ntasks": str(job.nodes),
        **({"ntasks-per-node": "1"} if job.nodes > 1 else {}),
        "cpus-per-task": str(run.loaded.config.data.num_workers if run.is_set("data.num_workers") else CPUS),
        **({"gres": f"gpu:{run.gpus}"} if run.gpus else {}),
        "time": job.time,
        "signal": f"B:TERM@{job.stop_seconds}",
        "open-mode": "append",
        "output": "%x-%j.log",
    }
    return [
        "#!/bin/bash",
        f"# Training run {run.name} for Slurm; written by fab render --to slurm. Submit with",
        f"#   sbatch --chdir=DIR DIR/{SCRIPT}",
        f"# from the directory DIR that holds this file and {SETTINGS}, on a file system that all nodes share.",
        "# Checkpoints and logs are written there. Options of sbatch (--partition, --time, …) override these lines.",
        "#SBATCH --requeue",
        *(f"#SBATCH --{name}={value}" for name, value in options.items()),
    ]


def _variables(run: ClusterRun) -> Sequence[str]:
    values = {
        "VOXYARD_CONFIG_HASH": run.config,
        "VOXYARD_TRAIN_RUN": run.name,
        "VOXYARD_TRAIN_RESUME": "true",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
    if not run.is_set("data.num_workers"):  # the node may have more processors than the job
        lines.append(f'export VOXYARD_TRAIN_NUM_WORKERS="${{SLURM_CPUS_PER_TASK:-{CPUS}}}"')
    return lines


def _command(run: ClusterRun, job: SlurmJob) -> str:
    """The trainer's command line, as the shell array `train`."""
    words = ["train", "--config", SETTINGS, *run.words]
    if not job.containers:
        return f"train=({shlex.join([job.trainer, *words])})"
    binds = [f"--bind={path}:{path}:ro" for path in run.paths]
    cache = run.loaded.config.data.cache_file
    binds += [] if cache is None else [f"--bind={cache.parent}:{cache.parent}"]
    nv = ["--nv"] if run.gpus else []
    before = [
        "env",
        "--unset=PYTHONPATH",
        "--unset=PYTHONHOME",
        "apptainer",
        "exec",
        *nv,
        *binds,
    ]  # not the host's Python
    after = [f"docker://{job.trainer}", "voxyard", *words]
    return f'train=({shlex.join(before)} --bind="$PWD" --pwd="$PWD" {shlex.join(after)})'
