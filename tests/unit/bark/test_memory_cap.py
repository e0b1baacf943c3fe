"""The cap on a worker's GPU memory: which one is meant, and that torch is told."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from pydantic import ValidationError

from voxyard.bark.config import BarkConfig
from voxyard.bark.errors import BarkError
from voxyard.bark.memory_cap import MIB, apply_cap, cap_mib, smallest_cap_mib, within_cap

ONE = "GPU-00000001-aaaa-bbbb-cccc-000000000000"
OTHER = "GPU-00000002-aaaa-bbbb-cccc-000000000000"


@dataclass
class Card:
    total_memory: int


@dataclass
class FakeCuda:
    """Fake of torch.cuda: a card of 24,000 MiB."""

    total_mib: int = 24_000
    fractions: list[tuple[float, int]] = field(default_factory=list)

    def get_device_properties(self, _: int) -> Card:
        return Card(self.total_mib * MIB)

    def set_per_process_memory_fraction(self, fraction: float, device: int) -> None:
        self.fractions.append((fraction, device))


@pytest.mark.parametrize(
    ("asked", "visible", "cap"),
    [
        (None, ONE, None),
        ("", ONE, None),
        ("6000", ONE, 6000),
        ("6000", "", 6000),
        (f"{ONE}=6000,{OTHER}=7000", OTHER, 7000),
        (f" {OTHER}=7000 , {ONE}=6000", f"{ONE} ", 6000),
        (f"{ONE.lower()}=6000", ONE, 6000),
        (f"{ONE}=6000,MIG-1=4000", "MIG-1", 4000),
        ("MIG-GPU-1/2/0=4000", "MIG-GPU-1/2/0", 4000),  # drivers before 470
    ],
)
def test_the_workers_own_gpu_decides_which_cap_is_meant(asked: str | None, visible: str, cap: int | None) -> None:
    assert cap_mib(asked, visible) == cap


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (f"{OTHER}=7000", f"this worker is on {ONE}: name its UUID too"),
        ("much", "gpu_memory contains 'much': expected MiB"),
        ("0", "gpu_memory contains '0'"),
        ("-5", "gpu_memory contains '-5'"),
        ("=5", "gpu_memory contains '=5'"),
        (f"6000,{ONE}=5", "which mixes a number with others"),
        ("5,7", "which mixes a number with others"),
        (f"{ONE}=5,{ONE}=6", "which names a GPU twice"),
        (f"{ONE}=5,", "gpu_memory contains ''"),
    ],
)
def test_a_cap_that_cannot_be_meant_is_refused(asked: str, said: str) -> None:
    with pytest.raises(BarkError, match=said):
        cap_mib(asked, ONE)


def test_torch_is_told_the_share_of_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ONE)
    cuda = FakeCuda()
    assert apply_cap(f"{ONE}=6000", cuda) == 6000
    assert cuda.fractions == [(0.25, 0)]


def test_without_a_cap_torch_is_left_alone() -> None:
    cuda = FakeCuda()
    assert apply_cap(None, cuda) is None
    assert cuda.fractions == []


def test_more_than_the_card_has_is_refused() -> None:
    cuda = FakeCuda()
    with pytest.raises(BarkError, match="gpu_memory is 24001 MiB, the GPU has 24000 MiB"):
        apply_cap("24001", cuda)
    assert cuda.fractions == []


def test_the_batch_must_fit_into_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ONE)
    assert within_cap(9000 * MIB, f"{ONE}=6000") == 6000 * MIB
    assert within_cap(5000 * MIB, f"{ONE}=6000") == 5000 * MIB
    assert within_cap(9000 * MIB, None) == 9000 * MIB


@pytest.mark.parametrize(
    ("asked", "smallest"), [(None, None), (" ", None), ("6000", 6000), (f"{ONE}=6000,{OTHER}=7000", 6000)]
)
def test_the_smallest_cap_of_all_gpus_is_known_to_every_worker(asked: str | None, smallest: int | None) -> None:
    assert smallest_cap_mib(asked) == smallest


def test_a_limit_that_cannot_be_read_is_found_before_a_worker_starts() -> None:
    assert BarkConfig(gpu_memory=f"{ONE}=6000,{OTHER}=5000").gpu_memory == f"{ONE}=6000,{OTHER}=5000"
    with pytest.raises(ValidationError, match="gpu_memory contains 'junk': expected MiB as a number"):
        BarkConfig(gpu_memory="junk")


def test_a_number_of_threads_that_no_process_survives_is_refused() -> None:
    with pytest.raises(ValidationError, match="less than or equal to 1024"):
        BarkConfig(threads=100_000)
