"""The metrics' server: its pages, its health, and clients that misbehave."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing
from http.client import HTTPConnection
from types import SimpleNamespace

import pytest
from eventually import PATIENCE, eventually
from prometheus_client import CollectorRegistry

from voxyard.telemetry import TelemetryError
from voxyard.telemetry.server import MOST_CLIENTS, serve


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_health_and_readiness_are_asked_each_time() -> None:
    state = {"well": True, "ready": False}
    with serve(
        CollectorRegistry(),
        "127.0.0.1",
        0,
        health=lambda: (state["well"], "as it is"),
        ready=lambda: (state["ready"], "not yet"),
    ) as server:
        assert get(server.port, "/healthz") == (200, "as it is\n")
        assert get(server.port, "/readyz") == (503, "not yet\n")
        state.update(well=False, ready=True)
        assert get(server.port, "/healthz")[0] == 503
        assert get(server.port, "/readyz")[0] == 200
        assert get(server.port, "/nothing")[0] == 404


def test_it_is_ready_where_it_is_healthy_and_nothing_else_was_said() -> None:
    state = [True]
    with serve(CollectorRegistry(), "127.0.0.1", 0, health=lambda: (state[0], "as it is")) as server:
        assert get(server.port, "/readyz") == (200, "as it is\n")
        state[0] = False
        assert get(server.port, "/readyz") == (503, "as it is\n")
    with serve(CollectorRegistry(), "127.0.0.1", 0) as server:
        assert get(server.port, "/readyz") == get(server.port, "/healthz") == (200, "ok\n")


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/", "/nothing"])
def test_head_has_the_headers_of_get_and_no_body(path: str) -> None:
    """Load balancers and uptime checks ask so."""
    told = []
    with serve(CollectorRegistry(), "127.0.0.1", 0, ready=lambda: (False, "not yet")) as server:
        for method in ("GET", "HEAD"):
            with closing(HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
                connection.request(method, path)
                answer = connection.getresponse()
                told.append((answer.status, {**answer.headers, "Date": ""}))
                assert (answer.read() == b"") == (method == "HEAD" or path == "/metrics")
    assert told[0] == told[1]


def test_clients_that_send_nothing_keep_neither_others_out_nor_the_server_from_closing() -> None:
    with serve(CollectorRegistry(), "127.0.0.1", 0) as server:
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        silent[0].sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        silent[1].sendall(b"GET /metrics HTTP/1.1\r\n")
        assert get(server.port, "/healthz")[0] == 200
    for each in silent:
        each.close()


def test_clients_that_drip_do_not_keep_others_out() -> None:
    """As many as there are places, and each sends a byte now and then: the oldest of them gives way to a reader."""
    with serve(CollectorRegistry(), "127.0.0.1", 0) as server:
        dripping = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(MOST_CLIENTS)]
        for each in dripping:
            with contextlib.suppress(OSError):  # it has given way already
                each.sendall(b"G")
        for _ in range(3):
            assert get(server.port, "/metrics")[0] == 200
        for each in dripping:
            each.close()


def test_a_request_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxyard.telemetry.server.REQUEST_SECONDS", 0.2)
    with (
        serve(CollectorRegistry(), "127.0.0.1", 0) as server,
        socket.create_connection(("127.0.0.1", server.port)) as dripping,
    ):
        dripping.settimeout(0.05)

        def ended() -> bool:
            try:
                dripping.sendall(b"G")  # the time between two bytes is never long
                return dripping.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        eventually(ended, "the connection is ended")


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain;version=v1",
        "application/openmetrics-text;version=x",
        "text/plain;version=1.0.0;escaping=x",
        "\xff,;,=",
    ],
)
def test_metrics_come_in_plain_text_where_an_accepted_version_cannot_be_read(accept: str) -> None:
    with serve(CollectorRegistry(), "127.0.0.1", 0) as server:
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}/metrics", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 (the address above)
            assert answer.headers["Content-Type"].startswith("text/plain")


def test_a_port_in_use_is_an_error_that_names_the_way_out() -> None:
    with (
        serve(CollectorRegistry(), "127.0.0.1", 0) as server,
        pytest.raises(TelemetryError, match=f"127.0.0.1:{server.port} .*choose another --port"),
    ):
        serve(CollectorRegistry(), "127.0.0.1", server.port, flags="--")


def test_closing_frees_the_port_and_ends_the_thread() -> None:
    before = {thread.name for thread in threading.enumerate()}
    server = serve(CollectorRegistry(), "127.0.0.1", 0)
    port = server.port
    server.close()
    server.close()
    with serve(CollectorRegistry(), "127.0.0.1", port) as again:
        assert get(again.port, "/healthz")[0] == 200
    eventually(lambda: {thread.name for thread in threading.enumerate()} <= before, "its threads have ended")


def test_ipv6_is_listened_on_where_it_is_asked_for() -> None:
    try:
        server = serve(CollectorRegistry(), "::1", 0)
    except TelemetryError:
        pytest.fail("IPv6 loopback is missing on this machine") if socket.has_ipv6 else pytest.skip("no IPv6")
    with server, socket.create_connection(("::1", server.port)) as client:
        client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b"200 OK" in client.recv(1000)


def test_a_regular_reader_sees_what_was_set_last(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("voxyard.telemetry.server.time", SimpleNamespace(monotonic=lambda: clock.now))
    with serve(CollectorRegistry(), "127.0.0.1", 0) as server:
        for clock.now in (0.0, PATIENCE):
            get(server.port, "/metrics")
        began = threading.Event()

        def scrape() -> None:
            time.sleep(0.2)
            began.set()
            get(server.port, "/metrics")

        reader = threading.Thread(target=scrape)
        reader.start()
        server.wait_for_reader(PATIENCE)
        waited = began.is_set()
        reader.join()

    assert waited


@pytest.mark.parametrize("reads", [0, 1, 2])
def test_the_server_does_not_wait_for_a_reader_that_never_reads(reads: int) -> None:
    with serve(CollectorRegistry(), "127.0.0.1", 0) as server:
        for _ in range(reads):
            get(server.port, "/metrics")
            time.sleep(0.1)
        done = threading.Thread(target=server.wait_for_reader, args=(10 * PATIENCE,))
        done.start()
        done.join(PATIENCE)

        assert not done.is_alive()
