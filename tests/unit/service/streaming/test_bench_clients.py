"""Clients of make bench-service: what wrk reports, and slow readers that are a process of their own."""

from __future__ import annotations

import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import bench_wrk
import pytest
from bench_slow_clients import slow_clients
from bench_wrk import Load, WrkError

SIZE = 400_000  # bytes
OUTPUT = """Running 1s test @ http://127.0.0.1:1/
Transfer/sec:      1.00MB
{"requests":30,"seconds":1.500000,"refused":6,"broken":1,"p50":2500.000,"p99":9000.000}
"""


def test_the_last_line_of_wrk_is_its_result() -> None:
    load = bench_wrk.parsed(OUTPUT)
    assert load == Load(requests=30, seconds=1.5, refused=6, broken=1, p50=0.0025, p99=0.009)
    assert (load.answered, load.per_second) == (24, 16.0)


def test_a_service_that_answers_nothing_is_slower_than_the_load_is_long() -> None:
    silent = '{"requests":0,"seconds":3.100000,"refused":0,"broken":0,"p50":0.000,"p99":0.000}'
    assert (bench_wrk.parsed(silent).p99, bench_wrk.parsed(silent).per_second) == (3.1, 0.0)


@pytest.mark.parametrize("output", ["", "unable to connect to 127.0.0.1:1 Connection refused\n"])
def test_a_wrk_that_has_not_measured_is_an_error(output: str) -> None:
    with pytest.raises(WrkError, match="has not measured"):
        bench_wrk.parsed(output)


def test_without_wrk_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(WrkError, match="apt-get install wrk"):
        bench_wrk.check_wrk()


def test_a_script_posts_its_body_as_json_with_quotes_kept() -> None:
    lua = bench_wrk.script({"Authorization": "Bearer x"}, {"input": 'He said "no".\n'})
    assert 'wrk.headers["Authorization"] = "Bearer x"' in lua
    assert r'wrk.body = "{\"input\": \"He said \\\"no\\\".\\n\"}"' in lua
    assert "wrk.body" not in bench_wrk.script({})


class _Audio(BaseHTTPRequestHandler):
    """Answers each GET with more than a reader takes in its first turns."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(SIZE))
        self.end_headers()
        self.wfile.write(bytes(SIZE))

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_slow_readers_take_a_second_of_audio_a_second_and_are_counted_by_their_answers() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Audio) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with slow_clients("readers", f"http://127.0.0.1:{server.server_port}/audio?format=mp3", "", 3) as got:
            assert got == {}
            threading.Event().wait(3.0)
        server.shutdown()

    assert (got["connected"], got["status_200"]) == (3, 3)
    assert 0 < got["bytes"] < 3 * SIZE
