"""The default batch of a model GPU, by arithmetic: each size of the model on each class of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from voxyard.host.limits import HEADROOM_MIB, recommend
from voxyard.host.nvml import Gpu
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.batch_size import STEPS, fitting_batch, longest_bucket
from voxyard.trainer.devices.device_ids import HostDevices
from voxyard.trainer.devices.placement import DevicePlan, choose
from voxyard.trainer.model.sizes import SIZES
from voxyard.trainer.sampler import Bucket, plan_buckets

LONGEST = Bucket(1728, 576)  # 20 s
MEMORY = (8, 16, 24, 40, 80)  # GB


def config(size: str = "tiny", *, data: dict[str, Any] | None = None, **training: Any) -> TrainConfig:
    return TrainConfig.model_validate({"model": {"size": size}, "data": data or {}, "training": training})


def fits(size: str, gb: int, *, capability: tuple[int, int] | None = (9, 0), **training: Any) -> int:
    total = gb * 1024
    most = recommend(total).batch_size
    made = fitting_batch(config(size, **training), most, total - HEADROOM_MIB, capability=capability, longest=LONGEST)
    assert made.clips <= most, "the table is the upper bound"
    assert made.clips in STEPS or made.clips == most
    assert (made.reduced == "") is (made.clips == most)
    return made.clips


@pytest.mark.parametrize(
    ("size", "batches"),
    [("tiny", [8, 12, 16, 26, 48]), ("small", [8, 12, 16, 26, 48]), ("normal", [4, 12, 16, 26, 48]),
     ("big", [1, 4, 8, 16, 32])],
)  # fmt: skip
def test_each_size_has_a_batch_that_fits_each_card(size: str, batches: list[int]) -> None:
    assert [fits(size, gb) for gb in MEMORY] == batches


@pytest.mark.parametrize("gb", MEMORY)
def test_a_batch_takes_less_than_the_card_has_by_the_sizes(gb: int) -> None:
    """By `--describe`: weights, gradients and Adam in float32, and the activations of the longest clips."""
    for size, shape in SIZES.items():
        clips = fits(size, gb, precision="float32")
        numbers = shape.activations(clips=clips, frames=1728, tokens=576, mels=80, recompute=False)
        trained = 16 * shape.parameters(symbols=100, speakers=1, mels=80)
        assert clips == 1 or 4 * numbers + trained < gb * 2**30 - HEADROOM_MIB * 2**20


def test_what_takes_more_memory_has_a_smaller_batch_and_less_a_larger_one() -> None:
    half = fits("big", 24)
    assert fits("big", 24, precision="float32") < half < fits("big", 24, recompute=True)
    assert fits("big", 24, capability=(6, 1)) == fits("big", 24, precision="float32"), "Pascal trains in float32"


def test_a_model_of_the_users_own_has_the_tables() -> None:
    own = TrainConfig.model_validate({"model": {"module": "toy:make"}})
    assert fitting_batch(own, 16, 100, capability=None).clips == 16


def test_where_the_corpus_is_not_known_clips_are_as_long_as_they_may_be() -> None:
    short, long = (config("big", data={"max_clip_seconds": seconds}) for seconds in (5, 20))
    batches = [fitting_batch(each, 16, 23000, capability=(8, 6)).clips for each in (short, long)]
    assert batches == [16, 8]


def test_the_longest_bucket_is_that_of_the_run() -> None:
    frames, tokens = np.array([100, 700, 333]), np.array([20, 101, 44])
    assert longest_bucket(700 * 256, 101, 256) == plan_buckets(frames, tokens, rows=1, most=3)[-1]


def plan(size: str, longest: Bucket | None = LONGEST, free: int = 24000, **training: Any) -> DevicePlan:
    gpu = Gpu(0, "GPU-0", "NVIDIA A10", "00000000:17:00.0", 24564, free, (8, 6))
    host = HostDevices(gpus=(gpu,), cuda_bus_ids=("0000:17:00.0",), cuda_build=True, cores=8)
    return choose(config(size, **training), host, longest)


def test_the_log_says_why_a_batch_is_smaller() -> None:
    made = plan("big")
    assert made.batch_size == 8
    (note,) = [
        each for each in made.notes if each.startswith("Batch: 8 clips in place of 16, the model big takes about")
    ]
    assert "for a clip of 1728 frames" in note
    assert not [each for each in plan("tiny").notes if each.startswith("Batch")]
    assert plan("big", batch_size=16).batch_size == 16


def test_a_batch_fits_the_limit_and_what_is_free() -> None:
    assert plan("big", enable_memory_isolation=True, model_gpu_memory=12000).batch_size < 8
    assert plan("big", free=12000).batch_size < 8
    assert plan("big", longest=Bucket(320, 104)).batch_size == 16
