"""Connections: who waits for a request gives way, who is answered does not, and nobody stays for ever."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from voxyard.telemetry.server import MOST_CLIENTS, MOST_OF_ADDRESS, REQUEST_SECONDS, Connections


class Ends:
    """Pairs of sockets; of each the server's end, and whether it was ended."""

    def __init__(self) -> None:
        self._pairs: list[tuple[socket.socket, socket.socket]] = []

    def new(self) -> socket.socket:
        self._pairs.append(socket.socketpair())
        return self._pairs[-1][0]

    def ended(self) -> list[int]:
        return [at for at, (_, client) in enumerate(self._pairs) if _is_ended(client)]

    def close(self) -> None:
        for each in (end for pair in self._pairs for end in pair):
            each.close()


def _is_ended(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


@pytest.fixture
def ends() -> Iterator[Ends]:
    found = Ends()
    yield found
    found.close()


def test_the_oldest_silent_one_of_an_address_gives_way_and_others_stay(ends: Ends) -> None:
    connections = Connections()
    sockets = [ends.new() for _ in range(MOST_OF_ADDRESS + 1)]
    assert connections.admit(sockets[0], "10.0.0.1")
    assert all(connections.admit(each, "10.0.0.2") for each in sockets[1:])
    connections.answering(sockets[1])
    assert connections.admit(ends.new(), "10.0.0.2")
    assert ends.ended() == [2]
    assert len(connections) == MOST_OF_ADDRESS + 1


def test_where_all_are_answered_a_further_one_of_the_address_is_refused(ends: Ends) -> None:
    connections = Connections()
    for _ in range(MOST_OF_ADDRESS):
        request = ends.new()
        assert connections.admit(request, "10.0.0.1")
        connections.answering(request)
    assert not connections.admit(ends.new(), "10.0.0.1")
    assert connections.admit(ends.new(), "10.0.0.2")


def test_where_all_places_are_taken_the_address_with_most_gives_way(ends: Ends) -> None:
    connections = Connections()
    for number in range(MOST_CLIENTS):
        assert connections.admit(ends.new(), f"10.0.0.{min(number, 50)}")
    assert connections.admit(ends.new(), "10.0.1.1")
    assert ends.ended() == [50]


def test_a_connection_ends_with_its_time_whatever_it_sends(ends: Ends) -> None:
    now = [0.0]
    connections = Connections(lambda: now[0])
    first, second = ends.new(), ends.new()
    connections.admit(first, "10.0.0.1")
    connections.answering(first)
    now[0] = 1.0
    connections.admit(second, "10.0.0.1")
    now[0] = REQUEST_SECONDS
    connections.end_overdue()
    assert ends.ended() == [0]
    connections.remove(second)
    assert len(connections) == 0
