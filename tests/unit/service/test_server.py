"""Server on real sockets: addresses, slow and large bodies, shutdown."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import service_app
from eventually import PATIENCE, eventually
from fastapi import FastAPI, Request
from live_service import live
from service_app import quiet
from starlette.responses import StreamingResponse

from voxyard.service.app import install
from voxyard.service.config import ServiceSection
from voxyard.service.errors import ServiceError
from voxyard.service.server import SWITCH_SECONDS, listen, serve

MIB = 1 << 20


class Seen:
    """Record of the application's routes."""

    def __init__(self) -> None:
        self.largest = 0
        self.gone = threading.Event()
        self.streaming = threading.Event()


@contextmanager
def serving(section: ServiceSection, seen: Seen) -> Iterator[str]:
    """The address of a service with routes of its own."""
    app = FastAPI()

    @app.post("/v1/documents")
    async def upload(request: Request) -> dict[str, int]:
        size = 0
        async for piece in request.stream():
            size += len(piece)
            seen.largest = max(seen.largest, size)
        return {"bytes": size}

    @app.get("/v1/slow")
    async def slow(seconds: float = 1.0) -> dict[str, str]:
        seen.streaming.set()
        await anyio.sleep(seconds)
        return {"state": "done"}

    @app.get("/v1/endless")
    async def endless() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"x" * 1000
                    seen.streaming.set()
                    await anyio.sleep(0.01)
            finally:
                seen.gone.set()

        return StreamingResponse(pieces())

    with quiet(section) as state:
        install(app, state)
        with live(app, section) as address:
            yield address


@pytest.fixture
def section(tmp_path: Path) -> ServiceSection:
    return ServiceSection(data_dir=tmp_path, max_upload_mib=1, stop_seconds=1.0, port=0)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def address(section: ServiceSection, seen: Seen) -> Iterator[str]:
    with serving(section, seen) as address:
        yield address


