"""The five checks on two logical CPU devices: what passes, and a fault planted for each that does not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import logical_devices  # noqa: F401 (first: it sets TensorFlow up)
import numpy as np
import pytest
import tensorflow as tf
from fake_driver import FakeDriver
from forked import run_forked
from runs import environment, write_tones
from scenario import Scenario

from voxyard.diagnose.dry_run import build_dry_run, rows_of, scratch, with_corpus
from voxyard.diagnose.validate.checks import ValidationChecks, refuses
from voxyard.diagnose.validate.result import CheckError
from voxyard.host.nvml import Gpu
from voxyard.trainer import DataConfig, ModelConfig, TelemetryConfig, TrainConfig, TrainingConfig
from voxyard.trainer.copies import to_device
from voxyard.trainer.devices.device_ids import Placement, Role
from voxyard.trainer.devices.tensorflow_setup import Devices
from voxyard.trainer.packing import Packed
from voxyard.trainer.steps.losses import StepLosses

DATA, MODEL = "/device:CPU:0", "/device:CPU:1"
DRIVER = "550.90.07"


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty tones."""
    return write_tones(tmp_path_factory.mktemp("corpus") / "tones", 40)


def devices(strategy: Placement = "split") -> Devices:
    split = strategy == "split"
    return Devices(
        kind="cpu", strategy=strategy, data=DATA if split else MODEL, model=MODEL, replicas=(MODEL,), batch_size=4,
        description=("two CPU devices",), limits={}, threads=None,
    )  # fmt: skip


def config(corpus: Path | None, **model: Any) -> TrainConfig:
    return TrainConfig(
        model=ModelConfig(**{"module": "toy:make", **model}),
        data=DataConfig(train_data=corpus, data_gpu=0, model_gpu=1, num_workers=2, model_start_delay=0.1),
        training=TrainingConfig(device="cpu", batch_size=4),
        telemetry=TelemetryConfig(tensorboard=False),
    )


@pytest.fixture
def checks(tones: Path, tmp_path: Path) -> ValidationChecks:
    """The checks with devices that are set up already: TensorFlow's are those of this test process."""
    made = ValidationChecks(config(tones), tmp_path)
    made.devices = devices()
    return made


@pytest.fixture
def built(checks: ValidationChecks) -> ValidationChecks:
    """The same, with the model built."""
    checks.run = build_dry_run(checks.config, checks.directory, devices=checks.devices)
    return checks


def test_a_model_on_its_device_gives_finite_losses(checks: ValidationChecks) -> None:
    found = checks.model()
    assert found.measured["clips"] == 4
    assert found.measured["parameters"] > 0
    assert np.isfinite(found.measured["loss"])
    assert any("on CPU:1" in line for line in found.figures)


def test_a_weight_on_another_device_fails_the_check(checks: ValidationChecks, monkeypatch: pytest.MonkeyPatch) -> None:
    import voxyard.diagnose.validate.checks as module

    def elsewhere(*arguments: Any, **named: Any) -> Any:
        run = build_dry_run(*arguments, **named)
        with tf.device(DATA):
            stray = tf.constant(1.0)
        variable = run.step.model.trainable_variables[0]
        monkeypatch.setattr(type(variable), "value", property(lambda _: stray))
        return run

    monkeypatch.setattr(module, "build_dry_run", elsewhere)
    with pytest.raises(CheckError, match=r"the weight .* lies on .*CPU:0, expected /device:CPU:1"):
        checks.model()


