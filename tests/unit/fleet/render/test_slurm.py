"""Slurm: directives, containers by digest, and a script that requeues what was stopped, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from rendered_clusters import TRAINER, Render, image

from fleet.render.slurm import seconds_of

APPTAINER = """#!/bin/bash
echo "apptainer $*" >&2
while [[ $1 != docker://* ]]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def settings(place: Path) -> Path:
    (place / "train.yaml").write_text("data: {train_data: /shared/LJ, data_gpu: 0, model_gpu: 1}\n")
    return place / "train.yaml"


def directives(run: Path) -> dict[str, str]:
    lines = re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", (run / "run.sbatch").read_text(), re.MULTILINE)
    return dict(lines)


def test_a_run_reserves_what_its_settings_name(fab: Render, place: Path, settings: Path) -> None:
    code, said = fab("slurm", config=str(settings), time="2-12:00:00", memory="64G")
    assert code == 0, said
    assert directives(place / "out/train") == {
        "requeue": "",
        "job-name": "train",
        "nodes": "1",
        "ntasks": "1",
        "ntasks-per-node": "1",
        "cpus-per-task": "16",
        "gres": "gpu:2",
        "mem": "64G",
        "time": "2-12:00:00",
        "signal": "B:TERM@120",
        "open-mode": "append",
        "output": "%x-%j.log",
    }
    assert (place / "out/train/train.yaml").read_bytes() == settings.read_bytes()
    assert f"docker://{image('trainer').reference} voxyard train" in (place / "out/train/run.sbatch").read_text()
    assert "sbatch --chdir=DIR DIR/run.sbatch" in said


def test_a_run_on_cpus_reserves_no_gpu_and_the_settings_threads(fab: Render, place: Path, settings: Path) -> None:
    settings.write_text("data: {train_data: /shared/LJ, num_workers: 3}\ntraining: {device: cpu}\n")
    assert fab("slurm", config=str(settings), run="small")[0] == 0
    found = directives(place / "out/small")
    assert (found["cpus-per-task"], {"gres", "mem"} & set(found)) == ("3", set())
    text = (place / "out/small/run.sbatch").read_text()
    assert "--nv" not in text
    assert "VOXYARD_TRAIN_NUM_WORKERS" not in text
    assert "@{" not in text


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("90", 5400), ("7:30", 450), ("1:00:30", 3630), ("2-03", 183600), ("2-03:04", 183840), ("2-03:04:05", 183845)],
)
def test_a_time_is_read_as_sbatch_reads_it(time: str, seconds: int) -> None:
    assert seconds_of(time) == seconds


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("data: {train_data: LJ}", {}, "data.train_data is LJ: expected an absolute path"),
        ("training: {max_steps: 5}", {}, "no corpus: set data.train_data"),
        ("data: {train_data: /a}\ntraining: {strategy: mirrored}", {}, "say with --gpus how many"),
        ("data: {train_data: /a, model_gpu: 4, data_gpu: 0}", {}, "GPU 4 in the settings"),
        ("data: {train_data: /a}\ntraining: {device: cpu}", {"gpus": "1"}, "--gpus 1 has no effect"),
        ("data: {train_data: /a}", {"time": "soon"}, "--time soon: expected minutes"),
        (
            "data: {train_data: /a}",
            {"time": "5"},
            "--time 5: expected at least 7 minutes: the job is told to stop 120 s",
        ),
        ("data: {train_data: /a}", {"time": "00:05:00"}, "expected at least 7 minutes"),
        ("data: {train_data: /a}", {"time": "0-0:05"}, "expected at least 7 minutes"),
        ("data: {train_data: /a}", {"memory": "64 GB"}, "--memory 64 GB: expected a size as sbatch takes it"),
        ("data: {train_data: /a}", {"voxyard": "voxyard"}, "expected an absolute path, as the nodes see it"),
        ("data: {train_data: /a}", {"run": "My Run"}, "--run My Run: expected at most 48 lower-case letters"),
        ("data: {train_data: /a}", {"cluster": ["lab"]}, "--cluster has no effect with slurm"),
        ("data: {train_dat: /a}", {}, "did you mean data.train_data?"),
        *(
            ("data: {train_data: /a}", {option: given}, f"--{option} {given}: expected a number from 1 to 9999")
            for option in ("gpus", "nodes")
            for given in ("-1", "0", "2.5", "٣", "two", "10000")
        ),
        ("data: {train_data: /a}", {"nodes": "2"}, "training.batch_size is None: over 2 nodes"),
        ("data: {train_data: /a}\ntraining: {batch_size: 7}", {"nodes": "2"}, "training.batch_size is 7: over 2 nodes"),
        (
            "data: {train_data: /a}\ntraining: {hosts: 'a:1,b:1', host_index: 0}",
            {"nodes": "2"},
            "the job names its nodes itself",
        ),
        ("data: {train_data: /a}\ntraining: {strategy: multiworker}", {}, "say with --nodes how many"),
        (
            "data: {train_data: /a}\ntraining: {strategy: mirrored, batch_size: 8}",
            {"nodes": "2", "gpus": "2"},
            "training.strategy mirrored cannot be used with --nodes 2",
        ),
    ],
)
def test_what_cannot_run_is_said(
    fab: Render, place: Path, settings: Path, text: str, options: dict[str, object], said: str
) -> None:
    settings.write_text(text + "\n")
    code, message = fab("slurm", config=str(settings), **options)
    assert code == 2
    assert said in message
    assert not (place / "out").exists()


