"""Durable files: on the disk before they have their name, nothing left of what fails, locks between processes."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from syncs import watch_syncs

from voxyard.host import durable_files
from voxyard.host.durable_files import PRIVATE, create_file, locked, put_directory, whole_file, write_file

WRITERS: dict[str, Callable[[Path], object]] = {
    "write_file": lambda path: write_file(path, "new"),
    "write_file, its own part": lambda path: write_file(path, b"new", part=path.with_name("part.1")),
    "create_file": lambda path: create_file(path, b"new"),
}
HOLD = """
import sys
from pathlib import Path
from voxyard.host.durable_files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_is_on_the_disk_before_its_name_and_the_name_after(
    writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "file", list[tuple[Path, bool]]()

    def note(descriptor: int) -> None:
        seen.append((Path(f"/proc/self/fd/{descriptor}").readlink(), path.exists()))

    monkeypatch.setattr(os, "fsync", note)
    WRITERS[writer](path)
    assert [there for _, there in seen] == [False, True]
    assert seen[1][0] == tmp_path
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_leaves_nothing(
    writer: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match=os.strerror(code)):
        WRITERS[writer](tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_block_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, "old")
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write(bytes(1 // len(b"")))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_no_file_takes_the_place_of_a_device_or_a_pipe(tmp_path: Path) -> None:
    """As root, `--file /dev/null` would leave a machine without it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError, match="is a device or a pipe"):
        write_file(pipe, "new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_what_a_killed_process_has_left_is_replaced_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    durable_files.unfinished(path).write_text("half, and readable by all")
    write_file(path, "whole", mode=PRIVATE)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("whole", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_created_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert create_file(path, b"first", mode=PRIVATE)
    assert not create_file(path, b"second")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"first", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_takes_the_place_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, unfinished = tmp_path / "made", tmp_path / ".made.unfinished"
    for each, name in ((directory, "old"), (unfinished, "new")):
        each.mkdir()
        (each / name).write_text(name)
    synced = watch_syncs(monkeypatch)
    put_directory(unfinished, directory)
    assert synced == [unfinished / "new", unfinished, tmp_path]
    assert [path.name for path in tmp_path.rglob("*")] == ["made", "new"]


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_lock_is_one_processs_and_ends_with_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path if kind == "folder" else tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError), locked(path):
            pass
        taken = threading.Event()

        def wait() -> None:
            with locked(path, wait=True):
                taken.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not taken.is_set()
        holder.kill()
        waiting.join()
        assert taken.is_set()
