"""Child processes that answer: questions with bytes, limits of time, reasons of their end, an end with their parent."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from eventually import eventually

from voxyard.host.child_process import ChildError, ChildProcess, LateChildError

CHILD = """
import sys, time
from voxyard.host.child_process import Parent

parent = Parent()
print("what it prints is no answer")
while True:
    asked = parent.receive()
    match asked["do"]:
        case "add":
            parent.send({"sum": sum(parent.receive_bytes()) + sum(parent.receive_bytes()), "with": parent.arguments})
        case "sleep":
            time.sleep(600)
        case "fail":
            sys.exit("first line\\nno such thing")
"""
HOLDER = """
import sys, time
from voxyard.host.child_process import ChildProcess
child = ChildProcess("answering_child")
child.send({"do": "sleep"})
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of the children, where they look for modules."""
    (tmp_path / "answering_child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_question_with_bytes_is_answered() -> None:
    with ChildProcess("answering_child", "a", "b") as child:
        for _ in range(2):
            child.send({"do": "add"}, bytes([1, 2]), bytes([3]))
            assert child.receive(60) == {"sum": 6, "with": ["a", "b"]}


def test_an_answer_that_does_not_come_is_late_and_the_process_is_ended_with_the_block() -> None:
    with ChildProcess("answering_child") as child:
        child.send({"do": "sleep"})
        with pytest.raises(LateChildError, match=r"more than 0\.05 s"):
            child.receive(0.05)
    assert not Path(f"/proc/{child.pid}").exists()


def test_the_end_of_a_process_has_its_last_line_as_the_reason() -> None:
    with ChildProcess("answering_child", quotes=True) as child:
        child.send({"do": "fail"})
        with pytest.raises(ChildError, match=r"^no such thing$"):
            child.receive(60)
        with pytest.raises(ChildError, match=r"^no such thing$"):
            child.send({"do": "add"}, b"", b"")
    with ChildProcess("answering_child") as child:
        child.send({"do": "fail"})
        with pytest.raises(ChildError, match=r"^it ended with exit code 1$"):
            child.receive(60)


def test_a_kill_ends_a_call_that_waits() -> None:
    with ChildProcess("answering_child") as child:
        child.send({"do": "sleep"})
        killer = threading.Timer(0.1, child.kill)
        killer.start()
        with pytest.raises(ChildError, match="exit code -9"):
            child.receive()
        killer.join()


def test_a_busy_process_ends_with_its_killed_parent(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        holder.kill()
    eventually(lambda: not Path(f"/proc/{child}").exists(), "it has ended")
