"""Health check of the speech service: the address it asks, the errors it prints, reasons of not being ready."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from voxyard.service.healthcheck import CANNOT_WORK
from voxyard.service.routes.operations import readiness


class Server(HTTPServer):
    """Answers /healthz as it is told to."""

    status = 200


class Answers(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.send_response(self.server.status if self.path == "/healthz" else 404)
        self.end_headers()
        self.wfile.write(b"it has stopped")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    """A service that is well."""
    with Server(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_as_a_program_it_reads_the_services_own_variables_and_its_exit_code_tells(server: Server) -> None:
    command = [sys.executable, "-m", "voxyard.service.healthcheck"]
    environment = {**os.environ, "VOXYARD_SERVICE_HOST": "0.0.0.0", "VOXYARD_SERVICE_PORT": str(server.server_port)}  # noqa: S104
    codes = []
    for server.status in (200, 503):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        codes.append((done.returncode, "it has stopped" in done.stderr))
    assert codes == [(0, False), (1, True)]


BROKEN = "torch sees no GPU"
OFF = SimpleNamespace(state="off", device="cuda:0", reason=BROKEN, woken=False)
DOWN = SimpleNamespace(state="down", device="cuda:1", reason=BROKEN, woken=False)


def reason(*workers: Any, ended: str | None = None) -> str:
    pool: Any = SimpleNamespace(ended=ended, waiting=None, workers=lambda: workers)
    queue: Any = SimpleNamespace(problem=None)
    shutdown: Any = SimpleNamespace(announced=False, draining=False)
    ready, found = readiness(pool, queue, shutdown)
    assert not ready
    return found


@pytest.mark.parametrize(
    ("found", "lasting"),
    [
        (reason(OFF), True),
        (reason(OFF, OFF), True),
        (reason(OFF, DOWN), False),
        (reason(DOWN), False),
        (reason(), False),
        (reason(DOWN, ended="its process cannot fork"), True),
    ],
)
def test_only_a_service_that_a_restart_alone_helps_says_that_it_cannot_work(found: str, lasting: bool) -> None:
    assert found.startswith(CANNOT_WORK) is lasting


def test_the_reason_of_each_worker_is_given() -> None:
    assert reason(OFF) == f"{CANNOT_WORK}: no worker could be started (cuda:0: {BROKEN})"
