"""CUDA kernels of a TensorFlow build against GPUs: no run starts on a card that fails in its first product."""

from __future__ import annotations

import dataclasses

import pytest

from voxyard.host.nvml import Gpu
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.cuda_kernels import UNKNOWN_KERNELS, CudaKernels
from voxyard.trainer.devices.device_ids import HostDevices
from voxyard.trainer.devices.placement import choose
from voxyard.trainer.errors import TrainerError

PYPI = {"cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"]}  # TensorFlow 2.17 to 2.20
NVIDIA = {"cuda_compute_capabilities": ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "compute_120"]}


@pytest.mark.parametrize(
    ("version", "build", "capability", "says"),
    [
        ("2.20.0", PYPI, (8, 9), None),
        ("2.20.0", PYPI, (8, 6), None),  # the binary of 8.0
        ("2.20.0", PYPI, (9, 0), None),
        ("2.20.0", PYPI, (10, 0), None),  # compiled by the driver
        ("2.20.0", PYPI, (12, 0), "this GPU has 12.0, for which TensorFlow up to 2.20 cannot compile them"),
        ("2.17.1", PYPI, (12, 0), "cannot compile them"),
        ("2.21.0", PYPI, (12, 0), None),
        ("2.21.0", PYPI, (5, 2), "compute capability 6.0, 7.0, 8.0, 8.9, 9.0; this GPU has 5.2: take voxyard's"),
        ("2.17.0", NVIDIA, (12, 0), None),
        ("2.17.0", NVIDIA, (7, 0), "this GPU has 7.0: take"),
        ("2.21.0", {}, (12, 0), None),  # a build that does not name them
        ("2.20.0", PYPI, None, None),  # a card that does not report it
    ],
)
def test_a_card_is_judged_by_its_compute_capability_and_the_build(
    version: str, build: dict[str, list[str]], capability: tuple[int, int] | None, says: str | None
) -> None:
    fault = CudaKernels.of_build(version, build).fault(capability)
    assert (fault is None) if says is None else (fault is not None and says in fault), fault


def host(version: str, capability: tuple[int, int]) -> HostDevices:
    card = Gpu(0, "GPU-0aaa", "NVIDIA GeForce RTX 5090", "00000000:17:00.0", 32607, 32000, capability)
    kernels = CudaKernels.of_build(version, PYPI)
    return HostDevices(gpus=(card,), cuda_bus_ids=("0000:17:00.0",), cuda_build=True, cores=8, kernels=kernels)


def test_a_run_on_a_card_without_kernels_is_refused_with_the_container_that_works() -> None:
    with pytest.raises(
        TrainerError, match=r"GPU 0 \(NVIDIA GeForce RTX 5090\) cannot train .* trainer image"
    ) as refused:
        choose(TrainConfig(), host("2.20.0", (12, 0)))
    assert refused.value.exit_code == 2
    assert choose(TrainConfig(), dataclasses.replace(host("2.20.0", (12, 0)), kernels=UNKNOWN_KERNELS)).kind == "gpu"


def test_a_first_start_of_minutes_is_announced() -> None:
    assert "compiles TensorFlow's kernels" in choose(TrainConfig(), host("2.21.0", (12, 0))).notes[0]
    assert choose(TrainConfig(), host("2.21.0", (9, 0))).notes == ()
