"""A host's plan beside the user's settings: it gives way where they want another kind of run, and fits a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from voxyard.settings import Loaded, load
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.device_ids import HostDevices
from voxyard.trainer.devices.host_plan import apply_host_plan
from voxyard.trainer.devices.placement import choose
from voxyard.trainer.errors import TrainerError

DATA, MODEL = "GPU-0000000a-aaaa-bbbb-cccc-000000000000", "GPU-0000000b-aaaa-bbbb-cccc-000000000000"
PLAN: dict[str, Any] = {
    "release": "0123456789ab",
    "workloads": [{"workload": "trainer", "role": "data", "gpu": DATA}],
    "data": {"data_gpu": DATA, "model_gpu": MODEL, "prefetch_buffer_size": 3},
    "training": {
        "batch_size": 16,
        "enable_memory_isolation": True,
        "data_gpu_memory": 8192,
        "model_gpu_memory": 16384,
    },
}
NO_GPUS = HostDevices(gpus=(), cuda_bus_ids=(), cuda_build=False, cores=4)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(PLAN))
    return path


def loaded(plan: Path, **flags: object) -> Loaded[TrainConfig]:
    keys = {name.replace("__", "."): value for name, value in flags.items()}
    return apply_host_plan(load(TrainConfig, flags=keys, environ={}, host_plan=plan))


def test_a_plan_that_fits_stays_as_it_is(plan: Path) -> None:
    found = loaded(plan)
    assert (found.config.data.data_gpu, found.config.data.model_gpu) == (DATA, MODEL)
    assert found.config.training.data_gpu_memory == 8192
    assert found.notes == ()


def test_on_a_cpu_the_plans_pair_means_two_logical_devices_and_the_notes_reports_it(plan: Path) -> None:
    found = loaded(plan, training__device="cpu")
    assert (found.config.data.data_gpu, found.config.data.model_gpu) == (0, 1)
    assert any(DATA in note and MODEL in note and "logical CPU devices 0 and 1" in note for note in found.notes)
    chosen = choose(found.config, NO_GPUS)
    assert chosen.strategy == "split"
    assert any("not enforceable" in note for note in chosen.notes)


def test_ids_that_the_user_typed_stay_errors_on_a_cpu(plan: Path) -> None:
    found = loaded(plan, training__device="cpu", data__data_gpu=DATA, data__model_gpu=MODEL)
    assert (found.config.data.data_gpu, found.config.data.model_gpu) == (DATA, MODEL)
    with pytest.raises(TrainerError, match="is not a device here"):
        choose(found.config, NO_GPUS)


@pytest.mark.parametrize(("typed", "planned"), [("0", 1), ("1", 0)])
def test_the_plan_takes_the_device_that_the_user_left(plan: Path, typed: str, planned: int) -> None:
    found = loaded(plan, training__device="cpu", data__model_gpu=typed)
    assert found.config.data.data_gpu == planned


def test_with_one_logical_device_the_plan_has_no_pair(plan: Path) -> None:
    found = loaded(plan, training__device="cpu", training__cpu_devices="1")
    assert (found.config.data.data_gpu, found.config.data.model_gpu) == (None, None)


@pytest.mark.parametrize("strategy", ["single", "mirrored"])
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_a_strategy_of_the_users_comes_before_the_plans_pair(plan: Path, strategy: str, device: str) -> None:
    found = loaded(plan, training__strategy=strategy, training__device=device)
    assert found.config.data.data_gpu is None
    assert found.config.training.data_gpu_memory is None
    assert found.config.training.model_gpu_memory == 16384
    assert found.config.data.model_gpu == {
        ("single", "auto"): MODEL, ("single", "cpu"): 0, ("mirrored", "auto"): None, ("mirrored", "cpu"): None,
    }[strategy, device]  # fmt: skip
    assert any(f"--strategy {strategy}" in note for note in found.notes)


def test_limits_that_the_user_turned_off_are_off(plan: Path) -> None:
    found = loaded(plan, training__enable_memory_isolation=False)
    assert found.config.training.data_gpu_memory is None
    assert found.config.training.model_gpu_memory is None
    assert found.config.data.data_gpu == DATA


def test_without_a_plan_nothing_changes(tmp_path: Path) -> None:
    plain = load(TrainConfig, flags={"training.device": "cpu", "data.model_gpu": "1"}, environ={})
    assert apply_host_plan(plain) is plain
