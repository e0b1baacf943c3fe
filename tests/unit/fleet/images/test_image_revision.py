"""Revision of the images' sources: commit, time, uncommitted changes, shallow clones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from fleet.errors import FleetError
from fleet.images.revision import UNKNOWN_TIME, read_revision


def git(root: Path, *words: str) -> str:
    about = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(root), *about, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Repository of one commit, with one source of images."""
    root = tmp_path / "repository"
    (root / "runtime/voxyard").mkdir(parents=True)
    (root / "runtime/voxyard/__init__.py").touch()
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "-m", "one")
    return root


def test_a_revision_is_the_last_commit_that_changed_the_sources(repository: Path) -> None:
    first = read_revision(repository)
    assert first.commit == git(repository, "rev-parse", "HEAD")
    assert first.time == int(git(repository, "log", "-1", "--format=%ct"))
    assert (first.text, first.fault) == (first.commit, None)
    (repository / "README").touch()
    git(repository, "add", ".")
    git(repository, "commit", "-m", "two")
    assert read_revision(repository) == first


def test_uncommitted_and_untracked_files_are_named(repository: Path) -> None:
    (repository / "runtime/voxyard/more.py").touch()
    (repository / "runtime/voxyard/__init__.py").write_text("x = 1")
    found = read_revision(repository)
    assert re.fullmatch("[0-9a-f]{40}-changed", found.text)
    assert found.fault == "uncommitted changes: runtime/voxyard/__init__.py and 1 more"


def test_without_git_there_is_no_commit(tmp_path: Path) -> None:
    found = read_revision(tmp_path)
    assert (found.text, found.time) == ("unknown", UNKNOWN_TIME)
    assert "no git clone" in (found.fault or "")


def test_a_shallow_clone_that_lacks_the_commit_is_refused(repository: Path, tmp_path: Path) -> None:
    whole = read_revision(repository)
    (repository / "README").touch()
    git(repository, "add", ".")
    git(repository, "commit", "-m", "two")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repository}", str(shallow))
    with pytest.raises(FleetError, match=r"is a shallow clone.*git fetch --unshallow"):
        read_revision(shallow)
    git(shallow, "fetch", "--quiet", "--unshallow")
    assert read_revision(shallow) == whole
