"""Child processes of the demo: none fails unnoticed, and none is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from eventually import PATIENCE, eventually

from demo import processes
from demo.processes import ChildCommand, Children, DemoError, command, with_variables
from demo.sound import Sound

ROOT = Path(__file__).resolve().parents[3]
FAMILY = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)\n"
)
DEAF = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(600)\n"
)


def python(code: str) -> ChildCommand:
    """A command that runs a program in Python."""
    return command(sys.executable, "-c", code)


@pytest.fixture
def lines() -> list[str]:
    """Output of the demo so far."""
    return []


@pytest.fixture
def children(tmp_path: Path, lines: list[str]) -> Children:
    """No process yet."""
    return Children(tmp_path / "logs", lines.append)


def ended(pid: int) -> bool:
    """True for a process that has ended, whether its parent has asked for its exit code or not."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_command_is_printed_logged_and_timed(children: Children, lines: list[str]) -> None:
    with children:
        seconds = children.run("greet", "greeting", python("print('good morning')"))
    (record,) = children.records
    assert record.seconds == seconds > 0
    assert lines == [f"  $ {record.command}", "  greet     good morning"]
    assert record.log.read_text() == f"$ {record.command}\ngood morning\n"


def test_a_failing_command_ends_the_demo_with_its_last_lines(children: Children) -> None:
    code = "import sys\nfor n in range(99): print('line', n)\nprint('no room', file=sys.stderr)\nsys.exit(3)"
    with pytest.raises(DemoError) as caught, children:
        children.run("prepare", "preparing", python(code))
    said = str(caught.value)
    assert said.startswith("prepare ended with exit code 3; its last lines were:\n  line 85\n")
    assert f"  no room\nall of them: {children.records[0].log}" in said


def test_a_command_that_is_killed_is_named_with_the_signal(children: Children) -> None:
    with pytest.raises(DemoError, match="train was ended by SIGKILL"), children:
        children.run("train", "training", python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))


def test_a_program_that_is_missing_is_named(children: Children) -> None:
    with pytest.raises(DemoError, match=r"no-such-program cannot be started: No such file"), children:
        children.run("x", "x", command("no-such-program"))


def test_a_server_that_dies_while_another_command_runs_ends_the_demo(children: Children) -> None:
    with children:
        children.serve("service", "serving", python("print('port taken'); raise SystemExit(7)"))
        with pytest.raises(DemoError, match=r"(?s)service ended with exit code 7.*port taken"):
            children.run("client", "asking", python("import time; time.sleep(600)"))
    assert all(record.seconds is not None for record in children.records)


def test_leaving_the_block_ends_children_and_their_children(children: Children) -> None:
    with children:
        child = children.serve("service", "serving", python(FAMILY))
        eventually(lambda: child.record.log.exists() and child.record.log.read_text().splitlines()[5:])
        grandchild = int(child.record.log.read_text().splitlines()[5])
        assert psutil.pid_exists(grandchild)
    eventually(lambda: ended(grandchild))
    assert not psutil.pid_exists(child.group)
    assert child.record.seconds is not None


def test_a_child_that_does_not_listen_is_killed(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.3)
    with children:
        child = children.serve("deaf", "not listening", python(DEAF))
        eventually(lambda: child.record.log.exists() and "\ndeaf\n" in child.record.log.read_text())
    assert not psutil.pid_exists(child.group)


def test_a_wait_has_an_end(children: Children) -> None:
    with pytest.raises(DemoError, match="after 0 s still not: the service has its model"), children:
        children.until(lambda: False, seconds=0.1, say="the service has its model")


def test_output_can_go_to_a_file_and_the_rest_to_the_log(children: Children, tmp_path: Path) -> None:
    file = tmp_path / "answer.json"
    code = "import sys; print('{}'); print('working', file=sys.stderr)"
    with children:
        children.run("ask", "asking", command(sys.executable, "-c", code, stdout=file))
    assert file.read_text() == "{}\n"
    assert children.records[0].log.read_text().endswith("\nworking\n")
    assert children.records[0].command.endswith(f" > {file}")


