"""Meeting of the hosts of a run before TensorFlow starts: all are there, fit each other, and know it. No TensorFlow.

TensorFlow's own start waits in C++ for hosts that are missing, without a word and deaf to Ctrl-C, and takes whatever
versions it finds. Here the first host listens where its server will listen, each other one sends it a line of JSON, and
all get the same answer: to start, or the reason why not. The connections are closed before the servers start.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import selectors
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from voxyard.trainer.errors import TrainerError
from voxyard.trainer.hosts.addresses import HostAddress, HostGroup, resolve

log = logging.getLogger("voxyard.trainer")

MAGIC = "voxyard training hosts 1"
LONGEST_LINE = 65536  # bytes of what a host says
LINE_SECONDS = 5.0  # in which a caller sends its line, and a port answers
REMIND_SECONDS = 10.0
RETRY_SECONDS = 0.5
GPU = "GPU of the model"  # the fact that --allow-mixed lets differ

Facts = Mapping[str, str]


def meet(
    group: HostGroup, facts: Facts, *, wait: float, allow_mixed: bool, tell: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """Returns on every host when all are there and fit, with what the first one has to `tell`.

    `facts` must be the same on all: versions, settings, corpus.

    Raises TrainerError: an address that is not this host's or not private, a port in use, hosts that do not fit, or
    `wait` seconds without all of them.
    """
    resolved = [resolve(one) for one in group.addresses]
    end = time.monotonic() + wait
    with _listening(group, resolved[group.index]) as server:
        log.info("This is %s of %d", group.name(group.index), group.count)
        if group.is_first:
            told = dict(tell or {})
            refused = _gather(group, server, facts, told, end=end, wait=wait, allow_mixed=allow_mixed)
        else:
            refused, told = _attend(group, resolved[0], facts, end=end, wait=wait)
    if refused:
        raise TrainerError(refused)
    log.info("All %d hosts are there", group.count)
    return told


def differences(group: HostGroup, facts: Mapping[int, Facts], *, allow_mixed: bool) -> str:
    """Facts in which hosts differ from the first, a line each; "" where they fit."""
    first, lines = facts[0], []
    for index in sorted(facts):
        for name in sorted(first.keys() | facts[index].keys()):
            if name == GPU and allow_mixed:
                continue
            mine, other = first.get(name, "none"), facts[index].get(name, "none")
            if mine != other:
                lines.append(f"  {name}: {mine} on {group.name(0)}, {other} on {group.name(index)}")
    if not lines:
        return ""
    advice = "--allow-mixed trains on unlike GPUs, as fast as the slowest" if any(GPU in line for line in lines) else ""
    what = "the hosts of a run must be alike, and differ:\n" + "\n".join(lines)
    return f"{what}\n{advice}".rstrip()


@contextmanager
def _listening(group: HostGroup, own: str) -> Iterator[socket.socket]:
    """The port of this host's server, held until the meeting is over."""
    address = group.addresses[group.index]
    try:
        server = socket.create_server((own, address.port), backlog=group.count + 8)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            why = f"port {address.port} is in use by another program: choose another one in --hosts, on every host"
        elif error.errno == errno.EADDRNOTAVAIL:
            why = f"{own} is no address of this host: is --host-index {group.index} right, on the host's own network?"
        else:
            why = f"port {address.port} cannot be listened on: {os.strerror(error.errno or 0)}"
        raise TrainerError(f"--hosts: {group.name(group.index)}: {why}") from error
    with closing(server):
        yield server


# -- the first host --------------------------------------------------------------------------------------------------


def _gather(
    group: HostGroup,
    server: socket.socket,
    facts: Facts,
    tell: Mapping[str, Any],
    *,
    end: float,
    wait: float,
    allow_mixed: bool,
) -> str:
    """Waits for all others and answers them; the reason why the run does not start, "" where it does."""
    calls: dict[int, tuple[socket.socket, Facts]] = {}
    remind = time.monotonic() + REMIND_SECONDS
    refused = ""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(server, selectors.EVENT_READ)
            while len(calls) < group.count - 1 and not refused:
                if selector.select(min(1.0, max(0.0, end - time.monotonic()))):
                    refused = _take(group, server, calls)
                for index in [index for index, (call, _) in calls.items() if _hung_up(call)]:
                    log.warning("%s has gone again", group.name(index))
                    calls.pop(index)[0].close()
                missing = ", ".join(group.name(each) for each in range(1, group.count) if each not in calls)
                if missing and time.monotonic() >= end:
                    refused = f"after {wait:g} s there is no sign of {missing}: is it started there, and its port open?"
                elif missing and time.monotonic() >= remind:
                    log.info("Waiting for %s", missing)
                    remind += REMIND_SECONDS
        refused = refused or differences(
            group, {0: facts, **{index: said for index, (_, said) in calls.items()}}, allow_mixed=allow_mixed
        )
        refused = refused or _closed_ports(group)
        for call, _ in calls.values():
            _answer(call, refused, tell)
    finally:
        for call, _ in calls.values():
            call.close()
    return refused


