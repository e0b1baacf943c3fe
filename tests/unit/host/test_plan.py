"""Host plan of a trainer: pair, limits and their reasons together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cards import card, nvidia_smi

from voxyard.host.errors import HostError
from voxyard.host.nvml import Gpu
from voxyard.host.plan import Links, plan_trainer, read_links
from voxyard.host.topology import parse

MATRIX = "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tSYS\tNV4\nGPU1\tSYS\tX\tSYS\nGPU2\tNV4\tSYS\tX\n"
P2P = MATRIX.replace("SYS", "NS").replace("NV4", "OK")
LINKS = Links(parse(MATRIX))


THREE = (card(0), card(1), card(2))


def test_the_best_pair_gets_its_limits() -> None:
    plan = plan_trainer(THREE, LINKS)
    assert plan.limits.data is not None
    assert (plan.limits.data.index, plan.limits.model.index, plan.link) == (0, 2, "NV4")
    assert (plan.limits.data.limit_mib, plan.limits.model.limit_mib) == (8192, 16384)
    assert "best link of 3 pairs, NV4" in plan.reason
    assert plan.warnings == ()


def test_a_pair_that_is_given_is_kept_and_a_better_one_is_named() -> None:
    plan = plan_trainer(THREE, LINKS, data_gpu=1, model_gpu="gpu-0")
    assert plan.limits.data is not None
    assert (plan.limits.data.index, plan.limits.model.index, plan.link) == (1, 0, "SYS")
    assert plan.warnings[0].endswith("GPU0 and GPU2 are a better pair, with NV4")


def test_a_pair_that_is_given_takes_what_is_free() -> None:
    """Never above it."""
    plan = plan_trainer((card(0, free=5000), card(1)), Links(), data_gpu=0, model_gpu=1)
    assert plan.limits.data is not None
    assert (plan.limits.data.limit_mib, plan.link) == (5000 - 1024, "unknown")


def test_one_gpu_that_is_given_is_paired_with_the_best_other() -> None:
    plan = plan_trainer(THREE, LINKS, model_gpu=0)
    assert plan.limits.data is not None
    assert (plan.limits.data.index, plan.limits.model.index) == (2, 0)


def test_where_no_pair_exists_one_gpu_trains_and_the_reason_is_reported() -> None:
    alone = plan_trainer((card(0),), Links())
    assert alone.limits.data is None
    assert (alone.link, alone.reason) == (None, "GPU0 trains alone: a pair needs two GPUs, and this host has one")
    busy = plan_trainer((card(0, free=2000), card(1)), Links())
    assert (busy.limits.data, busy.limits.model.index) == (None, 1)
    assert "GPU0 (2000 of 24564 MiB are free where the data GPU needs 9216)" in busy.reason


def test_single_mode_can_be_asked_for() -> None:
    assert plan_trainer(THREE, LINKS, single=True).limits.data is None
    assert plan_trainer(THREE, LINKS, single=True, model_gpu="1").limits.model.index == 1


def test_bark_is_left_room_by_pair_and_limits() -> None:
    """A card without room for a worker beside the trainer is in no pair."""
    gpus = (card(0), card(1), card(2, free=18000))
    assert plan_trainer(gpus, LINKS).link == "NV4"
    plan = plan_trainer(gpus, LINKS, shared_with_bark_mib=3072)
    assert plan.limits.data is not None
    assert (plan.limits.data.index, plan.limits.model.index) == (2, 0)
    assert plan.limits.model.bark_mib == 3072


@pytest.mark.parametrize(
    ("gpus", "asked", "says"),
    [
        ((), {}, "no NVIDIA GPU was found"),
        ((card(0, mig=True), card(1, problem="GPU is lost")), {}, "no GPU of this host can train: GPU0 (MIG is on"),
        (THREE, {"data_gpu": 1, "model_gpu": 1}, "GPU 1 is given as data GPU and as model GPU"),
        (THREE, {"data_gpu": 1, "model_gpu": "gpu-1"}, "GPU 1 is given as data GPU and as model GPU"),
        (THREE, {"data_gpu": 0, "model_gpu": 7}, "GPU 7 is not on this host"),
        (THREE, {"model_gpu": "GPU-none"}, "GPU GPU-none is not on this host"),
        ((card(0), card(1, mig=True)), {"data_gpu": 0, "model_gpu": 1}, "GPU 1 cannot train: MIG is on"),
        ((card(0), card(1, mig=True)), {"model_gpu": 1}, "GPU1 (MIG is on"),
        ((card(0),), {"model_gpu": 0}, "a pair needs two GPUs, and this host has one"),
        ((card(0, mig=True), card(1)), {"single": True, "model_gpu": 0}, "GPU 0 cannot train: MIG is on"),
    ],
)
def test_what_cannot_train_is_refused_and_never_exchanged(
    gpus: tuple[Gpu, ...], asked: dict[str, Any], says: str
) -> None:
    with pytest.raises(HostError) as caught:
        plan_trainer(gpus, LINKS, **asked)
    assert says in str(caught.value)
    assert caught.value.exit_code == 2


# -- reading -------------------------------------------------------------------------------------------------


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_links_and_peer_access_are_read_from_nvidia_smi(programs: Path) -> None:
    nvidia_smi(programs, matrix=MATRIX, p2p=P2P)
    links = read_links()
    assert links.topology == LINKS.topology
    assert links.p2p is not None
    assert (links.p2p.ok(0, 2), links.p2p.ok(0, 1), links.notes) == (True, False, ())


def test_links_that_cannot_be_read_are_reported_not_to_be_used(programs: Path) -> None:
    nvidia_smi(programs, matrix="", p2p="")
    links = read_links()
    assert (links.topology, links.p2p) == (None, None)
    assert links.notes == (
        "the links between the GPUs were not used: `nvidia-smi topo -m` failed and said: No devices were found",
    )


def test_peer_access_that_cannot_be_read_is_a_note(programs: Path) -> None:
    nvidia_smi(programs, matrix=MATRIX, p2p="")
    links = read_links()
    assert links.topology is not None
    assert links.p2p is None
    assert "peer access between the GPUs is not known" in links.notes[0]
