"""The compilation cache, as TensorFlow is told of it by its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from voxyard.host import Gpu
from voxyard.trainer.devices.compilation_cache import use_compilation_cache
from voxyard.trainer.devices.placement import Assigned, DevicePlan

BOTH = b"\0tf_xla_persistent_cache_directory\0xla_gpu_per_fusion_autotune_cache_dir\0"


def plan(kind: str = "gpu") -> DevicePlan:
    cards = [Gpu(n, f"GPU-{n}", "NVIDIA A10", f"00000000:0{n}:00.0", 24564, 24000, (8, 6)) for n in (1, 2)]
    assigned = (Assigned("data", 0, 0, cards[0]), Assigned("model", 1, 1, cards[1]))
    return DevicePlan(kind=kind, strategy="split", assigned=assigned, batch_size=8)  # type: ignore[arg-type]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "libtensorflow_cc.so.2"
    path.write_bytes(BOTH)
    return path


def test_a_run_on_gpus_names_a_folder_of_its_own_to_both_compilers(tmp_path: Path, library: Path) -> None:
    environment: dict[str, str] = {}
    folder = use_compilation_cache(plan(), tmp_path / "run", environment, library=library, version="2.21.0")
    assert folder == tmp_path / "run" / "xla" / "2.21.0-sm86"
    assert folder.is_dir()
    assert environment == {
        "TF_XLA_FLAGS": f"--tf_xla_persistent_cache_directory={folder}",
        "XLA_FLAGS": f"--xla_gpu_per_fusion_autotune_cache_dir={folder}",
    }


def test_what_the_user_has_set_is_kept(tmp_path: Path, library: Path) -> None:
    environment = {"TF_XLA_FLAGS": "--tf_xla_persistent_cache_directory=/mine", "XLA_FLAGS": "--xla_dump_to=/dump"}
    folder = use_compilation_cache(plan(), tmp_path, environment, library=library, version="2.21.0")
    assert environment["TF_XLA_FLAGS"] == "--tf_xla_persistent_cache_directory=/mine"
    assert environment["XLA_FLAGS"] == f"--xla_dump_to=/dump --xla_gpu_per_fusion_autotune_cache_dir={folder}"


def test_a_flag_that_this_tensorflow_does_not_know_is_left_out(tmp_path: Path, library: Path) -> None:
    """An unknown flag would end the process."""
    library.write_bytes(BOTH.replace(b"xla_gpu_per_fusion_autotune_cache_dir", b"x"))
    environment: dict[str, str] = {}
    use_compilation_cache(plan(), tmp_path, environment, library=library, version="2.17.0")
    assert list(environment) == ["TF_XLA_FLAGS"]


def test_a_path_with_spaces_is_said_to_have_no_cache(
    tmp_path: Path, library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environment: dict[str, str] = {}
    assert use_compilation_cache(plan(), tmp_path / "my run", environment, library=library, version="2") is None
    assert "take no path with spaces" in caplog.text
    assert not environment


def test_without_the_library_there_is_no_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    environment: dict[str, str] = {}
    assert use_compilation_cache(plan(), tmp_path, environment, library=tmp_path / "none.so", version="2") is None
    assert "none.so" in caplog.text
    assert not environment


def test_a_run_on_cpus_has_none(tmp_path: Path, library: Path) -> None:
    environment: dict[str, str] = {}
    assert use_compilation_cache(plan("cpu"), tmp_path, environment, library=library, version="2.21.0") is None
    assert (environment, list(tmp_path.glob("xla"))) == ({}, [])
