"""Checkpoints beside the training: one at a time, whole or not at all, and a failure that the run is told of."""

from __future__ import annotations

import logging
import math
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from disks import run_on_small_disk
from eventually import PATIENCE

from voxyard.trainer import checkpoint
from voxyard.trainer.checkpoint import CheckpointError
from voxyard.trainer.saving.run_checkpoints import RunCheckpoints


class HeldDisk:
    """A disk that writes a checkpoint when it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.room = threading.Semaphore(0), threading.Semaphore(0)
        self.failure: Exception | None = None
        self._save = checkpoint.save
        monkeypatch.setattr(checkpoint, "save", self._held)

    def is_asked(self) -> bool:
        """True when a checkpoint has reached the disk."""
        return self.asked.acquire(timeout=PATIENCE)

    def go_on(self) -> None:
        """Lets one checkpoint be written."""
        self.room.release()

    def _held(self, *arguments: Any, **more: Any) -> Path:
        self.asked.release()
        assert self.room.acquire(timeout=PATIENCE)
        if self.failure is not None:
            raise self.failure
        return self._save(*arguments, **more)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> HeldDisk:
    return HeldDisk(monkeypatch)


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[RunCheckpoints]:
    """Checkpoints of a run that starts anew."""
    with RunCheckpoints(tmp_path, keep=2) as made:
        yield made


def weight(value: float) -> Mapping[str, np.ndarray]:
    return {"model/w": np.full(4, value, np.float32)}


def steps(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_run_goes_on_while_a_checkpoint_is_written(tmp_path, saved, disk, caplog):
    """`begin` and `collect` wait for nothing, and the result is there when it is taken over."""
    caplog.set_level(logging.INFO)
    saved.begin(5, lambda: weight(5), {}, loss=math.inf)
    assert disk.is_asked()
    saved.collect()
    assert (saved.writing, saved.saved, steps(tmp_path)) == (True, 0, [])
    disk.go_on()
    saved.settle()
    assert (saved.writing, saved.saved, saved.count, steps(tmp_path)) == (False, 5, 1, ["step-00000005"])
    assert caplog.messages == [f"Checkpoint {tmp_path / 'step-00000005'}"]
    assert saved.mean_seconds == saved.seconds > 0


def test_a_second_checkpoint_waits_for_the_first_before_it_copies_the_state(tmp_path, saved, disk):
    """At most one copy of the state is held."""
    first_was_whole: list[bool] = []

    def state() -> Mapping[str, np.ndarray]:
        first_was_whole.append((tmp_path / "step-00000001").is_dir())
        return weight(2)

    saved.begin(1, lambda: weight(1), {}, loss=math.inf)
    assert disk.is_asked()
    second = threading.Thread(target=saved.begin, args=(2, state, {}), kwargs={"loss": math.inf})
    second.start()
    disk.go_on()
    assert disk.is_asked()
    second.join(PATIENCE)
    assert (first_was_whole, saved.saved) == ([True], 1)
    disk.go_on()


def test_the_end_waits_for_the_one_that_is_being_written(tmp_path, disk):
    """As after an error of the run, which is not hidden by it."""
    saved = RunCheckpoints(tmp_path, keep=2)
    saved.begin(3, lambda: weight(3), {}, loss=math.inf)
    disk.go_on()

    def fails() -> None:
        with saved:
            raise ValueError("the run's own error")

    with pytest.raises(ValueError, match="the run's own error"):
        fails()
    assert saved.saved == checkpoint.load(tmp_path / "step-00000003").step == 3


def test_a_worse_validation_does_not_become_the_best(tmp_path, saved):
    """The loss of the best is kept, and goes into the checkpoints after it."""
    for step, loss in ((1, 3.0), (2, 1.0), (3, 2.0), (4, math.nan), (5, math.inf)):
        saved.begin(step, lambda: weight(0), {}, loss=loss)
    saved.settle()
    assert (saved.best, (tmp_path / checkpoint.BEST).resolve().name) == (1.0, "step-00000002")
    assert [checkpoint.load(tmp_path / f"step-{step:08d}").meta["best"] for step in (2, 4, 5)] == [1.0, 1.0, 1.0]


def test_without_a_validation_there_is_no_best(tmp_path, saved):
    saved.begin(1, lambda: weight(0), {}, loss=math.inf)
    saved.settle()
    assert steps(tmp_path) == ["step-00000001"]
    assert checkpoint.load(tmp_path / "step-00000001").meta["best"] is None


def test_one_that_fails_is_in_the_log_and_is_not_the_best(tmp_path, saved, disk, caplog):
    disk.failure = CheckpointError("no room", exit_code=1)
    disk.go_on()
    saved.begin(4, lambda: weight(4), {}, loss=1.0)
    saved.settle()
    assert caplog.messages == ["no room"]
    assert (saved.saved, saved.best, saved.count) == (0, math.inf, 0)


def test_the_last_one_raises_what_it_fails_with(saved, disk):
    disk.failure = CheckpointError("no room", exit_code=1)
    disk.go_on()
    saved.begin(4, lambda: weight(4), {}, loss=1.0)
    with pytest.raises(CheckpointError, match="no room") as raised:
        saved.settle(must=True)
    assert raised.value.exit_code == 1


def test_a_fault_of_our_own_ends_the_run(saved, disk):
    disk.failure = ZeroDivisionError("a fault")
    disk.go_on()
    saved.begin(4, lambda: weight(4), {}, loss=1.0)
    with pytest.raises(ZeroDivisionError, match="a fault"):
        saved.settle()


def test_a_link_that_cannot_be_made_is_said_in_words(tmp_path, saved, monkeypatch):
    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    saved.begin(4, lambda: weight(4), {}, loss=1.0)
    with pytest.raises(CheckpointError, match="best cannot point to step-00000004: No space left on device"):
        saved.settle(must=True)


def test_a_full_disk_is_reported_by_the_thread_that_met_it(tmp_path):
    """On a real full file system: an error in the log in mid-run, raised at the end, and the first one whole."""
    program = """
