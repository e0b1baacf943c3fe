"""Host in a directory: real shells run the commands, docker and nvidia-smi are fakes, connections can break."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Literal

from fake_docker import CLIENT, DockerServer, FakeDocker

from fleet.errors import HostFailedError
from fleet.inventory.hosts import Host
from fleet.ssh.command_batch import Answer, Command, script, split


class FakeServices:
    """HTTP server of fake services; paths in `bad` answer 503.

    At a reload it reads the file `rules`, whose content it then answers at /rules.
    """

    def __init__(self) -> None:
        self.bad: set[str] = set()
        self.rules: Path | None = None
        self.loaded = b""
        self.reloads = 0
        bad, services = self.bad, self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(503 if self.path in bad else 200)
                self.end_headers()
                pages = {"/metrics": b"voxyard_up 1.0\n", "/rules": services.loaded}
                self.wfile.write(pages.get(self.path, b"no model is loaded"))

            def do_POST(self) -> None:
                services.reloads += 1
                if self.path not in bad and services.rules is not None:
                    services.loaded = services.rules.read_bytes()
                self.do_GET()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.port = int(self._server.server_address[1])
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class ShellHost:
    """Session to a host in a directory; breaks at exchange `break_at`: `before` it, or in the `middle` of it."""

    def __init__(self, folder: Path) -> None:
        self.server = DockerServer(FakeDocker())
        self.home = folder / "home"
        programs = folder / "bin"
        for place in (self.home, programs):
            place.mkdir(parents=True, exist_ok=True)
        docker = programs / "docker"
        docker.write_text(CLIENT.replace("PORT", str(self.server.port)))
        smi = programs / "nvidia-smi"
        smi.write_text('#!/bin/sh\ncat "$HOME/compute-apps.csv" 2>/dev/null || true\n')
        for each in (docker, smi):
            each.chmod(0o755)
        self.environment = {**os.environ, "HOME": str(self.home), "PATH": f"{programs}:{os.environ['PATH']}"}
        self.names: list[str] = []  # command names, one line per exchange
        self.texts: list[str] = []
        self.exchanges = 0
        self.break_at: int | None = None
        self.moment: Literal["before", "middle"] = "before"

    def reconnect(self) -> None:
        """Reconnect: no break any more."""
        self.break_at, self.exchanges, self.names = None, 0, []

    def run(self, commands: Sequence[Command]) -> Mapping[str, Answer]:
        self._note(commands)
        text, marker = script(commands)
        self._maybe_broken()
        done = self._shell(text, b"")
        return split(done.stdout.decode(), done.stderr.decode(), marker)

    def send(self, command: Command, data: Iterable[bytes]) -> Answer:
        self._note([command])
        if self.exchanges == self.break_at and self.moment == "middle":
            whole = b"".join(data)
            self._shell(command.shell, whole[: len(whole) // 2])
        self._maybe_broken()
        done = self._shell(command.shell, b"".join(data))
        return Answer(done.stdout.decode(), done.stderr.decode(), done.returncode)

    def _note(self, commands: Sequence[Command]) -> None:
        self.exchanges += 1
        self.names.append(" ".join(command.name for command in commands))
        self.texts += [command.text for command in commands]

    def _maybe_broken(self) -> None:
        if self.break_at is not None and self.exchanges >= self.break_at:
            raise HostFailedError("the connection to gpu-01 broke")

    def _shell(self, text: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["sh", "-c", text], input=data, capture_output=True, env=self.environment, check=False)

    @contextmanager
    def connect(self, _: Host) -> Iterator[ShellHost]:
        """Replacement of `connected`."""
        yield self

    # -- state for assertions ------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        return self.home / ".voxyard"

    @property
    def engine(self) -> FakeDocker:
        """Fake Docker engine of the host."""
        return self.server.engine

    def services(self) -> dict[str, str]:
        """Configuration hash of each running service."""
        return self.engine.services()

    def like(self, folder: Path) -> ShellHost:
        """Copy of the host."""
        other = ShellHost(folder)
        shutil.copytree(self.home, other.home, symlinks=True, dirs_exist_ok=True)
        other.server.engine = self.engine.copy()
        return other

    def close(self) -> None:
        """Stop its server."""
        self.server.close()

    def audit(self) -> list[dict[str, str]]:
        path = self.folder / "audit.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def tree(self) -> dict[str, str]:
        """Every file and link below ~/.voxyard, with its time, size and target."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            state = path.lstat()
            target = str(path.readlink()) if path.is_symlink() else ""
            found[str(path.relative_to(self.folder))] = (
                f"{state.st_mode:o} {state.st_mtime_ns} {state.st_size} {target}"
            )
        return found

    @property
    def current(self) -> str | None:
        link = self.folder / "current"
        return link.readlink().name if link.is_symlink() else None
