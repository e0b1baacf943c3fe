"""Slurm: an sbatch file a run, which stops with a checkpoint on SIGTERM and requeues itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import FleetError
from fleet.render.run import ClusterRun

SCRIPT, SETTINGS = "run.sbatch", "train.yaml"
TEMPLATE = Path("deploy/slurm/run.sbatch")
CPUS = 16  # threads that read clips, as many as the trainer takes on a large host
_PLACE = re.compile(r"@\{([a-z_]+)\}")
_MEMORY = re.compile(r"[1-9][0-9]*[KMGT]?")
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
    memory: str | None = None  # of each node; None: what the partition gives


def job_of(
    *, program: str, image: str | None, time: str, stop_seconds: int, nodes: int = 1, memory: str = ""
) -> SlurmJob:
    """Job that trains with the image, or with a `program` of the nodes. Raises FleetError."""
    if memory and not _MEMORY.fullmatch(memory):
        raise FleetError(f"--memory {memory}: expected a size as sbatch takes it, such as 64G")
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
        return SlurmJob(program, False, time, stop_seconds, nodes, memory or None)
    if image is None:
        raise FleetError(
            "the trainer's image was never pushed to a registry, from which the nodes could pull it: make images "
            'ARGS="--push REGISTRY", or copy build/images.json of the machine that pushed it, or name a program on the '
            "nodes with --voxyard PATH"
        )
    return SlurmJob(image, True, time, stop_seconds, nodes, memory or None)


def seconds_of(time: str) -> int:
    """Seconds of a time in a form of sbatch: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    days, dash, rest = time.rpartition("-")
    parts = [int(each) for each in rest.split(":")]
    if dash or len(parts) == 3:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:
        hours, (minutes, seconds) = 0, (*parts, 0)[:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def render(run: ClusterRun, job: SlurmJob, template: str) -> Mapping[str, bytes]:
    """Files of the run by name: the template with values in the place of @{name}, without lines whose value is None.

    Raises FleetError where the settings do not fit so many nodes.
    """
    _refuse_misfit(run, job.nodes)
    given = run.is_set("data.num_workers")
    values = {
        "run": run.name,
        "config": run.config,
        "nodes": job.nodes,
        "cpus": run.loaded.config.data.num_workers if given else CPUS,
        "threads": None if given else CPUS,
        "gpus": run.gpus or None,
        "memory": job.memory,
        "time": job.time,
        "stop_seconds": job.stop_seconds,
        "command": _command(run, job),
    }
    lines = (line for line in template.splitlines() if all(values[name] is not None for name in _PLACE.findall(line)))
    text = "".join(_PLACE.sub(lambda found: str(values[found[1]]), line) + "\n" for line in lines)
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


def _command(run: ClusterRun, job: SlurmJob) -> str:
    """The trainer's command line, as words of a shell array."""
    words = ["train", "--config", SETTINGS, *run.words]
    if not job.containers:
        return shlex.join([job.trainer, *words])
    binds = [f"--bind={path}:{path}:ro" for path in run.paths]
    cache = run.loaded.config.data.cache_file
    binds += [] if cache is None else [f"--bind={cache.parent}:{cache.parent}"]
    nv = ["--nv"] if run.gpus else []
    python = ["--unset=PYTHONPATH", "--unset=PYTHONHOME"]  # not the host's
    before = ["env", *python, "apptainer", "exec", *nv, *binds]
    after = [f"docker://{job.trainer}", "voxyard", *words]
    return f'{shlex.join(before)} --bind="$PWD" --pwd="$PWD" {shlex.join(after)}'
