"""Logical GPUs of one card: what is asked of TensorFlow for them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from fake_driver import FakeDriver

sys.path.append(str(Path(__file__).parent))
from test_tensorflow_setup import (  # type: ignore[import-not-found]
    CONFIGURE,
    RECORD,
    gpu,
    only,
    run,
)

LOGICAL = """    real("CPU")
    return [one for each in visible for one in limits.get(each.name) or [each]] if kind == "GPU" else real(kind)
"""
CODE = RECORD.replace(
    """    real("CPU")
    return visible if kind == "GPU" else real(kind)
""",
    LOGICAL,
)


@pytest.mark.parametrize(
    ("more", "limits"),
    [({}, None), ({"enable_memory_isolation": True, "data_gpu_memory": 4000, "model_gpu_memory": 9000}, [4000, 9000])],
)
def test_two_parts_of_one_card_are_a_split(driver: FakeDriver, more, limits) -> None:
    assert CODE != RECORD
    config = {"data": {"data_gpu": 0, "model_gpu": 1}, "training": {"gpu_parts": 2, "device": "gpu"} | more}
    seen = run(CODE.replace("GPUS", "1"), driver.environment([driver.gpu("10:00.0")]), json.dumps(config))
    assert "error" not in seen, seen
    asked = only(seen, *CONFIGURE)
    assert [call[0] for call in asked] == ["set_visible_devices", "set_logical_device_configuration"]
    assert asked[0][1] == [[gpu(0)], "GPU"]
    card, found = asked[1][1]
    assert card == gpu(0)
    assert len(found) == 2
    assert limits is None or found == limits
    assert (seen["data"], seen["model"]) == ("/device:GPU:0", "/device:GPU:1")


def test_mirrored_trains_on_all_parts(driver: FakeDriver) -> None:
    config = {"training": {"gpu_parts": 2, "device": "gpu", "strategy": "mirrored"}}
    seen = run(CODE.replace("GPUS", "1"), driver.environment([driver.gpu("10:00.0")]), json.dumps(config))
    assert seen["replicas"] == ["/device:GPU:0", "/device:GPU:1"]


def test_without_parts_one_card_makes_no_split(driver: FakeDriver) -> None:
    config = {"data": {"data_gpu": 0, "model_gpu": 1}, "training": {"device": "gpu"}}
    seen = run(CODE.replace("GPUS", "1"), driver.environment([driver.gpu("10:00.0")]), json.dumps(config))
    assert "requires at least 2 GPUs, found 1" in seen["error"]
