"""Start in its own place of a run that lost a host: the limit, the command line, what stays open."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from voxyard.trainer.hosts import again

NOW = 1_800_000_000.0
STARTS: dict[str, tuple[int, str, str | None]] = {
    "no limit was given": (0, "", None),
    "the first time": (3, "", f"{NOW}"),
    "the third time": (3, f"{NOW - 60} {NOW - 30}", f"{NOW - 60} {NOW - 30} {NOW}"),
    "the fourth time in an hour": (3, f"{NOW - 90} {NOW - 60} {NOW - 30}", None),
    "earlier hours do not count": (3, f"{NOW - 3600} {NOW - 60} {NOW - 30}", f"{NOW - 60} {NOW - 30} {NOW}"),
    "nor does a clock that was ahead": (1, f"{NOW + 60}", f"{NOW}"),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_run_starts_again_so_many_times_an_hour(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit, before, expected = STARTS[name]
    monkeypatch.setenv(again.VARIABLE, before)
    asked: list[tuple[str, list[str]]] = []
    again.start_again(limit, "host 1 is gone", NOW, lambda program, words: asked.append((program, list(words))))
    assert asked == ([] if expected is None else [(sys.executable, [sys.executable, *sys.orig_argv[1:]])])
    assert os.environ[again.VARIABLE] == (before if expected is None else expected)


def test_the_new_process_has_the_command_line_and_nothing_of_what_was_open() -> None:
    program = (
        "import os, socket, sys; from voxyard.trainer.hosts.again import start_again\n"
        "held = socket.create_server(('127.0.0.1', 0)); os.set_inheritable(held.fileno(), True)\n"
        "print(os.getpid(), sys.argv[1:], sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1], flush=True)\n"
        "start_again(1, 'host 1 is gone')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "a b", "c"], capture_output=True, text=True, check=True, timeout=120
    )
    first, second = done.stdout.splitlines()
    assert first == second
    assert "['a b', 'c']" in first
