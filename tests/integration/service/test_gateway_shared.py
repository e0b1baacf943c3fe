"""A real HAProxy before services that share their documents: what one that dies does not answer, another does."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from exporters import free_port
from running_gateway import running_gateway

from fleet.inventory.hosts import Bark, Host, with_upstreams
from voxyard.service.documents.ids import new_id

STORE = "postgresql://voxyard@db.lab/voxyard"
NAMES = ("one", "two")


@dataclass
class Cell:
    """Stand-in for a service: answers with its name, or closes the connection."""

    name: str
    dies: bool = False
    port: int = 0
    asked: list[str] = field(default_factory=list)


@contextmanager
def running(cell: Cell) -> Iterator[Cell]:
    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/readyz":
                return self.say("ready")
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            cell.asked.append(f"{self.command} {self.path}")
            if cell.dies:
                self.close_connection = True
                return None
            return self.say(cell.name)

        def do_POST(self) -> None:
            self.do_GET()

        def say(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    cell.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield cell
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, list[Cell]]]:
    with ExitStack() as stack:
        cells = [stack.enter_context(running(Cell(name))) for name in NAMES]
        barks = [
            Host(each.name, "127.0.0.1", "v", roles=("bark",), bark=Bark(port=each.port, store=STORE, shelf="/mnt/x"))
            for each in cells
        ]
        host = with_upstreams([Host("gw", "127.0.0.1", "v", roles=("gateway",)), *barks])[0]
        folder = tmp_path_factory.mktemp("gateway")
        gateway = stack.enter_context(running_gateway(host, folder / "haproxy", free_port(), free_port()))
        trust = ssl.create_default_context(cafile=str(gateway.authority.root))
        headers = {"Authorization": "Bearer key"}
        yield stack.enter_context(httpx.Client(base_url=gateway.url, verify=trust, headers=headers, timeout=60)), cells


@pytest.fixture(params=[0, 1], ids=NAMES)
def dying(fleet: tuple[httpx.Client, list[Cell]], request: pytest.FixtureRequest) -> Iterator[Cell]:
    """One of the two dies as it is asked for anything but its readiness."""
    for each in fleet[1]:
        each.asked.clear()
    cell = fleet[1][request.param]
    cell.dies = True
    yield cell
    cell.dies = False


def test_a_document_is_served_by_whoever_answers(fleet: tuple[httpx.Client, list[Cell]], dying: Cell) -> None:
    client, cells = fleet
    path = f"/v1/documents/{new_id(dying.name)}"
    answers = [client.get(path) for _ in range(6)]
    assert {(each.status_code, each.text) for each in answers} == {(200, each.name) for each in cells if not each.dies}
    assert f"GET {path}" in dying.asked  # it was tried, too


def test_a_document_with_a_key_is_sent_again_and_one_without_is_not(
    fleet: tuple[httpx.Client, list[Cell]], dying: Cell
) -> None:
    client, _ = fleet
    with_key = [
        client.post("/v1/documents", headers={"Idempotency-Key": str(n)}, json={"text": "A."}) for n in range(6)
    ]
    assert [each.status_code for each in with_key] == [200] * 6
    assert dying.asked
    dying.asked.clear()
    failed = [not accepted(client) for _ in range(6)]
    assert 0 < sum(failed) < 6
    assert len(dying.asked) == sum(failed)


def accepted(client: httpx.Client) -> bool:
    """True where a document without a key is; HAProxy closes a connection that it has used before, or says 502."""
    try:
        return client.post("/v1/documents", json={"text": "A."}).status_code == 200
    except httpx.RemoteProtocolError:
        return False