def dial(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def everything(connection: socket.socket) -> bytes:
    """Bytes that the server sends until it hangs up."""
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def body_of(answer: bytes) -> dict[str, Any]:
    return dict(json.loads(answer.partition(b"\r\n\r\n")[2])["error"])


# -- addresses -----------------------------------------------------------------------------------------------


def test_port_0_takes_a_free_one_and_says_which(address: str) -> None:
    assert int(address.rpartition(":")[2]) > 0
    assert httpx.get(f"{address}/healthz").json() == {"status": "ok"}


def test_threads_that_compute_let_the_server_go_on_after_a_millisecond(section: ServiceSection, seen: Seen) -> None:
    before = sys.getswitchinterval()
    with serving(section, seen):
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert sys.getswitchinterval() == before


def test_small_pieces_are_sent_at_once(section: ServiceSection) -> None:
    """With Nagle's delay on, every answer on a kept connection would wait 40 ms for the client's acknowledgement."""

    async def delay_is_off() -> bool:
        accepted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        async def meet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            taken = writer.get_extra_info("socket")
            accepted.set_result(bool(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            writer.close()

        listener = listen(section)
        async with await asyncio.start_server(meet, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            off = await accepted
            writer.close()
            return off

    assert asyncio.run(delay_is_off())


def test_a_port_in_use_is_an_error_with_a_remedy(section: ServiceSection) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = section.model_copy(update={"port": other.getsockname()[1]})
        with pytest.raises(ServiceError, match=r"the port is in use.*--port") as caught:
            listen(taken)
    assert caught.value.exit_code == 2


def test_two_services_do_not_share_a_port(section: ServiceSection) -> None:
    with listen(section) as first:
        second = section.model_copy(update={"port": first.getsockname()[1]})
        with pytest.raises(ServiceError, match="the port is in use"):
            listen(second)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104
def test_without_keys_nothing_but_loopback_is_listened_on(section: ServiceSection, host: str) -> None:
    with pytest.raises(ServiceError) as caught:
        listen(section.model_copy(update={"host": host}))
    assert "voxyard keys new" in str(caught.value)
    assert "--host 127.0.0.1" in str(caught.value)
    assert caught.value.exit_code == 2


def test_with_keys_any_address_is_listened_on(section: ServiceSection, tmp_path: Path) -> None:
    keyed = section.model_copy(update={"host": "0.0.0.0", "keys": tmp_path / "keys"})  # noqa: S104
    with listen(keyed) as taken:
        assert taken.getsockname()[0] == "0.0.0.0"  # noqa: S104


@pytest.mark.usefixtures("localhost")
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.9"])
def test_every_name_of_loopback_needs_no_keys(section: ServiceSection, host: str) -> None:
    with listen(section.model_copy(update={"host": host})) as taken:
        assert taken.getsockname()[1] > 0


@pytest.mark.parametrize(
    ("host", "reason"),
    [("no.such.host.invalid", "cannot resolve the listen address"), ("192.0.2.7", "not an address of this machine")],
)
def test_an_address_of_another_host_is_an_error_with_a_remedy(
    section: ServiceSection, tmp_path: Path, host: str, reason: str
) -> None:
    with pytest.raises(ServiceError, match=reason):
        listen(section.model_copy(update={"host": host, "keys": tmp_path / "keys"}))


# -- bodies --------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_by_its_own_word_is_refused_unread(address: str, seen: Seen) -> None:
    with dial(address) as connection:
        connection.sendall(b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99000000\r\n\r\n")
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer.lower()
    assert body_of(answer)["code"] == "too_large"
    assert seen.largest == 0


def test_a_client_that_waits_for_leave_is_not_given_it(address: str) -> None:
    with dial(address) as connection:
        connection.sendall(
            b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99000000\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_client_that_waits_for_leave_gets_it(address: str) -> None:
    with dial(address) as connection:
        connection.sendall(
            b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"abc")
        assert b'{"bytes":3}' in everything(connection)


def test_a_body_without_a_length_is_cut_at_the_limit(address: str, seen: Seen) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * (MIB // 10)

    response = httpx.post(f"{address}/v1/documents", content=pieces())
    assert response.status_code == 413
    assert response.headers["connection"] == "close"
    assert response.json()["error"]["code"] == "too_large"
    assert MIB // 2 < seen.largest <= MIB + MIB // 4


def test_a_large_body_that_is_refused_still_gets_its_answer(address: str) -> None:
    response = httpx.post(f"{address}/v1/documents", content=b"x" * (3 * MIB))
    assert response.status_code == 413


def test_a_client_that_sends_all_before_it_reads_still_gets_its_answer(address: str) -> None:
    half = b"x" * (MIB // 2 + 40_000)
    with dial(address) as connection:
        head = f"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2 * len(half)}\r\n\r\n"
        connection.sendall(head.encode() + half)
        time.sleep(0.2)  # by now the answer is there, and a connection that was closed with it would be reset
        connection.sendall(half)
        assert everything(connection).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_sends_a_book_before_it_reads_still_gets_its_answer(address: str) -> None:
    book = b"x" * (12 * MIB)
    with dial(address) as connection:
        connection.sendall(f"POST /v1/speech HTTP/1.1\r\nHost: a\r\nContent-Length: {len(book)}\r\n\r\n".encode())
        connection.sendall(book)
        time.sleep(0.2)
        assert everything(connection).startswith(b"HTTP/1.1 4")


def test_a_client_that_never_stops_sending_is_cut_off(address: str) -> None:
    sent = 0
    with dial(address) as connection:
        connection.sendall(b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"%x\r\n" % MIB + b"x" * MIB + b"\r\n"
        with suppress(OSError):  # a reset or a broken pipe, as it happens
            while sent < 200:
                connection.sendall(piece)
                sent += 1
    assert sent < 200


def test_a_body_that_does_not_come_is_not_waited_for(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxyard.service.http.body_limit.LimitedBody.__init__.__kwdefaults__", {"grace": 0.2})
    with dial(address) as connection:
        connection.sendall(b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc")
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert "too slow" in body_of(answer)["message"]


def test_an_unread_body_closes_its_connection(address: str) -> None:
    response = httpx.post(f"{address}/v1/nothing", content=b"x" * 50_000)
    assert response.status_code == 404
    with dial(address) as connection:
        connection.sendall(b"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc")
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"connection: close" in answer.lower()


def test_a_connection_is_kept_for_further_requests(address: str) -> None:
    with httpx.Client(base_url=address) as client:
        for size in (0, 5, 100_000, 0):
            assert client.post("/v1/documents", content=b"x" * size).json() == {"bytes": size}
        assert client.get("/healthz").headers.get("connection") != "close"
        answered = client.get("/healthz")
    assert "server" not in answered.headers


# -- headers -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_headers_that_do_not_come_are_not_waited_for(
    section: ServiceSection, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxyard.service.http.protocol.HEADER_SECONDS", 8.0)
    with serving(section, seen) as address:
        with dial(address) as silent, dial(address) as slow, dial(address) as second:
            slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
            second.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert second.recv(10_000).startswith(b"HTTP/1.1 200 ")
            second.sendall(b"GET /healthz HTTP/1.1\r\nHo")
            assert everything(silent) == everything(slow) == b""
            assert b"HTTP/1.1" not in everything(second)
        assert httpx.get(f"{address}/v1/slow", params={"seconds": 10.0}, timeout=PATIENCE).status_code == 200


def test_headers_that_are_too_large_are_refused_in_the_envelope(address: str) -> None:
    with dial(address) as connection:
        connection.sendall(
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Long: " + b"x" * 40_000 + b"\r\n\r\n"
        )
        answer = everything(connection)
    assert answer[:13] in (b"HTTP/1.1 400 ", b"HTTP/1.1 431 ")  # by whether they came in one piece
    assert body_of(answer)["type"] == "invalid_request_error"


def test_headers_without_end_are_refused_before_they_end(address: str) -> None:
    with dial(address) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 50_000)
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert body_of(answer)["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 hello TLS\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /v1/documents HTTP/1.1\r\nHost: another\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n\r\n",
        b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /behind HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_invalid_http_is_refused_in_the_envelope(address: str, sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with dial(address) as connection:
        connection.sendall(sent)
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert body_of(answer)["code"] == "invalid_request"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(("key", "status"), [("a", 400), ("x3JJHMbDL1EzLkh9GBhXDw==", 404)])
def test_a_websocket_is_answered_as_any_request(address: str, key: str, status: int) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}
    answer = httpx.get(f"{address}/v1/nothing", headers=headers)
    assert answer.status_code == status
    if status == 404:
        assert answer.json()["error"]["code"] == "not_found"


# -- its end -------------------------------------------------------------------------------------------------


def test_a_client_that_goes_away_ends_its_stream(address: str, seen: Seen) -> None:
    with dial(address) as connection:
        connection.sendall(b"GET /v1/endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(100)
    assert seen.gone.wait(PATIENCE)


@pytest.mark.parametrize("requests", [1, 2])
def test_a_client_that_ends_its_sending_side_gets_its_answers(address: str, requests: int) -> None:
    """As `nc -N` and some proxies do."""
    with dial(address) as connection:
        connection.sendall(b"GET /v1/slow?seconds=0.1 HTTP/1.1\r\nHost: localhost\r\n\r\n" * requests)
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection).count(b'{"state":"done"}') == requests


def test_an_answer_that_does_not_begin_is_not_made_for_a_client_that_may_have_gone(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxyard.service.http.protocol.HALF_CLOSED_SECONDS", 0.1)
    with dial(address) as connection:
        connection.sendall(b"GET /v1/slow?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection) == b""


def test_a_client_that_goes_away_unanswered_is_499_in_the_log(
    address: str, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "voxyard")
    with dial(address) as connection:
        connection.sendall(b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc")
        eventually(lambda: seen.largest == 3)

    def lines() -> list[object]:
        return [getattr(record, "status", None) for record in caplog.records if record.name.endswith("requests")]

    eventually(lambda: bool(lines()))
    assert lines() == [499]


def test_open_requests_are_finished_before_the_end(section: ServiceSection, seen: Seen) -> None:
    section = section.model_copy(update={"stop_seconds": PATIENCE})
    answers: queue.Queue[httpx.Response] = queue.Queue()
    with serving(section, seen) as address:

        def ask() -> None:
            answers.put(httpx.get(f"{address}/v1/slow", params={"seconds": 1}, timeout=PATIENCE))

        thread = threading.Thread(target=ask)
        thread.start()
        assert seen.streaming.wait(PATIENCE)
    thread.join(PATIENCE)
    assert answers.get(timeout=PATIENCE).json() == {"state": "done"}
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/healthz")


def test_requests_that_do_not_end_are_cut_after_their_time(section: ServiceSection, seen: Seen) -> None:
    with serving(section, seen) as address:
        connection = dial(address)
        connection.sendall(b"GET /v1/endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert seen.streaming.wait(PATIENCE)
    assert seen.gone.is_set()
    assert not everything(connection).endswith(b"0\r\n\r\n")
    connection.close()


def test_a_request_that_is_cut_before_its_response_is_503(section: ServiceSection, seen: Seen) -> None:
    with serving(section, seen) as address:
        connection = dial(address)
        connection.sendall(b"GET /v1/slow?seconds=600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert seen.streaming.wait(PATIENCE)
    received = everything(connection)
    connection.close()
    assert received.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 10" in received.lower()
    assert "shutting down" in body_of(received)["message"]


PROGRAM = """
import sys, time
from pathlib import Path
from fastapi import FastAPI
sys.path += sys.argv[4:]
from service_app import quiet
from voxyard.service.config import ServiceSection
from voxyard.service.app import install
from voxyard.service.http.observability import configure_json_logging
from voxyard.service.server import serve

configure_json_logging()
section = ServiceSection(data_dir=Path(sys.argv[1]), port=0, stop_seconds=float(sys.argv[2]))
app = FastAPI()

class Nothing:
    drained, forced = True, False
    def drain(self):
        print("stopping", flush=True)
    def end_streams(self):
        pass
    def describe_pending(self):
        return ""

@app.get("/v1/slow")
async def slow():
    import anyio
    print("in", flush=True)
    await anyio.sleep(float(sys.argv[3]))

with quiet(section) as state:
    install(app, state)
    code = serve(app, section, announce=lambda address: print(address, flush=True), graceful_shutdown=Nothing())
print("closed", flush=True)
sys.exit(code)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def begin(stop_seconds: float, slow_seconds: float) -> subprocess.Popen[str]:
        support = map(str, Path(service_app.__file__).parents[1].glob("*/"))
        arguments = [sys.executable, "-c", PROGRAM, str(tmp_path), str(stop_seconds), str(slow_seconds), *support]
        started.append(subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_in_order(start: Callable[..., subprocess.Popen[str]], number: int) -> None:
    process = start(PATIENCE, 1)
    address, answers = line_of(process), queue.Queue[int]()
    thread = threading.Thread(target=lambda: answers.put(httpx.get(f"{address}/v1/slow", timeout=PATIENCE).status_code))
    thread.start()
    assert line_of(process) == "in"
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE)
    thread.join(PATIENCE)
    assert (process.returncode, out.split()) == (0, ["stopping", "closed"])
    assert answers.get(timeout=PATIENCE) == 200
    lines = [json.loads(line) for line in err.splitlines()]
    assert "stopped" in [line["message"] for line in lines]
    assert not [line for line in lines if line["level"] == "error"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_does_not_wait_for_open_requests(
    start: Callable[..., subprocess.Popen[str]], number: int
) -> None:
    process = start(600, 600)
    address = line_of(process)
    with dial(address) as connection:
        connection.sendall(b"GET /v1/slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line_of(process) == "in"
        os.kill(process.pid, number)
        assert line_of(process) == "stopping"
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out.split()) == (0, ["closed"])
    assert "Traceback" not in err


def test_an_application_that_cannot_start_is_exit_code_1(section: ServiceSection) -> None:
    async def refuses(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no model"})

    assert serve(refuses, section, stop=threading.Event()) == 1