def _take(group: HostGroup, server: socket.socket, calls: dict[int, tuple[socket.socket, Facts]]) -> str:
    """Takes one call; a reason to refuse the run, where the caller belongs to it and cannot be right."""
    call, peer = server.accept()
    said = _read_line(call)
    if said is None or said.get("magic") != MAGIC:
        log.warning("A program at %s connected that is no host of a run: ignored", peer[0])
        call.close()
        return ""
    index, theirs = said.get("index"), said.get("hosts")
    wrong, ours = "", [str(one) for one in group.addresses]
    if theirs != ours:
        wrong = f"a host at {peer[0]} was started with --hosts {','.join(map(str, theirs or ()))}, this one with "
        wrong += f"{','.join(ours)}: give the same list, in one order, on every host"
    elif not isinstance(index, int) or not 0 < index < group.count:
        wrong = f"a host at {peer[0]} was started with --host-index {index}, as this one was: give each its own"
    elif index in calls and not _hung_up(calls[index][0]):
        wrong = f"two hosts were started with --host-index {index}: give each its own"
    if wrong:
        _answer(call, wrong)
        call.close()
        return wrong
    calls[int(index or 0)] = call, {str(name): str(value) for name, value in dict(said.get("facts", {})).items()}
    log.info("%s is there", group.name(int(index or 0)))
    return ""


def _closed_ports(group: HostGroup) -> str:
    """The hosts that this one cannot connect to, though they can connect to it; "" where there are none."""
    closed = []
    for index, one in enumerate(group.addresses[1:], 1):
        try:
            socket.create_connection((resolve(one), one.port), LINE_SECONDS).close()
        except OSError as error:
            closed.append(f"{group.name(index)}: {error.strerror or error}")
    if not closed:
        return ""
    return f"{group.name(0)} cannot connect to {'; '.join(closed)}: open its port to the hosts of the run, to no other"


def _answer(call: socket.socket, refused: str, tell: Mapping[str, Any] | None = None) -> None:
    try:
        call.sendall(json.dumps({"magic": MAGIC, "refused": refused, "told": dict(tell or {})}).encode() + b"\n")
    except OSError as error:  # it finds the connection closed, and tries again until its time is up
        log.warning("A host of the run has gone: %s", error.strerror)


def _hung_up(call: socket.socket) -> bool:
    """True where the other end has closed the connection; after its line it says nothing more."""
    call.setblocking(False)
    try:
        return call.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        call.settimeout(LINE_SECONDS)


# -- the others ------------------------------------------------------------------------------------------------------


def _attend(group: HostGroup, leader: str, facts: Facts, *, end: float, wait: float) -> tuple[str, dict[str, Any]]:
    """Tells the first host of this one, and waits for its answer; why the run does not start, and what was told."""
    hello = {"magic": MAGIC, "index": group.index, "hosts": [str(one) for one in group.addresses], "facts": dict(facts)}
    line = json.dumps(hello).encode() + b"\n"
    remind = time.monotonic() + REMIND_SECONDS
    while time.monotonic() < end:
        answer = _ask(group.addresses[0], leader, line, end)
        if answer is not None:
            return str(answer.get("refused", "")), dict(answer.get("told", {}))
        if time.monotonic() >= remind:
            log.info("Waiting for %s", group.name(0))
            remind += REMIND_SECONDS
        time.sleep(RETRY_SECONDS)
    return f"after {wait:g} s there is no answer from {group.name(0)}: is it started there, and its port open?", {}


def _ask(address: HostAddress, leader: str, line: bytes, end: float) -> Mapping[str, Any] | None:
    """The first host's answer; None where it is not there (any more)."""
    try:
        with socket.create_connection((leader, address.port), LINE_SECONDS) as call:
            call.sendall(line)
            # A little longer than the first host waits, which knows who is missing.
            answer = _read_line(call, LINE_SECONDS + max(0.0, end - time.monotonic()))
    except OSError:
        return None
    return answer if answer is not None and answer.get("magic") == MAGIC else None


def _read_line(call: socket.socket, seconds: float = LINE_SECONDS) -> dict[str, Any] | None:
    """A line of JSON, None where no such line comes in time."""
    call.settimeout(seconds)
    text = b""
    try:
        while not text.endswith(b"\n") and len(text) < LONGEST_LINE:
            part = call.recv(4096)
            if not part:
                return None
            text += part
        found = json.loads(text)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
