"""Checkpoints: whole or not at all, verified, pruned, and one run a directory."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from disks import run_on_small_disk
from syncs import watch_syncs

from voxyard.host import durable_files
from voxyard.trainer import checkpoint
from voxyard.trainer.checkpoint import CheckpointError

STATE: dict[str, np.ndarray] = {
    "model/w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "optimizer/iterations": np.array(7, np.int64),
}


def test_what_was_saved_is_loaded(tmp_path):
    path = checkpoint.save(tmp_path, 12, STATE, {"seed": 3}, keep=3)
    found = checkpoint.load(path)
    assert (found.step, found.meta["seed"]) == (12, 3)
    assert {name: (value.dtype, value.tolist()) for name, value in found.state.items()} == {
        name: (value.dtype, value.tolist()) for name, value in STATE.items()
    }


def test_the_newest_few_and_the_best_are_kept(tmp_path):
    """Keep N and best."""
    for step in range(1, 7):
        path = checkpoint.save(tmp_path, step, STATE, {}, keep=2)
        if step == 2:
            checkpoint.mark_best(tmp_path, path)
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [
        "step-00000002",
        "step-00000005",
        "step-00000006",
    ]
    assert checkpoint.open_any(tmp_path).step == 2


@pytest.mark.parametrize("damage", ["cut", "flip", "no state", "no meta", "empty meta", "no digest"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path, damage, caplog):
    """A checkpoint cut in half on disk is refused by name."""
    checkpoint.save(tmp_path, 1, STATE, {}, keep=3)
    newest = checkpoint.save(tmp_path, 2, STATE, {}, keep=3)
    state, meta = newest / checkpoint.STATE, newest / checkpoint.META
    if damage == "cut":
        os.truncate(state, state.stat().st_size // 2)
    elif damage == "flip":
        raw = bytearray(state.read_bytes())
        raw[-1] ^= 1
        state.write_bytes(raw)
    elif damage == "no state":
        state.unlink()
    elif damage == "no meta":
        meta.unlink()
    elif damage == "no digest":
        meta.write_text('{"format": 1}')
    else:
        meta.write_text("")
    found = checkpoint.newest_good(tmp_path)
    assert found is not None
    assert found.step == 1
    assert "step-00000002" in caplog.text
    with pytest.raises(CheckpointError, match="step-00000002"):
        checkpoint.load(newest)


@pytest.mark.parametrize("ask", [checkpoint.newest_good, checkpoint.open_any])
def test_a_run_whose_checkpoints_are_all_damaged_does_not_begin_anew(tmp_path, ask):
    for step in (1, 2):
        (checkpoint.save(tmp_path, step, STATE, {}, keep=3) / checkpoint.META).write_text("{")
    with pytest.raises(CheckpointError, match=r"none of the 2 checkpoints in .* is intact"):
        ask(tmp_path)


def test_a_full_disk_leaves_the_last_good_checkpoint_and_reports_it(tmp_path):
    """On a real full file system: a tmpfs of 256 KiB in a mount namespace of its own."""
    program = """
import sys, numpy as np
from pathlib import Path
from voxyard.trainer import checkpoint
directory = Path(sys.argv[1])
small = {"w": np.zeros(1000, np.float32)}
checkpoint.save(directory, 1, small, {}, keep=3)
try:
    checkpoint.save(directory, 2, {"w": np.zeros(200_000, np.float32)}, {}, keep=3)
except checkpoint.CheckpointError as error:
    print(error)
print(sorted(p.name for p in directory.iterdir()))
print(checkpoint.newest_good(directory).step)
"""
    done = run_on_small_disk("256k", tmp_path, program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "No space left on device" in done.stdout
    assert "make room" in done.stdout
    assert "the last good one is" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["['step-00000001']", "1"]


def test_a_failed_write_leaves_nothing_unfinished(tmp_path, monkeypatch):
    checkpoint.save(tmp_path, 1, STATE, {}, keep=3)

    def refuse(_: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durable_files, "sync", refuse)
    with pytest.raises(CheckpointError, match="Input/output error"):
        checkpoint.save(tmp_path, 2, STATE, {}, keep=3)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_two_runs_cannot_share_a_directory(tmp_path):
    with (
        checkpoint.exclusive(tmp_path),
        pytest.raises(CheckpointError, match=f"in use by another run .process {os.getpid()}"),
        checkpoint.exclusive(tmp_path),
    ):
        pass
    with checkpoint.exclusive(tmp_path):
        pass


def test_copies_that_somebody_made_beside_the_checkpoints_are_left_alone(tmp_path):
    (tmp_path / "step-9").mkdir()
    for step in (1, 2):
        path = checkpoint.save(tmp_path, step, STATE, {}, keep=1)
        path.rename(path.with_name(f"{path.name}.good"))
    checkpoint.save(tmp_path, 3, STATE, {}, keep=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-00000001.good",
        "step-00000002.good",
        "step-00000003",
        "step-9",
    ]
    assert checkpoint.newest(tmp_path) == tmp_path / "step-00000003"
    assert checkpoint.open_any(tmp_path / "step-00000001.good").step == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("file", "file: File exists): expected a directory that can be written"),
        ("file/run", "file/run: Not a directory): expected a directory"),
        ("nowhere", "nowhere: File exists): expected a directory"),
        ("n" * 256, "File name too long): expected a directory"),
        ("bytes\udcff", r"bytes\udcff' is not UTF-8: give another directory"),
    ],
)
def test_a_directory_that_a_run_cannot_have_is_named(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "nowhere").symlink_to("gone")
    with pytest.raises(CheckpointError) as caught, checkpoint.exclusive(tmp_path / name):
        pass
    assert words in str(caught.value)


def test_starting_anew_sets_the_old_checkpoints_aside(tmp_path):
    """--no-resume loses nothing."""
    for _ in range(2):
        checkpoint.mark_best(tmp_path, checkpoint.save(tmp_path, 5, STATE, {}, keep=3))
        checkpoint.set_aside(tmp_path)
    assert checkpoint.newest_good(tmp_path) is None
    assert checkpoint.open_any(tmp_path / "before-1").step == checkpoint.open_any(tmp_path / "before-2").step == 5


def test_a_directory_without_checkpoints_is_a_clear_error(tmp_path):
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        checkpoint.open_any(tmp_path)


def test_a_checkpoint_is_on_the_disk_before_and_after_its_rename(tmp_path, monkeypatch):
    """Both files and their directory are synced under the unfinished name, and its parent once the name is right."""
    synced = watch_syncs(monkeypatch)
    path = checkpoint.save(tmp_path, 7, STATE, {}, keep=1)
    unfinished = tmp_path / f".{path.name}.unfinished"
    assert {each.parent for each in synced[:2]} == {unfinished}
    assert synced[2:] == [unfinished, tmp_path]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_who_can_read_a_checkpoint_is_what_the_umask_says(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        path = checkpoint.save(tmp_path, 1, STATE, {}, keep=1)
    finally:
        os.umask(before)
    assert (path / "state.safetensors").stat().st_mode & 0o777 == mode
