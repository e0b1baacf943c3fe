"""Training on GPUs as on the CPU: strategies, XLA, precisions, resumption, `--auto`, memory limits.

Each test runs twice: on GPUs, marked `gpu`, and as a stand-in on CPU devices, which shows that the test itself works.
A GPU's losses are compared with those of one CPU device in float32, from the same seed and clips.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from forked import run_forked
from runs import environment

STEPS = 6
PRECISE = 0.02  # relative, of all losses together
PARTS = 0.10  # of one loss, by TF32: an H100's pitch was 8% off after 6 steps, its sum 0.1%
HALF = 0.10  # float16 and bfloat16

Report = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Kind of device, and how many there are."""

    device: str
    count: int

    @property
    def two(self) -> tuple[object, ...]:
        """Flags for two devices: of a single GPU two parts, which are no measure of two GPUs."""
        if self.count < 1:
            pytest.skip("needs a GPU, this machine has none")
        return ("--gpu-parts", 2) if self.count < 2 else ()


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "cpu":
        return Place("cpu", 2)
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    return Place("gpu", sum(line.startswith("GPU ") for line in listed.splitlines()))


Train = Callable[..., Report]


@pytest.fixture
def train(tones: Path, tmp_path: Path) -> Train:
    """Trains the tiny model for a few steps; the report."""
    return partial(trained, tones, tmp_path / "run")


@pytest.fixture(scope="module")
def reference(tones: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, float]:
    """Losses of one CPU device in float32 without XLA."""
    folder = tmp_path_factory.mktemp("reference")
    report = trained(tones, folder, "cpu", "--strategy", "single", "--precision", "float32", "--no-xla")
    assert report["losses"]
    return dict(report["losses"])


def trained(
    tones: Path, folder: Path, device: str, *arguments: object, steps: int = STEPS, rows: int | None = 4
) -> Report:
    done = run_forked(
        "train", "--device", device, "--train-data", tones, "--model-size", "tiny", "--buckets", 1,
        "--checkpoint-dir", folder, "--max-steps", steps, "--warmup-steps", 2, "--log-every", 1,
        "--sample-text", "", "--no-tensorboard", "--num-workers", 2, "--json",
        *(() if rows is None else ("--batch-size", rows)), *arguments, environment=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def near(expected: Mapping[str, float], place: Place) -> Any:
    """A CPU's losses are the reference's; a GPU's are as near as TF32 lets them be, and their total nearer."""
    share = PRECISE if place.device == "cpu" else PARTS
    found = {name: pytest.approx(value, rel=share, abs=share * 0.1) for name, value in expected.items()}
    return found | {"total": pytest.approx(expected["total"], rel=PRECISE)}


def on(place: Place, report: Report) -> int:
    """Number of devices of the report, each of this kind."""
    assert all(f"{place.device}:" in device.lower() for device in report["devices"]), report["devices"]
    return len(report["devices"])


@pytest.mark.parametrize("xla", ["--xla", "--no-xla"])
def test_one_device_trains_as_a_cpu_does(place: Place, train, reference, xla: str) -> None:
    report = train(place.device, "--strategy", "single", "--precision", "float32", xla)
    assert on(place, report) == 1
    assert report["losses"] == near(reference, place)


def test_a_split_trains_as_one_device_does(place: Place, train, reference) -> None:
    """One device prepares, the other trains; the ring loses and repeats no batch."""
    report = train(place.device, *place.two, "--data-gpu", 0, "--model-gpu", 1, "--precision", "float32")
    assert (report["strategy"], on(place, report)) == ("split", 2)
    assert report["losses"] == near(reference, place)


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precisions_stay_near_single_precision(place: Place, train, reference, precision: str) -> None:
    """By the total: loss scaling may skip the first updates of float16, so single losses differ more."""
    report = train(place.device, "--strategy", "single", "--precision", precision)
    assert report["losses"]["total"] == pytest.approx(reference["total"], rel=HALF)


def test_mirrored_replicas_train_on_both_devices(place: Place, train, reference) -> None:
    report = train(place.device, *place.two, "--strategy", "mirrored", "--precision", "float32", rows=2)
    assert (report["strategy"], on(place, report)) == ("mirrored", 2)
    assert report["batch_rows"] == 4  # of both replicas together
    assert report["losses"] == near(reference, place)


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(place: Place, train, reference) -> None:
    first = train(place.device, "--strategy", "single", "--precision", "float32", steps=STEPS - 2)
    assert first["last_step"] == STEPS - 2
    report = train(place.device, "--strategy", "single", "--precision", "float32")
    assert (report["first_step"], report["last_step"]) == (STEPS - 2, STEPS)
    assert report["losses"] == near(reference, place)


def test_auto_takes_settings_that_train(place: Place, train, reference) -> None:
    """The settings of `--auto` for this host's GPUs start and learn; a stand-in has no such flag."""
    flags = ["--auto"] if place.device == "gpu" else ["--batch-size", 4]
    report = train(place.device, *flags, rows=None)
    assert on(place, report) >= 1
    assert set(report["losses"]) == set(reference)
    assert all(abs(loss) < 1e6 for loss in report["losses"].values())  # neither NaN nor infinite


def test_timed_strategies_end_with_the_fastest(place: Place, train) -> None:
    """`--strategy auto`: trials on these devices, then a run with the strategy that was fastest."""
    report = train(place.device, *place.two, "--strategy", "auto", "--strategy-steps", 5, "--retime")
    assert report["strategy"] in ("single", "split", "mirrored")
    assert report["last_step"] == STEPS


@pytest.mark.gpu
def test_limits_hold_on_a_real_gpu() -> None:
    """The limit that TensorFlow reports, and the memory that the driver sees the process hold."""
    done = run_forked(source=_FILL_A_LIMITED_GPU, environment=environment())
    assert done.returncode == 0, done.stderr
    limits, refused, held = json.loads(done.stdout.splitlines()[-1])
    assert limits == [1024]
    assert refused
    if held and held[0] is not None:  # in a container the driver sees other process ids
        assert 512 * 2**20 <= held[0] <= (1024 + 1024) * 2**20


_FILL_A_LIMITED_GPU = """
import json, os
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.tensorflow_setup import prepare_devices
training = {"device": "gpu", "strategy": "single", "enable_memory_isolation": True, "model_gpu_memory": 1024}
devices = prepare_devices(TrainConfig.model_validate({"training": training | {"batch_size": 1}}))
import pynvml, tensorflow as tf
with tf.device(devices.model):
    kept = tf.random.normal([128, 1024, 1024])  # 512 MiB
    try:
        tf.random.normal([512, 1024, 1024])  # 2 GiB
        refused = False
    except tf.errors.ResourceExhaustedError:
        refused = True
physical = tf.config.list_physical_devices("GPU")[0]
limits = [one.memory_limit for one in tf.config.get_logical_device_configuration(physical)]
pynvml.nvmlInit()
running = pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0))
held = [one.usedGpuMemory for one in running if one.pid == os.getpid()]
print(json.dumps([limits, refused, held]))
"""
