"""Contents of --checkpoint-dir after a run: report and samples beside the checkpoints; and a host's plan on a CPU."""

from __future__ import annotations

import json
import signal
import subprocess
import wave
from pathlib import Path

import pytest
import yaml
from runs import command, environment

UUIDS = ("GPU-00000000-aaaa-bbbb-cccc-000000000000", "GPU-00000001-aaaa-bbbb-cccc-000000000000")


def samples(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "samples").glob("*"))


def test_a_run_leaves_its_report_and_a_sample_beside_each_checkpoint(toy, voxyard, tmp_path):
    done = voxyard(*toy, "--max-steps", 7, "--checkpoint-every", 3, "--keep-checkpoints", 2, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "run/report.json").read_text())
    assert report == json.loads(done.stdout)
    assert (tmp_path / "run/report.txt").read_text().startswith("run ")
    assert samples(tmp_path / "run") == ["step-00000006.wav", "step-00000007.wav"]
    with wave.open(str(tmp_path / "run/samples/step-00000007.wav")) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getnframes() > 0) == (22050, 1, True)


def test_a_run_at_its_end_keeps_the_report_of_the_way_there(toy, voxyard, tmp_path):
    voxyard(*toy, "--max-steps", 3)
    before = (tmp_path / "run/report.json").read_text()
    assert "Nothing to do" in voxyard(*toy, "--max-steps", 3).stderr
    assert (tmp_path / "run/report.json").read_text() == before


def test_without_a_text_there_are_no_samples(toy, voxyard, tmp_path):
    (tmp_path / "config.yaml").write_text("telemetry: {sample_text: ''}\n")
    assert voxyard(*toy, "--max-steps", 3, "--config", tmp_path / "config.yaml").returncode == 0
    assert (tmp_path / "run/step-00000003").is_dir()
    assert not (tmp_path / "run/samples").exists()


def test_a_model_that_cannot_speak_trains_all_the_same(toy, voxyard, tmp_path):
    mute = ["toy:make_mute" if argument == "toy:make" else argument for argument in toy]
    done = voxyard(*mute, "--max-steps", 3)
    assert done.returncode == 0, done.stderr
    assert "No sample at step 3: it has no voice" in done.stderr
    assert not (tmp_path / "run/samples").exists()


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, id="docker stop"),
        pytest.param(signal.SIGHUP, id="a closed terminal", marks=pytest.mark.slow),
        pytest.param(signal.SIGUSR1, id="Slurm, 90 s before the end", marks=pytest.mark.slow),
    ],
)
def test_a_signal_saves_and_reports_and_does_not_wait_for_a_sample(toy, tmp_path, number):
    asked = command(*toy, "--max-steps", 1_000_000, "--checkpoint-every", 1_000_000)
    with subprocess.Popen(
        ["env", "--default-signal=HUP", *asked],  # these tests may run under nohup
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment(),
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step "):
                break
        process.send_signal(number)
        try:
            process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0
    report = json.loads((tmp_path / "run/report.json").read_text())
    assert report["ended"].startswith(number.name)
    assert (tmp_path / f"run/step-{report['last_step']:08d}/meta.json").exists()
    assert samples(tmp_path / "run") == []


def test_a_run_goes_on_without_tensorboards_files_where_they_cannot_be_written(toy, voxyard, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/tensorboard").write_text("")
    done = voxyard(*toy, "--max-steps", 3, "--tensorboard")
    assert done.returncode == 0, done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if "TensorBoard" in line]
    assert "TensorBoard has nothing from here on: " in warning
    assert f"{tmp_path / 'run/tensorboard'} cannot be written (" in warning


@pytest.mark.parametrize("flags", [[], ["--strategy", "single"]])
def test_a_hosts_plan_holds_on_a_host_without_cuda(toy, voxyard, tmp_path, flags):
    """The plan's pair means two logical CPU devices, and the log says what cannot be enforced."""
    plan = {
        "release": "0123456789ab",
        "workloads": [{"workload": "trainer", "role": "model", "gpu": UUIDS[1]}],
        "data": {"data_gpu": UUIDS[0], "model_gpu": UUIDS[1]},
        "training": {"enable_memory_isolation": True, "data_gpu_memory": 8192, "model_gpu_memory": 16384},
    }
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    plain = [argument for argument in toy if argument not in ("--data-gpu", "--model-gpu", 0, 1)]
    done = voxyard(*plain, "--max-steps", 3, *flags, VOXYARD_HOST_PLAN=str(tmp_path / "plan.yaml"))
    assert done.returncode == 0, done.stderr
    assert "Memory limits are not enforceable on a CPU device" in done.stderr
    if flags:
        assert "With --strategy single, the host's plan has no data.data_gpu" in done.stderr
        assert "Devices: no GPU, 1 logical CPU device (strategy single)" in done.stderr
    else:
        assert f"The host's plan names {UUIDS[0]} and {UUIDS[1]}; with --device cpu they mean" in done.stderr
        assert "Devices: no GPU, 2 logical CPU devices (strategy split)" in done.stderr


def test_uuids_that_the_user_types_stay_errors_on_a_cpu(toy, voxyard):
    typed = [{0: UUIDS[0], 1: UUIDS[1]}.get(argument, argument) for argument in toy]
    done = voxyard(*typed, "--max-steps", 3)
    assert done.returncode == 2
    assert f"--data-gpu {UUIDS[0]} is not a device here" in done.stderr
