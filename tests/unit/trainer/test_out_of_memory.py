"""A device without memory, in words: TensorFlow's messages as they are, and what takes less."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from voxyard import trainer
from voxyard.host.nvml import Gpu
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.tensorflow_setup import Devices
from voxyard.trainer.out_of_memory import (
    OUT_OF_MEMORY,
    Asked,
    Doing,
    OutOfMemoryError,
    is_out_of_memory,
    out_of_memory,
    told_out_of_memory,
)
from voxyard.trainer.sampler import Bucket

CARD = Gpu(3, "GPU-three", "NVIDIA A10", "00000000:17:00.0", 23028, 22000, (8, 6))
ALLOCATOR = (
    "Graph execution error:\n\nOOM when allocating tensor with shape[48,4,862,862] and type half on "
    "/job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc\n\t [[{{node mul}}]] [Op:__inference_update_7]"
)
XLA = "Out of memory while trying to allocate 512.00TiB. [Op:__inference_g_43]"
XLA_BYTES = "Out of memory while trying to allocate 3221225472 bytes."


def devices(**more: Any) -> Devices:
    facts: dict[str, Any] = {
        "kind": "gpu", "strategy": "split", "data": "/device:GPU:1", "model": "/device:GPU:0",
        "replicas": ("/device:GPU:0",), "batch_size": 48, "description": (), "limits": {"data": None, "model": 16000},
        "threads": None, "cards": (("data", CARD), ("model", CARD)),
    }  # fmt: skip
    return Devices(**facts | more)


def told(message: str, *, doing: Doing | None = None, of: Devices | None = None, **training: Any) -> OutOfMemoryError:
    config = TrainConfig.model_validate({"training": {"batch_size": 48} | training})
    return out_of_memory(message, config, of or devices(), doing or Doing("in step 12"), "No checkpoint was made.")


def test_the_allocators_message_tells_tensor_size_and_device() -> None:
    asked = Asked.of_message(ALLOCATOR)
    assert (asked.size, asked.device) == (2 * 48 * 4 * 862 * 862, "/device:GPU:1")
    assert str(asked) == "asked for 272.1 MiB: 48 × 4 × 862 × 862 half"


@pytest.mark.parametrize(("message", "size"), [(XLA, 512 * 2**40), (XLA_BYTES, 3 * 2**30)])
def test_xlas_message_tells_a_size(message: str, size: int) -> None:
    assert Asked.of_message(message) == Asked(size)


def test_a_message_of_unknown_words_is_no_error_of_its_own() -> None:
    assert str(Asked.of_message("failed to allocate memory")) == "TensorFlow does not say how much was asked for"


def test_the_role_is_that_of_the_device_that_had_no_memory() -> None:
    error = told(ALLOCATOR, doing=Doing("in step 12", Bucket(862, 180), {"/device:GPU:1": 15.5 * 2**30}))
    first = "out of memory in step 12 on the data device, GPU 3 (NVIDIA A10): asked for 272.1 MiB: "
    assert error.what.startswith(first)
    assert "at most 15.5 GiB were taken there; 23028 MiB on the card, 22000 free at the start" in error.what
    assert "48 clips on a device, bucket of 862 frames × 180 tokens" in str(error)
    assert error.exit_code == 71


def test_what_takes_less_has_this_runs_numbers_and_order() -> None:
    lines = [line.strip() for line in str(told(XLA, grad_accum=2)).splitlines()]
    flags = [line.partition("   ")[0] for line in lines if line.startswith("--")]
    assert flags == [
        "--batch-size 24 --grad-accum 4", "--prefetch-buffer-size 1", "--recompute", "--model-gpu-memory 20976",
    ]  # fmt: skip
    assert "16000 now; 22000 MiB were free on the card at the start" in lines[-2]
    assert "a limit of 16000 MiB in force; 23028 MiB on the card, 22000 free at the start" in lines[0]
    assert lines[-1] == "No checkpoint was made."


@pytest.mark.parametrize(("limit", "advised"), [(20975, True), (20976, False), (21500, False)])
def test_a_higher_limit_is_advised_where_the_card_has_room_for_it(limit: int, advised: bool) -> None:
    said = str(told(XLA, of=devices(limits={"data": None, "model": limit})))
    assert ("--model-gpu-memory 20976" in said) == advised
    assert ("-gpu-memory" in said) == advised


def test_what_is_on_or_of_no_use_is_not_advised() -> None:
    said = str(told(XLA, batch_size=1, recompute=True, of=devices(limits={"model": None}, batch_size=1)))
    assert "--recompute" not in said
    assert "--batch-size" not in said
    assert "-gpu-memory" not in said


def test_other_errors_are_none_of_memory() -> None:
    assert not is_out_of_memory(ValueError("RESOURCE_EXHAUSTED is a word"))
    assert is_out_of_memory(CodedError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"))
    assert not is_out_of_memory(CodedError("no algorithm worked"))
    with (
        pytest.raises(ValueError, match="word"),
        told_out_of_memory(TrainConfig(), devices(), lambda: Doing("x"), lambda: ""),
    ):
        raise ValueError("a word")


def test_the_guides_table_has_every_exit_code_of_the_trainer() -> None:
    room = Path(trainer.__file__).parent
    sources = "\n".join(path.read_text(encoding="utf-8") for path in sorted(room.rglob("*.py")))
    codes = set(re.findall(r"exit_code=(\d+)", sources)) | set(
        re.findall(r"(?:OUT_OF_MEMORY|HOST_LOST)\b.* = (\d+)", sources)
    )
    guide = (room / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\d+)` \|", guide, re.MULTILINE)) == codes | {"0", "2", "130"}
    assert str(OUT_OF_MEMORY) in codes


class CodedError(Exception):
    """As an error of TensorFlow's, which has a code."""

    error_code = 13
