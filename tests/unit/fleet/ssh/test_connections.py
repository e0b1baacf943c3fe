"""Connection pool: one connection per host and command, several hosts in parallel, Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from eventually import PATIENCE
from fleet_doubles import RecordingSession

from fleet.errors import HostFailedError
from fleet.inventory.hosts import Host
from fleet.rollout.context import Cancellation, RolloutCancelledError
from fleet.ssh.connection_pool import Connections, Session, on_every_host
from tasks.base import graceful_stop

HOSTS = [Host(f"gpu-{number}", "192.0.2.1", "voxyard") for number in range(6)]


class Doors:
    """Counts what is opened and closed."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []

    @contextmanager
    def connect(self, host: Host) -> Iterator[Session]:
        if host.name == "gpu-5":
            raise HostFailedError("gpu-5 cannot be reached")
        self.opened.append(host.name)
        time.sleep(0.05)
        yield RecordingSession()
        self.closed.append(host.name)


def test_a_host_is_connected_once_however_often_it_is_needed() -> None:
    doors = Doors()
    with Connections(doors.connect) as connections:
        found = on_every_host(HOSTS[:3] * 4, lambda host: id(connections.to(host)), parallel=12)
        with connections.shared(HOSTS[0]) as again:
            assert id(again) == found.succeeded["gpu-0"]
        assert doors.closed == []
    assert sorted(doors.opened) == sorted(doors.closed) == ["gpu-0", "gpu-1", "gpu-2"]


def test_a_host_that_cannot_be_reached_is_tried_anew_and_is_no_matter_of_the_others() -> None:
    doors = Doors()
    with Connections(doors.connect) as connections:
        for _ in range(2):
            with pytest.raises(HostFailedError, match="cannot be reached"):
                connections.to(HOSTS[5])
        connections.to(HOSTS[0])
    assert doors.closed == ["gpu-0"]


def test_all_are_closed_when_the_command_fails() -> None:
    doors = Doors()

    def command() -> None:
        with Connections(doors.connect) as connections:
            on_every_host(HOSTS[:5], connections.to)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command()
    assert sorted(doors.closed) == sorted(doors.opened) == [f"gpu-{number}" for number in range(5)]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when the pool has been told to stop: what has begun goes on until then."""
    event, stop = threading.Event(), ThreadPoolExecutor.shutdown

    def shutdown(pool: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False) -> None:
        stop(pool, False, cancel_futures=cancel_futures)
        event.set()
        stop(pool, wait)

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
    return event


@pytest.mark.parametrize("given_out", [3, len(HOSTS)], ids=["while hosts are given out", "after that"])
def test_after_ctrl_c_no_other_host_is_begun_and_those_at_work_come_to_their_end(
    monkeypatch: pytest.MonkeyPatch, told: threading.Event, given_out: int
) -> None:
    began: list[str] = []
    ended: list[str] = []
    all_given = threading.Event()
    give = ThreadPoolExecutor.submit

    def submit(pool: ThreadPoolExecutor, work: Callable[[Host], None], host: Host) -> Future[None]:
        if HOSTS.index(host) == given_out:
            raise KeyboardInterrupt
        future = give(pool, work, host)
        if host is HOSTS[-1]:
            all_given.set()
        return future

    def work(host: Host) -> None:
        began.append(host.name)
        if host is HOSTS[1] and given_out == len(HOSTS):
            assert all_given.wait(PATIENCE)
            os.kill(os.getpid(), signal.SIGINT)
        assert told.wait(PATIENCE)
        ended.append(host.name)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    with pytest.raises(KeyboardInterrupt):
        on_every_host(HOSTS, work, parallel=2)
    assert sorted(began) == sorted(ended)
    assert len(began) < given_out


def test_every_host_has_a_result_where_ctrl_c_comes_while_they_are_given_out(
    monkeypatch: pytest.MonkeyPatch, told: threading.Event
) -> None:
    give, began = ThreadPoolExecutor.submit, threading.Event()

    def submit(pool: ThreadPoolExecutor, work: Callable[[Host], None], host: Host) -> Future[None]:
        if host is HOSTS[3]:
            assert began.wait(PATIENCE)
            raise KeyboardInterrupt
        return give(pool, work, host)

    def work(_: Host) -> None:
        began.set()
        assert told.wait(PATIENCE)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    found = on_every_host(HOSTS, work, parallel=1, keep=True)
    assert list(found.succeeded) == ["gpu-0"]
    assert list(found.failed) == [host.name for host in HOSTS[1:]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_stops_in_order_the_second_without_going_back_and_the_third_at_once(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    cancellation = Cancellation()
    with graceful_stop(cancellation):
        os.kill(os.getpid(), number)
        assert cancellation.asked
        cancellation.check(rolling_back=True)
        os.kill(os.getpid(), number)
        with pytest.raises(RolloutCancelledError):
            cancellation.check(rolling_back=True)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    first, second = capsys.readouterr().err.splitlines()
    assert "stopping after the current steps; a host that is being changed is rolled back" in first
    assert "leaving hosts as they are; a third signal stops at once" in second
    assert signal.getsignal(number) == before


def test_a_wait_ends_when_somebody_wants_to_stop() -> None:
    cancellation = Cancellation()
    threading.Timer(0.2, cancellation.ask).start()
    with pytest.raises(RolloutCancelledError):
        cancellation.wait(600)
    cancellation.wait(0.01, rolling_back=True)
    with pytest.raises(RolloutCancelledError):
        cancellation.check()
