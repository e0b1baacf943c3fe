"""The compilation cache, as TensorFlow is told of it by its environment."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from voxyard.host.nvml import Gpu
from voxyard.trainer.autotune.cache import path as strategies
from voxyard.trainer.devices.compilation_cache import (
    CompilationCache,
    leave_trials_out,
    use_compilation_cache,
    user_cache,
)  # fmt: skip
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
    cache = use_compilation_cache(plan(), tmp_path / "xla", environment, library=library, version="2.21.0")
    assert cache is not None
    assert cache.folder == tmp_path / "xla" / "2.21.0-sm86"
    assert cache.link.resolve() == cache.folder
    assert cache.folder.is_dir()
    assert environment == {
        "TF_XLA_FLAGS": f"--tf_xla_persistent_cache_directory={cache.link}",
        "XLA_FLAGS": f"--xla_gpu_per_fusion_autotune_cache_dir={cache.link}",
    }


def test_all_runs_of_a_user_have_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the timed strategies, which XDG_CACHE_HOME moves too."""
    for variables in ({}, {"XDG_CACHE_HOME": "/elsewhere"}):
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert user_cache(variables) == strategies().parent / "xla"


def test_code_of_other_flags_of_xla_is_not_taken(tmp_path: Path, library: Path) -> None:
    """TensorFlow finds code by its name and instructions, whatever flags it was compiled with."""
    folders = set()
    for flags in ("", "--xla_gpu_autotune_level=0", "--xla_gpu_autotune_level=4"):
        cache = use_compilation_cache(plan(), tmp_path, {"XLA_FLAGS": flags}, library=library, version="2.21.0")
        assert cache is not None
        folders.add(cache.folder)
    assert len(folders) == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "--xla_gpu_autotune_level=0"),
        ("--xla_dump_to=/dump", "--xla_dump_to=/dump --xla_gpu_autotune_level=0"),
        ("--xla_gpu_autotune_level=4", "--xla_gpu_autotune_level=4"),
    ],
)
def test_ways_of_a_product_are_not_tried_unless_the_user_asks(before: str, after: str) -> None:
    environment = {"XLA_FLAGS": before}
    leave_trials_out(environment)
    assert environment == {"XLA_FLAGS": after}


def test_a_users_cache_is_kept(tmp_path: Path, library: Path) -> None:
    environment = {"TF_XLA_FLAGS": "--tf_xla_persistent_cache_directory=/mine"}
    assert use_compilation_cache(plan(), tmp_path, environment, library=library, version="2.21.0") is None
    assert environment == {"TF_XLA_FLAGS": "--tf_xla_persistent_cache_directory=/mine"}


def test_other_flags_of_the_user_are_kept(tmp_path: Path, library: Path) -> None:
    environment = {"XLA_FLAGS": "--xla_dump_to=/dump"}
    cache = use_compilation_cache(plan(), tmp_path, environment, library=library, version="2.21.0")
    assert cache is not None
    assert environment["XLA_FLAGS"] == f"--xla_dump_to=/dump --xla_gpu_per_fusion_autotune_cache_dir={cache.link}"


def test_a_flag_that_this_tensorflow_does_not_know_is_left_out(tmp_path: Path, library: Path) -> None:
    """An unknown flag would end the process."""
    library.write_bytes(BOTH.replace(b"xla_gpu_per_fusion_autotune_cache_dir", b"x"))
    environment: dict[str, str] = {}
    use_compilation_cache(plan(), tmp_path, environment, library=library, version="2.17.0")
    assert list(environment) == ["TF_XLA_FLAGS"]


def test_a_folder_with_spaces_has_a_link_without(tmp_path: Path, library: Path) -> None:
    """XLA's flags take no path with spaces."""
    environment: dict[str, str] = {}
    cache = use_compilation_cache(plan(), tmp_path / "my runs", environment, library=library, version="2")
    assert cache is not None
    assert cache.folder.parent == tmp_path / "my runs"
    assert " " not in environment["TF_XLA_FLAGS"]


def test_without_the_library_there_is_no_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    environment: dict[str, str] = {}
    assert use_compilation_cache(plan(), tmp_path, environment, library=tmp_path / "none.so", version="2") is None
    assert "none.so" in caplog.text
    assert not environment


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, library: Path, caplog: pytest.LogCaptureFixture) -> None:
    environment: dict[str, str] = {}
    assert use_compilation_cache(plan(), library / "xla", environment, library=library, version="2") is None
    assert f"{library / 'xla' / '2-sm86'} cannot be written (Not a directory)" in caplog.text
    assert not environment


def test_cpus_have_a_folder_by_their_processor(tmp_path: Path, library: Path) -> None:
    """Code for one may be illegal on another, and homes are shared."""
    environment: dict[str, str] = {}
    cache = use_compilation_cache(plan("cpu"), tmp_path, environment, library=library, version="2.21.0")
    assert cache is not None
    assert re.fullmatch(r"2\.21\.0-cpu-[0-9a-f]{8}", cache.folder.name)
    assert list(environment) == ["TF_XLA_FLAGS"]


def test_a_cache_that_is_left_is_an_empty_folder_and_its_own_entries_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = CompilationCache(tmp_path / "xla")
    (cache.folder / "entry.pb").write_bytes(b"damaged")
    cache.leave()
    cache.leave()
    assert list(cache.link.iterdir()) == []
    cache.blame(ValueError("Read less bytes\nthan requested"))
    cache.blame(ValueError("another thread's"))
    assert list(cache.folder.iterdir()) == []
    assert len(caplog.messages) == 1
    assert f"in {cache.folder} could not be used (Read less bytes): 1 of its files are removed" in caplog.text
