"""The cache of compiled code on real XLA: found again, damaged, unwritable, shared by two processes at once."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from forked import run_forked
from runs import command, environment
from tensorflow.python.framework import ops

from voxyard.trainer import checkpoint
from voxyard.trainer.steps.stable_names import stable_names

COMPILES_LATER = """
from voxyard.cli import main
from voxyard.trainer.loop import Run
Run._compile = lambda run: None
main()
"""


@pytest.fixture
def cached(toy, voxyard, tmp_path: Path):
    """Trains the toy model with XLA and a cache; its messages."""

    def train(run: str = "one", *more: object, cache: Path | None = None) -> str:
        where = cache or tmp_path / "xla"
        flags = ["--xla", "--xla-cache", where, "--checkpoint-dir", tmp_path / run, "--max-steps", 4, "--buckets", 2]
        done = voxyard(*toy, *flags, "--sample-text", "", "--checkpoint-every", 2, *more)
        assert done.returncode == 0, done.stderr
        return str(done.stderr)

    return train


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.pb"))


def test_a_second_run_compiles_nothing_again(cached, tmp_path: Path) -> None:
    """Whatever its directory, and whatever was traced before: the second one validates first."""
    cached()
    made = entries(tmp_path / "xla")
    assert len(made) >= 4, "features and update of two buckets"
    written = [each.stat().st_mtime_ns for each in made]
    cached("two", "--validate-every", 1)
    assert entries(tmp_path / "xla") == made
    assert [each.stat().st_mtime_ns for each in made] == written


@pytest.mark.parametrize("size", [pytest.param(0, marks=pytest.mark.long), 1000])
def test_damaged_files_are_told_removed_and_compiled_anew(cached, tmp_path: Path, size: int) -> None:
    cached()
    (folder,) = {each.parent for each in entries(tmp_path / "xla")}
    for each in entries(tmp_path / "xla"):
        with each.open("r+b") as file:
            file.truncate(size)
    said = cached("two")
    found = re.findall(r"The cache of compiled code in (\S+) could not be used .*files are removed", said)
    assert found == [str(folder)]
    assert "could not be used" not in cached("three")
    assert entries(tmp_path / "xla")


def test_a_folder_that_cannot_be_written_is_one_sentence(cached, tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    said = cached(cache=tmp_path / "a-file" / "xla")
    assert said.count("cannot be written") == 1
    assert str(tmp_path / "a-file" / "xla") in said


@pytest.mark.long
def test_two_processes_share_a_cache_at_once(toy, tmp_path: Path) -> None:
    more = ["--xla", "--xla-cache", tmp_path / "xla", "--max-steps", 4, "--buckets", 2, "--sample-text", ""]
    both = [
        subprocess.Popen(
            command(*toy, *more, "--checkpoint-dir", tmp_path / run),
            env=environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        for run in ("one", "two")
    ]
    said = [each.communicate(timeout=240)[1] for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    assert not [each for each in said if "could not be used" in each]
    assert entries(tmp_path / "xla")


def test_the_same_function_of_two_runs_in_one_process_has_two_names() -> None:
    """TensorFlow refuses another function of a name that it has."""
    numbers = []
    for _ in range(2):
        with stable_names("update 1"):
            numbers += [ops.uid(), ops.uid()]
    assert len(set(numbers)) == 4


def test_all_buckets_are_compiled_before_the_first_step_and_change_nothing(toy, voxyard, tmp_path: Path) -> None:
    """Of three buckets; the weights after the run are those of one that compiles where it comes to it."""
    flags = ["--xla", "--max-steps", 6, "--buckets", 3, "--sample-text", "", "--ema", 0.9, "--batch-size", 3]
    ahead = voxyard(*toy, *flags, "--checkpoint-dir", tmp_path / "ahead")
    assert ahead.returncode == 0, ahead.stderr
    said = ahead.stderr
    for number in (1, 2, 3):
        assert said.index(f"Compiled {number} of 3 buckets") < said.index("Model training starting now")
    later = run_forked(
        *toy, *flags, "--checkpoint-dir", tmp_path / "later", source=COMPILES_LATER, environment=environment()
    )
    assert later.returncode == 0, later.stderr
    assert "of 3 buckets" not in later.stderr
    states = [checkpoint.load(tmp_path / run / "step-00000006").state for run in ("ahead", "later")]
    assert set(states[0]) == set(states[1])
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0])
