"""The command lines on a real shell: what they leave behind, also when they are cut off."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet_doubles import IMAGE

from fleet import commands
from fleet.batch import Command
from fleet.release import Release

FILES = (("exporter.yaml", b"services: {}\n"), ("plan.yaml", b"workloads: []\n"))
RELEASE = Release("0123456789ab", IMAGE, ("exporter.yaml",), FILES, "127.0.0.1", 9410)


def run(command: Command, home: Path, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    return subprocess.run(["sh", "-c", command.text], env=environment, input=data, capture_output=True)


def modes(folder: Path) -> dict[str, str]:
    return {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()}


def test_a_release_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    assert run(commands.write_release(RELEASE.id, RELEASE.checksums), tmp_path, RELEASE.archive()).returncode == 0
    written = tmp_path / ".voxyard/releases" / RELEASE.id
    assert {path.name: path.read_bytes() for path in written.iterdir()} == dict(FILES)
    assert modes(written) == {"exporter.yaml": "0o600", "plan.yaml": "0o644"}
    assert modes(tmp_path) == {".voxyard": "0o700"}
    assert modes(written.parent) == {RELEASE.id: "0o700"}


def test_a_release_that_was_cut_off_is_not_there(tmp_path: Path) -> None:
    archive = RELEASE.archive()
    assert run(commands.write_release(RELEASE.id, RELEASE.checksums), tmp_path, archive[:1100]).returncode != 0
    assert not (tmp_path / ".voxyard/releases" / RELEASE.id).exists()
    assert run(commands.checksums(RELEASE.id), tmp_path).stdout == b""
    assert run(commands.write_release(RELEASE.id, RELEASE.checksums), tmp_path, archive).returncode == 0
    assert [path.name for path in (tmp_path / ".voxyard/releases").iterdir()] == [RELEASE.id]


def test_a_release_that_was_tampered_with_is_written_anew(tmp_path: Path) -> None:
    run(commands.write_release(RELEASE.id, RELEASE.checksums), tmp_path, RELEASE.archive())
    (tmp_path / ".voxyard/releases" / RELEASE.id / "plan.yaml").write_text("workloads: [x]\n")
    run(commands.write_release(RELEASE.id, RELEASE.checksums), tmp_path, RELEASE.archive())
    sums = run(commands.checksums(RELEASE.id), tmp_path).stdout.decode().split()
    assert dict(zip(sums[1::2], sums[::2], strict=True)) == RELEASE.checksums


def test_the_current_release_is_a_link_that_is_replaced_as_a_whole(tmp_path: Path) -> None:
    assert run(commands.current_release(), tmp_path).stdout == b""
    for release in ("aaaaaaaaaaaa", "bbbbbbbbbbbb"):
        run(commands.write_release(release, RELEASE.checksums), tmp_path, RELEASE.archive())
        assert run(commands.set_current(release), tmp_path).returncode == 0
        assert run(commands.current_release(), tmp_path).stdout.decode() == f"releases/{release}\n"
    assert (tmp_path / ".voxyard/current/plan.yaml").exists()
    assert sorted(path.name for path in (tmp_path / ".voxyard").iterdir()) == ["current", "releases"]


@pytest.fixture
def web_server() -> Iterator[int]:
    """The port of a server that answers one request after the other with a page."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    request = b""
                    while not request.endswith(b"\r\n\r\n"):
                        request += connection.recv(1000)
                    connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nasked: " + request.split(b"\r\n")[0])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_metrics_are_asked_for_without_curl(tmp_path: Path, web_server: int) -> None:
    for address in ("127.0.0.1", "0.0.0.0"):  # noqa: S104
        done = run(commands.metrics(address, web_server), tmp_path)
        assert done.stdout == b"HTTP/1.0 200 OK\r\n\r\nasked: GET /metrics HTTP/1.0"


def test_nobody_listening_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = run(commands.metrics("127.0.0.1", port), tmp_path)
    assert done.returncode == 1
    assert done.stderr.decode() == f"nothing listens on 127.0.0.1:{port}\n"


def test_names_cannot_break_out_of_a_command() -> None:
    text = commands.start("x; rm -rf ~", ["a b.yaml"], "$(id)", "`id`").text
    assert "'x; rm -rf ~'" in text
    assert "'a b.yaml'" in text
    assert "'$(id)'" in text
    assert "'`id`'" in text