def test_a_forward_pass_that_is_not_finite_fails_the_check(
    checks: ValidationChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    from voxyard.trainer.step import TrainStep

    monkeypatch.setattr(TrainStep, "evaluate", lambda *_: {"total": np.array([1.0, np.nan, np.inf, 2.0])})
    with pytest.raises(CheckError, match=r"not finite: 2 of 4 clips"):
        checks.model()


def test_bytes_arrive_whole(checks: ValidationChecks) -> None:
    found = checks.transfer()
    assert "1, 4097, 16777216 bytes arrived whole" in found.figures[0]
    assert found.figures[1] == "CPU:0 → CPU:1: bandwidth not measured: no GPU"
    assert found.measured["bytes_per_second"] == {}


def test_one_wrong_byte_fails_the_transfer(checks: ValidationChecks) -> None:
    def corrupt(batch: Mapping[str, Any], device: str) -> Mapping[str, Any]:
        sent = batch["bytes"].numpy()
        if sent.size > 5000:
            sent[sent.size // 2] ^= 1
        return to_device({"bytes": sent}, device)

    with pytest.raises(CheckError, match=r"1 of 16777216 bytes arrived wrong .*SHA-256") as caught:
        checks.copied_whole(DATA, MODEL, corrupt)
    assert "topo -p2p r" in caught.value.advice


def test_a_copy_that_lies_elsewhere_fails_the_transfer(checks: ValidationChecks) -> None:
    with pytest.raises(CheckError, match=r"a copy of 1 bytes lies on .*CPU:0, expected /device:CPU:1"):
        checks.copied_whole(DATA, MODEL, lambda batch, _: to_device(batch, DATA))


def test_three_batches_walk_through_the_real_pipeline(built: ValidationChecks) -> None:
    before = [variable.numpy() for variable in built.run.step.model.trainable_variables]
    found = built.pipeline()
    assert len(found.measured["losses"]) == 3
    assert found.figures[-1] == "memory held against the limit: not measured: no GPU"
    after = [variable.numpy() for variable in built.run.step.model.trainable_variables]
    assert any(np.any(one != other) for one, other in zip(before, after, strict=True))


def test_a_loss_that_is_not_finite_fails_the_pipeline(built: ValidationChecks, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = StepLosses(("total",), tf.constant([float("nan")]))
    monkeypatch.setattr(built.run.step, "train", lambda _: losses)
    with pytest.raises(CheckError, match="the loss is not finite"):
        built.pipeline()


def test_a_batch_that_is_staged_elsewhere_fails_the_pipeline(
    built: ValidationChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = built.run.step.stage

    def elsewhere(arrays: Any) -> Packed:
        staged = stage(arrays)
        return Packed(staged.layout, to_device({"words": staged.words}, DATA)["words"])

    monkeypatch.setattr(built.run.step, "stage", elsewhere)
    with pytest.raises(CheckError, match=r"the buffer of a staged batch lies on .*CPU:0, expected /device:CPU:1"):
        built.pipeline()


def test_an_error_in_the_data_stage_fails_the_pipeline(
    built: ValidationChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Any) -> Any:
        raise RuntimeError("the data device is gone")

    monkeypatch.setattr(built.run.step, "stage", broken)
    with pytest.raises(RuntimeError, match="the data device is gone"):
        built.pipeline()


def test_a_corpus_is_generated_where_none_is_named(tmp_path: Path) -> None:
    made = with_corpus(config(None), rows_of(config(None), devices()), tmp_path)
    assert made.data.train_data == tmp_path / "corpus"
    assert with_corpus(made, 4, tmp_path) is made


def test_a_dry_run_leaves_nothing_behind(tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with scratch() as directory:
        build_dry_run(config(tones), directory, devices=devices("single"))
        assert not (directory / "none").exists()
    assert (list(tmp_path.iterdir()), directory.exists()) == ([], False)


def test_a_device_that_gives_out_what_is_asked_does_not_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refuses(MODEL, 1) is False

    def exhausted(*_: Any) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    monkeypatch.setattr(tf, "zeros", exhausted)
    assert refuses(MODEL, 1) is True


CARDS: tuple[tuple[Role, Gpu], ...] = (
    ("data", Gpu(0, "GPU-a", "NVIDIA A10", "00000000:01:00.0", 24564, 24000, (8, 6))),
    ("model", Gpu(1, "GPU-b", "NVIDIA A10", "00000000:02:00.0", 24564, 24000, (8, 6))),
)


@pytest.mark.parametrize(
    ("held_mib", "refused", "fault"),
    [
        (16500, True, None),
        (17500, True, "GPU 1 (model) holds 17500 MiB, 16384 MiB is the limit"),
        (16500, False, "more than the limit of 16384 MiB, which is therefore not in force"),
    ],
)
def test_memory_held_is_judged_after_the_batches(
    built: ValidationChecks, monkeypatch: pytest.MonkeyPatch, held_mib: int, refused: bool, fault: str | None
) -> None:
    """With the figures of cards that this machine does not have."""
    import voxyard.diagnose.validate.checks as module

    built.devices = replace(built.devices, kind="gpu", cards=CARDS, limits={"data": 8192, "model": 16384})
    built.used_before = {"GPU-a": 100, "GPU-b": 100}
    monkeypatch.setattr(module, "used_on_every_gpu", lambda: {"GPU-a": 8600, "GPU-b": 100 + held_mib})
    monkeypatch.setattr(module, "refuses", lambda device, _: refused or device == DATA)
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda _: {"peak": 700 * 2**20})
    if fault is None:
        found = built.pipeline()
        assert "GPU 1 (model, NVIDIA A10): 16500 MiB held, of which TensorFlow's allocator 700 MiB" in found.figures[-1]
        return
    with pytest.raises(CheckError) as caught:
        built.pipeline()
    assert fault in str(caught.value)
    assert "GPU 0" not in str(caught.value)
    assert any("GPU 0 (data, NVIDIA A10): 8500 MiB held" in line for line in caught.value.found.figures)


# -- with a driver that is a fake ---------------------------------------------------------------------------------

FIRST_CHECK = """
import json, sys
import tensorflow as tf
tf.test.is_built_with_cuda = lambda: True
tf.sysconfig.get_build_info = lambda: {"cuda_version": sys.argv[2]}
from pathlib import Path
from voxyard.diagnose.validate.run import checks_of, run_checks
from voxyard.trainer.config import TrainConfig
config = TrainConfig.model_validate(json.loads(sys.argv[1]))
print(json.dumps(run_checks(checks_of(config, Path("unused"))[:1]).document()["checks"][0]))
"""


@pytest.mark.parametrize(
    ("gpus", "data", "training", "cuda", "problem"),
    [
        (2, {"data_gpu": 0, "model_gpu": 1}, {}, "12.5", ""),
        (1, {"data_gpu": 0, "model_gpu": 1}, {}, "12.5", "Multi-GPU requires at least 2 GPUs, found 1"),
        (2, {"data_gpu": 0, "model_gpu": 5}, {}, "12.5", "--model-gpu 5 is not a device here"),
        (0, {"data_gpu": 0, "model_gpu": 1}, {}, "12.5", "no NVIDIA GPU was found"),
        (2, {"data_gpu": 0, "model_gpu": 1}, {}, "13.0", "is too old for CUDA 13.0, which needs 580 or newer"),
        (
            2,
            {"data_gpu": 0, "model_gpu": 1},
            {"enable_memory_isolation": True, "model_gpu_memory": 30000},
            "12.5",
            "--model-gpu-memory 30000 MiB cannot be applied",
        ),
    ],
)
def test_prerequisites_are_judged_by_what_the_driver_reports(
    driver: FakeDriver,
    gpus: int,
    data: dict[str, Any],
    training: dict[str, Any],
    cuda: str,
    problem: str,
) -> None:
    cards = [driver.gpu(f"{16 + number:02X}:00.0") for number in range(gpus)]
    host = driver.environment_of(
        Scenario([replace(card, uuid=f"GPU-{i}") for i, card in enumerate(cards)], driver_version=DRIVER)
    )
    settings = json.dumps({"data": data, "training": training})
    done = run_forked(settings, cuda, source=FIRST_CHECK, environment=host)
    assert done.returncode == 0, done.stderr[-3000:]
    check = json.loads(done.stdout.splitlines()[-1])
    assert check["passed"] == (problem == "")
    assert problem in check["problem"]
    if not problem:
        assert check["measured"]["driver"] == DRIVER
        assert "data: GPU 0 (NVIDIA GeForce RTX 4090), 24000 of 24564 MiB free, memory growth" in check["figures"]


# -- as a user calls it -------------------------------------------------------------------------------------------


def voxyard(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_forked(*arguments, environment=environment(), cwd=cwd)


TOY = ("--device", "cpu", "--model-module", "toy:make", "--batch-size", 4, "--num-workers", 2)


def test_validate_passes_on_two_cpu_devices_with_its_own_corpus(tmp_path: Path) -> None:
    done = voxyard("validate", *TOY, "--data-gpu", 0, "--model-gpu", 1, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["passed"] is True
    assert [(check["number"], check["passed"]) for check in found["checks"]] == [(n, True) for n in range(1, 6)]
    assert "not measured: no GPU" in " ".join(found["checks"][3]["figures"])
    assert list(tmp_path.iterdir()) == []


def test_validate_refuses_gpus_that_are_not_there(tmp_path: Path) -> None:
    done = voxyard("validate", "--data-gpu", 0, "--model-gpu", 0, "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 1
    assert "1. ❌ prerequisites" in done.stdout
    assert "are one device, and a split needs two" in done.stdout
    assert "5. ❌ 3 batches of the real pipeline\n     not run: check 1 did not pass" in done.stdout


def test_a_corpus_that_is_broken_fails_the_model_check(tones: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / "wavs").mkdir(parents=True)
    (broken / "metadata.csv").write_text("a|one|one\nb|two|two\n")
    done = voxyard("validate", *TOY, "--train-data", broken, "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert [check["passed"] for check in json.loads(done.stdout)["checks"]] == [True, True, False, False, False]


def test_the_checklist_is_answered_by_the_program(tones: Path, tmp_path: Path) -> None:
    arguments = ("validate", "--checklist", *TOY, "--data-gpu", 0, "--model-gpu", 1, "--json")
    done = voxyard(*arguments, "--train-data", tones, cwd=tmp_path)
    items = {item["name"]: item for item in json.loads(done.stdout)["items"]}
    assert list(items) == [
        "profiler run", "no major bottleneck", "limits match the host", "GPUs visible", "dataset path right",
        "batch size fits", "reading threads",
    ]  # fmt: skip
    for name in ("profiler run", "dataset path right", "batch size fits"):
        assert items[name]["answer"] is True, items[name]
    for name in ("limits match the host", "GPUs visible"):
        assert (items[name]["answer"], items[name]["found"]) == (None, "not measured: no GPU")
    assert done.returncode == (0 if all(item["answer"] is not False for item in items.values()) else 1)
    without = voxyard(*arguments, cwd=tmp_path)
    assert without.returncode == 1
    said = {item["name"]: item for item in json.loads(without.stdout)["items"]}
    assert said["dataset path right"]["answer"] is False
    assert said["profiler run"]["answer"] is False