import logging, math, sys, numpy as np
from pathlib import Path
from voxyard.trainer.checkpoint import CheckpointError, newest_good
from voxyard.trainer.saving.run_checkpoints import RunCheckpoints
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
directory = Path(sys.argv[1])
large = lambda: {"w": np.zeros(200_000, np.float32)}
with RunCheckpoints(directory, keep=3) as saved:
    saved.begin(1, lambda: {"w": np.zeros(1000, np.float32)}, {}, loss=math.inf)
    saved.begin(2, large, {}, loss=math.inf)
    saved.begin(3, large, {}, loss=math.inf)
    try:
        saved.settle(must=True)
    except CheckpointError as error:
        print("RAISED", error.exit_code, error)
print(sorted(path.name for path in directory.iterdir()), newest_good(directory).step)
"""
    done = run_on_small_disk("256k", tmp_path, program, tmp_path)
    assert done.returncode == 0, done.stderr
    logged, raised, found = done.stdout.splitlines()
    assert logged.startswith("ERROR checkpoint")
    assert "step-00000002 was not saved, No space left on device" in logged
    assert raised.startswith("RAISED 1 checkpoint")
    assert "step-00000003 was not saved, No space left on device" in raised
    assert found == "['step-00000001'] 1"


def test_a_kill_in_the_middle_leaves_the_earlier_one_and_no_rubbish_after_the_next(tmp_path):
    """SIGKILL while the second one is under its unfinished name; then a run that saves other steps."""
    program = """
import math, os, signal, sys, time, numpy as np
from pathlib import Path
from voxyard.host import durable_files
from voxyard.trainer.saving.run_checkpoints import RunCheckpoints
with RunCheckpoints(Path(sys.argv[1]), keep=3) as saved:
    saved.begin(1, lambda: {"w": np.ones(1000, np.float32)}, {}, loss=math.inf)
    saved.settle()
    durable_files.sync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    saved.begin(2, lambda: {"w": np.zeros(1000, np.float32)}, {}, loss=math.inf)
    time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert steps(tmp_path) == [".step-00000002.unfinished", "step-00000001"]
    found = checkpoint.newest_good(tmp_path)
    assert found is not None
    assert (found.step, found.state["w"].tolist()) == (1, [1.0] * 1000)
    with RunCheckpoints(tmp_path, keep=3, first=1) as saved:
        saved.begin(3, lambda: weight(3), {}, loss=math.inf)
    assert steps(tmp_path) == ["step-00000001", "step-00000003"]
