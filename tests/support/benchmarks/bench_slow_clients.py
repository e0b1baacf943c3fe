"""Slow clients as a process of its own: readers at the pace of listening, or senders of bodies that never end.

`bench_slow_clients.py KIND URL KEY COUNT`, until standard input ends. It prints a line once all are connected (readers:
answered), and at its end what they got, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import resource
import select
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

LISTENING = 16_000  # bytes/s, as an MP3 of 128 kbit/s is played
_RECEIVE_BUFFER = 1 << 16
_TICKS = 20  # a second
_ANSWER_SECONDS = 30  # that a reader waits for the first byte before the others are counted as connected


def main(kind: str, url: str, key: str, count: int) -> None:
    """Connect, read or send slowly, and report."""
    _allow_files(count)
    address, clients = urlsplit(url), []
    for _ in range(count):
        with contextlib.suppress(OSError):  # refused: it counts as not connected
            clients.append(_connected(address.hostname or "", address.port or 80, _head(kind, url, key)))
    for client in clients if kind == "readers" else ():
        answer = select.poll()
        answer.register(client, select.POLLIN)
        answer.poll(_ANSWER_SECONDS * 1000)
    print(f"connected {len(clients)}", flush=True)
    got: Counter[str] = Counter()
    tick = 0
    while not select.select([sys.stdin], [], [], 1 / _TICKS)[0]:
        for client in clients[tick % _TICKS :: _TICKS]:
            if kind == "bodies":  # a byte a second
                with contextlib.suppress(OSError):
                    client.send(b"x")
            _read(client, got)
        tick += 1
    print(json.dumps({"connected": len(clients), **got}), flush=True)


def _head(kind: str, url: str, key: str) -> bytes:
    address = urlsplit(url)
    target = f"{address.path}?{address.query}" if address.query else address.path
    lines = [f"{'POST' if kind == 'bodies' else 'GET'} {target} HTTP/1.1", f"Host: {address.netloc}"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    if kind == "bodies":
        lines += ["Content-Type: application/json", "Content-Length: 60000"]
    return "\r\n".join([*lines, "", ""]).encode()


def _connected(host: str, port: int, head: bytes) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    client.connect((host, port))
    client.sendall(head)
    client.setblocking(False)
    return client


def _read(client: socket.socket, got: Counter[str]) -> None:
    """Read what may be read in a second."""
    try:
        block = client.recv(LISTENING)
    except BlockingIOError:
        return
    except OSError:
        block = b""
    got["bytes"] += len(block)
    if block.startswith(b"HTTP/1.1 "):
        got[f"status_{block[9:12].decode()}"] += 1


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 64
    if soft < wanted and (hard == resource.RLIM_INFINITY or hard >= wanted):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextmanager
def slow_clients(kind: str, url: str, key: str, count: int) -> Iterator[dict[str, int]]:
    """So many `readers` of a URL, or senders of `bodies` to it, for the block; what they got is known at its end."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__)), kind, url, key, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    got: dict[str, int] = {}
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield got
    finally:
        output, _ = process.communicate("\n", timeout=60)
        got.update(json.loads(output.strip().splitlines()[-1]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