def test_a_trainer_that_was_never_pushed_is_named_with_both_ways_out(fab: Render, place: Path, settings: Path) -> None:
    (place / "images.json").unlink()
    code, message = fab("slurm", config=str(settings))
    assert code == 2
    assert "never pushed" in message
    assert "copy build/images.json of the machine that pushed it" in message
    assert "--voxyard PATH" in message
    assert fab("slurm")[1] == "--config FILE is missing: name the settings file of the run"


def test_settings_that_the_script_decides_are_named(fab: Render, settings: Path) -> None:
    settings.write_text(settings.read_text() + "training: {resume: false, checkpoint_dir: /x}\n")
    _, said = fab("slurm", config=str(settings))
    assert "training.resume" in said
    assert "has no effect here: a run that starts again always continues from its checkpoint" in said
    assert "training.checkpoint_dir" in said


def rendered(fab: Render, place: Path, settings: Path, *, state: str = "RUNNING") -> tuple[Path, dict[str, str]]:
    """A rendered run, and an environment with doubles of Slurm's commands; squeue reports `state`."""
    programs = place / "bin"
    programs.mkdir()
    doubles = {
        "voxyard": TRAINER,
        "squeue": f"#!/bin/bash\necho {state}\n",
        "scontrol": '#!/bin/bash\necho "scontrol $*"\n',
        "apptainer": APPTAINER,
    }
    for name, text in doubles.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    code, said = fab("slurm", config=str(settings))
    assert code == 0, said
    path = {"PATH": f"{programs}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "PYTHONPATH": "/host"}
    return place / "out/train", path


def started(run: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        ["bash", "run.sbatch"],
        cwd=run,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "trains\n"
    return process


@pytest.mark.parametrize(("state", "requeues"), [("RUNNING", True), ("COMPLETING", False)])
def test_a_stopped_run_saves_and_requeues_itself_unless_slurm_does(
    fab: Render, place: Path, settings: Path, state: str, requeues: bool
) -> None:
    run, environment = rendered(fab, place, settings, state=state)
    process = started(run, environment)
    process.terminate()
    out, _ = process.communicate(timeout=100)
    assert out.splitlines()[:2] == ["saved", f"stopped by SIGTERM, the job is {state}"]
    assert ("scontrol requeue 7" in out) == requeues
    assert process.returncode == (0 if requeues else 143)
    assert (run / "checkpoints").is_dir()


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_run_that_ends_by_itself_ends_the_job(fab: Render, place: Path, settings: Path, code: int) -> None:
    run, environment = rendered(fab, place, settings)
    (place / "bin/voxyard").write_text(f"#!/bin/bash\nexit {code}\n")
    done = subprocess.run(["bash", "run.sbatch"], cwd=run, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")


def test_a_run_that_fails_while_it_stops_is_not_requeued(fab: Render, place: Path, settings: Path) -> None:
    run, environment = rendered(fab, place, settings)
    (place / "bin/voxyard").write_text(TRAINER.replace("exit 0", "exit 1"))
    process = started(run, environment)
    process.terminate()
    out, _ = process.communicate(timeout=100)
    assert (process.returncode, out) == (1, "saved\n")


def test_the_trainers_own_answer_counts_however_fast_it_ends(fab: Render, place: Path, settings: Path) -> None:
    run, environment = rendered(fab, place, settings)
    (place / "bin/voxyard").write_text(TRAINER.replace("exit 0", "exit 1"))
    # It has ended when the script, which was told to stop, looks after it.
    slow = 'kill() { builtin kill "$@"; local code=$?; [ "$1" != -TERM ] || sleep 0.5; return $code; }\n'
    (place / "slow.sh").write_text(slow)
    process = started(run, environment | {"BASH_ENV": str(place / "slow.sh")})
    process.terminate()
    out, _ = process.communicate(timeout=100)
    assert (process.returncode, out) == (1, "saved\n")


def test_the_container_sees_the_corpus_and_not_the_nodes_python(fab: Render, place: Path, settings: Path) -> None:
    run, environment = rendered(fab, place, settings)
    (place / "bin/voxyard").write_text('#!/bin/bash\necho "$* ${PYTHONPATH-none} $VOXYARD_TRAIN_CHECKPOINT_DIR"\n')
    done = subprocess.run(["bash", "run.sbatch"], cwd=run, env=environment, capture_output=True, text=True)
    assert done.stdout == f"train --config train.yaml none {run}/checkpoints\n"
    assert f"apptainer exec --nv --bind=/shared/LJ:/shared/LJ:ro --bind={run} --pwd={run} docker://" in done.stderr


def test_a_job_in_another_directory_says_how_it_is_submitted(fab: Render, place: Path, settings: Path) -> None:
    run, environment = rendered(fab, place, settings)
    done = subprocess.run(
        ["bash", run / "run.sbatch"], cwd=place / "bin", env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no train.yaml in" in done.stderr


def test_checkpoints_stay_when_a_run_is_rendered_again(fab: Render, place: Path, settings: Path) -> None:
    assert fab("slurm", config=str(settings))[0] == 0
    kept = place / "out/train/checkpoints/step-1"
    kept.mkdir(parents=True)
    settings.write_text(yaml.safe_dump({"data": {"train_data": "/shared/other"}}))
    assert fab("slurm", config=str(settings))[0] == 0
    assert kept.is_dir()
    assert "/shared/other" in (place / "out/train/run.sbatch").read_text()


SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
for SLURM_PROCID in 0 1; do SLURM_PROCID=$SLURM_PROCID "$@"; code=$?; done
exit $code
"""


def over_nodes(fab: Render, place: Path, settings: Path, trainer: str) -> tuple[Path, dict[str, str]]:
    """A rendered run over two nodes whose trainer is this script."""
    settings.write_text(settings.read_text() + "training: {batch_size: 8}\n")
    programs = place / "bin"
    programs.mkdir()
    doubles = {
        "voxyard": trainer, "squeue": "#!/bin/bash\necho RUNNING\n", "apptainer": APPTAINER, "srun": SRUN,
        "scontrol": '#!/bin/bash\nif [ "$2" = hostnames ]; then printf "n1\\nn2\\n"; else echo "scontrol $*"; fi\n',
    }  # fmt: skip
    for name, text in doubles.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    code, said = fab("slurm", config=str(settings), nodes="2")
    assert code == 0, said
    of_slurm = {"SLURM_JOB_ID": "12345", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "n[1-2]"}
    return place / "out/train", {"PATH": f"{programs}:/usr/bin:/bin", **of_slurm}


def test_over_nodes_each_trainer_knows_all_of_them_and_its_place(fab: Render, place: Path, settings: Path) -> None:
    """Slurm's own variables."""
    trainer = '#!/bin/bash\necho "$1 $VOXYARD_TRAIN_HOSTS $VOXYARD_TRAIN_HOST_INDEX"\n'
    run, environment = over_nodes(fab, place, settings, trainer)
    found = directives(run)
    assert (found["nodes"], found["ntasks"], found["ntasks-per-node"]) == ("2", "2", "1")
    done = subprocess.run(["bash", "run.sbatch"], cwd=run, env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["train n1:22345,n2:22345 0", "train n1:22345,n2:22345 1"], done.stderr


@pytest.mark.parametrize(("trained", "requeues"), [("0", True), ("300", False)])
def test_a_job_that_lost_a_node_is_requeued_unless_it_did_at_once(
    fab: Render, place: Path, settings: Path, trained: str, requeues: bool
) -> None:
    run, environment = over_nodes(fab, place, settings, "#!/bin/bash\nexit 75\n")
    done = subprocess.run(
        ["bash", "run.sbatch"], cwd=run, env=environment | {"VOXYARD_REQUEUE_AFTER": trained}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert ("scontrol requeue 12345" in done.stdout) == requeues
    assert done.returncode == (0 if requeues else 75)