def test_a_command_is_shown_as_it_can_be_pasted_into_a_shell() -> None:
    made = with_variables(command("say", "it's", 3), {"PLACE": "a b", "SECRET": "x"}, ["PLACE"])
    assert str(made) == "PLACE='a b' say 'it'\"'\"'s' 3"
    assert made.environment == {"PLACE": "a b", "SECRET": "x"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
def test_an_interrupted_demo_ends_every_program_and_says_so(tmp_path: Path, number: signal.Signals) -> None:
    asked = [sys.executable, "scripts/demo", "--out", str(tmp_path / "demo"), "--clips", "24"]
    with subprocess.Popen(asked, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if line.startswith("  profile "):
                break
        started = psutil.Process(demo.pid).children(recursive=True)
        os.kill(demo.pid, number)
        _, errors = demo.communicate(timeout=PATIENCE)
    assert started
    assert errors == "interrupted: every program that the demo had started was ended\n"
    assert demo.returncode == 130
    assert psutil.wait_procs(started, timeout=PATIENCE)[1] == []
    assert not (tmp_path / "demo/index.html").exists()


def test_a_failure_beside_a_wait_ends_the_wait(children: Children) -> None:
    with children:
        children.start("train", "training", python("print('port taken'); raise SystemExit(3)"))
        with pytest.raises(DemoError, match=r"(?s)train ended with exit code 3.*port taken"):
            children.until(lambda: False, seconds=60, say="the service has its model")
        children.until(lambda: True)
    assert children.records[0].failed


def test_a_command_that_ends_well_beside_a_wait_is_no_failure(children: Children) -> None:
    with children:
        child = children.start("train", "training", python("pass"))
        eventually(child.ended)
        children.run("client", "asking", python("import time; time.sleep(0.3)"))
        children.finish(child)
    assert not any(record.failed for record in children.records)


def test_a_demo_that_is_killed_takes_its_programs_with_it(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom demo.processes import Children, command\n"
        f"with Children(Path({str(tmp_path)!r}), print) as children:\n"
        "    child = children.serve('service', 'serving', command('sleep', 600))\n"
        "    print(child.group, flush=True)\n    time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    ) as demo:  # fmt: skip
        assert demo.stdout is not None
        served = int([demo.stdout.readline() for _ in range(2)][1])
        assert psutil.pid_exists(served)
        demo.kill()
    eventually(lambda: ended(served))


def test_a_demo_that_is_interrupted_at_once_says_so_in_one_line(tmp_path: Path) -> None:
    asked = [sys.executable, "scripts/demo", "--out", str(tmp_path / "demo")]
    with subprocess.Popen(asked, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        eventually(lambda: _catches(demo.pid, signal.SIGHUP))
        demo.send_signal(signal.SIGINT)
        said, errors = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, said, errors) == (130, "", "interrupted: the demo had not begun\n")


@pytest.mark.slow
def test_a_part_that_the_rest_needs_ends_the_demo_with_a_page(tmp_path: Path) -> None:
    (tmp_path / "corpus/wavs").mkdir(parents=True)
    (tmp_path / "corpus/metadata.csv").write_text("one|A text.|A text.\n")
    (tmp_path / "corpus/wavs/one.wav").write_bytes(Sound(np.zeros(50), 22050).wav())
    asked = [sys.executable, "scripts/demo", "--out", str(tmp_path / "demo"), "--corpus", str(tmp_path / "corpus")]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith("the demo failed: prepare ended with exit code ")
    assert done.stdout.splitlines()[-1] == f"{tmp_path}/demo/index.html"
    assert "prepare ended with exit code" in (tmp_path / "demo/index.html").read_text(encoding="utf-8")


def _catches(number: int, caught: signal.Signals) -> bool:
    """True where a process has a handler for a signal."""
    status = Path(f"/proc/{number}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (caught - 1) & 1)
