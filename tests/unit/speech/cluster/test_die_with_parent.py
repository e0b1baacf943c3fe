"""What is to die with its parent does so, even where that is killed: a worker that hangs, and a Ray node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from eventually import eventually

PARENT = """
import sys, time
from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.worker_process import Device, WorkerProcess
process = WorkerProcess(
    Device("cpu0"), EngineSpec("engines:tones", {"marks": sys.argv[1], "faults": {"prepare": ["stop", 1]}}), 1.0,
    lambda message: None, die_with_parent=True,
)
print(process.pid, flush=True)
time.sleep(600)
"""

NODE = """
import os, sys, time, types
from voxyard.speech.cluster.start_hook import prepare
parameters = types.SimpleNamespace(ray_client_server_port=10001)
prepare(parameters, True)
print(os.getpid(), parameters.ray_client_server_port, flush=True)
time.sleep(600)
"""
OWNER = """
import os, subprocess, sys
owner = sys.argv[2] or str(os.getpid())
subprocess.run([sys.executable, "-c", sys.argv[1]], env={**os.environ, "VOXYARD_NODE_OWNER": owner})
"""


def test_a_stopped_worker_dies_with_its_parent(tmp_path: Path) -> None:
    folders = [folder for folder in sys.path if folder]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
    )  # fmt: skip
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    eventually(lambda: _state(worker) == "T")

    parent.send_signal(signal.SIGKILL)
    parent.wait()

    eventually(lambda: _state(worker) in ("", "Z"))


def test_a_node_dies_with_its_owner_and_has_no_client_server() -> None:
    with _owner("") as owner:
        assert owner.stdout is not None
        pid, client_port = owner.stdout.readline().split()
        assert client_port == "None"

        owner.send_signal(signal.SIGKILL)
        owner.wait()

    eventually(lambda: _state(int(pid)) in ("", "Z"))


def test_a_node_whose_owner_has_ended_already_does_not_start() -> None:
    with _owner("1") as owner:
        output, _ = owner.communicate(timeout=60)

    assert output == "the voxyard that started this node has ended\n"


def _owner(pid: str) -> subprocess.Popen[str]:
    """A process that runs a node, whose owner has this process id; "" for its own."""
    folders = [folder for folder in sys.path if folder]
    return subprocess.Popen(
        [sys.executable, "-c", OWNER, NODE, pid], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
    )  # fmt: skip


def _state(pid: int) -> str:
    """A process's state as /proc tells it; "" where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
