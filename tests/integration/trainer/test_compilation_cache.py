"""The cache of compiled code on real XLA: found again, damaged, unwritable, shared by two processes at once."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from runs import command, environment


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


@pytest.mark.parametrize("size", [0, 1000])
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
