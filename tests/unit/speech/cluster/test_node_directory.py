"""Directories of nodes: those of a killed voxyard go at the next start, all others stay."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from voxyard.speech.cluster.access import open_access
from voxyard.speech.cluster.node import Node, NodeDirectory, NodeSpec, remove_abandoned

OWNER = """
import time
from voxyard.speech.cluster.node import NodeDirectory
made = NodeDirectory()
print(made.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which nodes make theirs."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def owner() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with a directory, which has something in it."""
    folders = os.pathsep.join(folder for folder in sys.path if folder)
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": folders}
    ) as process:
        try:
            assert process.stdout is not None
            path = Path(process.stdout.readline().strip())
            (path / "session" / "logs").mkdir(parents=True)
            yield process, path
        finally:
            process.kill()


def test_what_a_killed_voxyard_has_left_is_removed() -> None:
    with owner() as (process, path):
        assert remove_abandoned() == []

        process.kill()
        process.wait()

        assert remove_abandoned() == [path]
    assert not path.exists()


def test_a_start_removes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "_supervise", lambda _: None)
    with owner() as (process, left), owner() as (_, living):
        process.kill()
        process.wait()
        with Node(NodeSpec("worker", open_access("127.0.0.1", None), "127.0.67.1", "host")) as node:
            node.start()

            assert not left.exists()
            assert living.exists()
            assert node.directory.exists()
        assert not node.directory.exists()


def test_other_users_and_earlier_releases_directories_and_links_stay(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_owner, target = temporary / "voxyard-ray-old", temporary / "elsewhere"
    without_owner.mkdir()
    target.mkdir()
    (target / "owner").touch()
    (temporary / "voxyard-ray-link").symlink_to(target)
    ended = NodeDirectory()
    ended._owner.close()

    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert remove_abandoned() == []
    assert remove_abandoned() == [ended.path]
    assert without_owner.exists()
    assert (target / "owner").exists()


def test_a_node_that_starts_anew_finds_its_directory_empty_and_owned() -> None:
    made = NodeDirectory()
    (made.path / "session").mkdir()
    (made.path / "start.log").touch()
    (made.path / "latest").symlink_to(made.path / "session")

    made.clear()

    assert [each.name for each in made.path.iterdir()] == ["owner"]
    assert remove_abandoned() == []
    made.remove()
    assert not made.path.exists()
