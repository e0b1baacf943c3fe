"""Connection limit: clients without keys cannot lock out clients with keys."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from eventually import PATIENCE, eventually
from fastapi import FastAPI
from live_service import live
from service_app import quiet

from voxyard.service.app import install
from voxyard.service.auth.api_keys import add_key
from voxyard.service.config import ServiceSection
from voxyard.service.http.protocol import FILES_SHARE, ConnectionLimit, HttpProtocol

SLOW = b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n{"


class Visitor(HttpProtocol):
    """A connection that notes that it was refused."""

    def __init__(self) -> None:
        self.refused = False

    def refuse(self) -> None:
        self.refused = True


@contextmanager
def service(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a service that asks for keys, and the headers of a client that has one."""
    key = add_key(folder / "keys.yaml", "alice")
    section = ServiceSection(data_dir=folder, keys=folder / "keys.yaml", port=0, stop_seconds=0.0)
    app = FastAPI()

    @app.get("/v1/thing")
    async def thing() -> dict[str, str]:
        return {"state": "there"}

    with quiet(section) as state:
        install(app, state)
        with live(app, section) as address:
            yield address, {"Authorization": f"Bearer {key}"}


def dial(address: str, first: bytes = b"") -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=PATIENCE)
    connection.sendall(first)
    return connection


def everything(connection: socket.socket) -> bytes:
    """Bytes that the server sends until it hangs up."""
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


def one_per_address(files: int) -> ConnectionLimit:
    return ConnectionLimit(files, max_per_address=1)


def ask(address: str, path: str, headers: dict[str, str] | None = None) -> int:
    return httpx.get(f"{address}{path}", headers=headers, timeout=PATIENCE).status_code


@pytest.mark.slow
def test_eleven_hundred_slow_clients_without_a_key_do_not_lock_out_one_with_a_key(tmp_path: Path) -> None:
    with service(tmp_path) as (address, key), ExitStack() as crowd:
        slow = [crowd.enter_context(dial(address, SLOW)) for _ in range(1100)]

        assert [ask(address, "/v1/thing", key) for _ in range(3)] == [200] * 3
        assert ask(address, "/healthz") == 200
        assert ask(address, "/session") == 503
        assert everything(slow[-1]).startswith(b"HTTP/1.1 503 ")
        assert slow[0].send(b" ") == 1  # one within the limit may take its time


def test_a_connection_is_not_counted_from_the_request_on_that_shows_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "voxyard.service.server.ConnectionLimit", lambda files: ConnectionLimit(files, max_per_address=1)
    )
    with service(tmp_path) as (address, key), httpx.Client(base_url=address, timeout=PATIENCE) as alice:
        assert alice.get("/v1/thing", headers=key).status_code == 200
        with dial(address, SLOW) as admitted:
            assert alice.get("/v1/thing", headers=key).status_code == 200
            crowded = alice.get("/session")

            assert crowded.status_code == 503
            assert crowded.headers["connection"] == "close"
            assert int(crowded.headers["retry-after"]) >= 1
            assert "limit: 1 per address" in crowded.json()["error"]["message"]
            assert alice.get("/session", headers=key).status_code == 200
            assert alice.get("/session", headers={"Authorization": "Bearer vox_wrong"}).status_code == 503
            admitted.close()
        eventually(lambda: ask(address, "/session") == 200)


def test_a_connection_above_the_limit_that_asks_for_nothing_is_closed_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "voxyard.service.server.ConnectionLimit", lambda files: ConnectionLimit(files, max_per_address=1)
    )
    monkeypatch.setattr("voxyard.service.http.protocol.KEY_SECONDS", 0.2)
    with service(tmp_path) as (address, _), dial(address, SLOW) as admitted, dial(address) as silent:
        received = everything(silent)
        assert received.startswith(b"HTTP/1.1 503 ")
        assert b"send the header `Authorization: Bearer KEY`" in received
        admitted.settimeout(0.05)  # nothing was said to it, nor was it closed
        with pytest.raises(TimeoutError):
            admitted.recv(1)


@pytest.mark.slow
def test_a_connection_that_had_its_answer_is_closed_without_a_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxyard.service.server.ConnectionLimit", one_per_address)
    monkeypatch.setattr("voxyard.service.http.protocol.KEY_SECONDS", 10.0)  # within which the answer has to be there
    health = b"GET /healthz HTTP/1.1\r\nHost: voxyard\r\n\r\n"
    with service(tmp_path) as (address, _), dial(address, SLOW), dial(address, health) as answered:
        received = everything(answered)
        assert received.startswith(b"HTTP/1.1 200 ")
        assert received.count(b"HTTP/1.1 ") == 1


def test_connections_are_limited_in_all_and_for_each_address_and_released() -> None:
    limit = ConnectionLimit(16_384, max_connections=3, max_per_address=2)
    first, second, third, fourth, fifth = (Visitor() for _ in range(5))

    assert [limit.admit(first, "a"), limit.admit(second, "a"), limit.admit(third, "a")] == [True, True, False]
    assert [limit.admit(fourth, "b"), limit.admit(fifth, "c")] == [True, False]
    limit.release(first)
    assert limit.admit(first, "b") is True
    limit.release(second)
    assert limit.admit(third, "a") is True
    for each in (first, third, fourth, fifth):
        limit.release(each)
    assert len(limit) == 0


def test_connections_without_a_key_never_take_more_than_a_quarter_of_the_open_files() -> None:
    limit, came = ConnectionLimit(64), [Visitor() for _ in range(40)]

    admitted = [limit.admit(each, "a") for each in came]

    assert admitted == [True] * 8 + [False] * 32
    assert len(limit) == 64 // FILES_SHARE
    assert [each.refused for each in came] == [False] * 8 + [True] * 24 + [False] * 8
