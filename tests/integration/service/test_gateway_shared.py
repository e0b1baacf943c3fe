"""A real HAProxy before services that share their documents: what one that dies does not answer, another does."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from eventually import PATIENCE, eventually
from free_ports import free_port
from running_gateway import running_gateway

from fleet.gateway import configuration
from fleet.inventory.hosts import Bark, Host, with_upstreams
from voxyard.service.documents.records import new_id

STORE = "postgresql://voxyard@db.lab/voxyard"
NAMES = ("one", "two")
KEY = {"Authorization": "Bearer key"}  # without one a client stays with a host


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
        thread.join(PATIENCE)


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
        yield stack.enter_context(httpx.Client(base_url=gateway.url, verify=trust, headers=KEY, timeout=60)), cells


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


PROCESS = """
import http.server, sys, time
class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.command == "POST" and self.path.endswith("/speech"):  # waits for a worker, longer than any deadline
            time.sleep(600)
        self.send_response(200)
        if self.path.endswith(("/events", "/audio")):
            self.send_header("Connection", "close")
            self.end_headers()
            while True:
                self.wfile.write(b": keep-alive\\n\\n")
                time.sleep(0.2)
        self.send_header("Content-Length", str(len(sys.argv[1])))
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())
    do_POST = do_GET
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@dataclass(frozen=True)
class Frozen:
    """A client of two services, the processes by name."""

    client: httpx.Client
    services: dict[str, subprocess.Popen[str]]
    metrics: str

    def requests(self) -> dict[str, int]:
        """Requests in progress, by service."""
        text = httpx.get(self.metrics).text
        found = re.findall(r'^haproxy_server_current_sessions{proxy="ready",server="(\w+)"} (\d+)', text, re.MULTILINE)
        return {name: int(count) for name, count in found}

    @contextmanager
    def freeze(self, name: str) -> Iterator[None]:
        """The service gets no processor; its sockets stay open."""
        os.kill(self.services[name].pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.services[name].pid, signal.SIGCONT)

    def all_ready(self) -> bool:
        """True where both take requests."""
        return {self.client.get("/v1/models").text for _ in range(6)} == set(NAMES)


@pytest.fixture
def frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Frozen]:
    """Services that are processes, behind a gateway with deadlines that a busy machine keeps."""
    monkeypatch.setattr(configuration, "ANSWER_SECONDS", 6)
    monkeypatch.setattr(configuration, "EVENTS_SECONDS", 9)
    monkeypatch.setattr(configuration, "FROZEN_SECONDS", 8)
    with ExitStack() as stack:
        services = {}
        for name in NAMES:
            words = [sys.executable, "-c", PROCESS, name]
            services[name] = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            stack.callback(services[name].kill)
        ports = {name: int(each.stdout.readline()) for name, each in services.items() if each.stdout}
        barks = [
            Host(name, "127.0.0.1", "v", roles=("bark",), bark=Bark(port=port, store=STORE, shelf="/mnt/x"))
            for name, port in ports.items()
        ]
        host = with_upstreams([Host("gw", "127.0.0.1", "v", roles=("gateway",)), *barks])[0]
        gateway = stack.enter_context(running_gateway(host, tmp_path / "haproxy", free_port(), free_port()))
        trust = ssl.create_default_context(cafile=str(gateway.authority.root))
        found = Frozen(
            stack.enter_context(httpx.Client(base_url=gateway.url, verify=trust, headers=KEY, timeout=120)),
            services,
            f"http://127.0.0.1:{gateway.metrics_port}/metrics",
        )
        eventually(found.all_ready)
        yield found


@pytest.mark.parametrize("name", NAMES)
def test_what_a_frozen_service_holds_is_asked_of_the_other(frozen: Frozen, name: str) -> None:
    (other,) = set(NAMES) - {name}
    path = f"/v1/documents/{new_id(name)}"

    def ask(number: int) -> httpx.Response:
        if number % 2:
            return frozen.client.get(path)
        return frozen.client.post("/v1/documents", headers={"Idempotency-Key": str(number)}, json={"text": "A."})

    with frozen.freeze(name), ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(ask, range(8)))

    assert {(each.status_code, each.text) for each in answers} == {(200, other)}


@pytest.mark.parametrize("name", NAMES)
def test_the_events_of_a_frozen_service_end_and_are_those_of_the_other_when_they_are_asked_again(
    frozen: Frozen, name: str
) -> None:
    path = f"/v1/documents/{new_id(name)}/events"

    def listen() -> str:
        """Name of the service that sent nothing any more; empty where all go on."""
        with frozen.client.stream("GET", path) as answer:
            blocks = answer.iter_raw()
            next(blocks)
            begun.release()
            with suppress(httpx.HTTPError):
                for _ in blocks:
                    if ended.is_set():
                        return "goes on"
        return "ended"

    begun, ended = threading.Semaphore(0), threading.Event()
    with ThreadPoolExecutor(4) as clients:
        streams = [clients.submit(listen) for _ in range(4)]
        for _ in streams:
            assert begun.acquire(timeout=PATIENCE)
        with frozen.freeze(name):
            eventually(lambda: sum(each.done() for each in streams) == 2)
            with frozen.client.stream("GET", path) as again:
                assert next(again.iter_raw())
            ended.set()
            assert sorted(each.result(PATIENCE) for each in streams) == ["ended", "ended", "goes on", "goes on"]


@pytest.mark.parametrize("path", ["/v1/audio/speech", f"/v1/documents/{'0' * 32}/audio"])
def test_audio_of_a_frozen_service_ends_and_that_of_the_other_is_waited_for(frozen: Frozen, path: str) -> None:
    """No deadline tells a first sound that waits for a worker, or a paused stream, from a frozen service: checks do."""

    def ask(number: int) -> None:
        with suppress(httpx.HTTPError), frozen.client.stream(method, path) as answer:
            for _ in answer.iter_raw():
                begun.add(number)
                if ended.is_set():
                    break

    method = "POST" if path.endswith("/speech") else "GET"
    begun, ended = set[int](), threading.Event()
    with ThreadPoolExecutor(4) as clients:
        asked = [clients.submit(ask, number) for number in range(4)]
        eventually(lambda: frozen.requests() == {"one": 2, "two": 2})
        eventually(lambda: method == "POST" or len(begun) == 4)  # before that the other one is asked
        with frozen.freeze("one"):
            eventually(lambda: sum(each.done() for each in asked) == 2)
            eventually(lambda: frozen.requests() == {"one": 0, "two": 2})
        ended.set()
        frozen.services["two"].kill()
