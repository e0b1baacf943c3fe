"""Runs in forks, as the tests of the trainer start them: one that is given up leaves the next one its own answer."""

from __future__ import annotations

import signal
from types import FrameType

import pytest
from forked import run_forked, server_of
from runs import environment


def late(_: int, __: FrameType | None) -> None:
    raise TimeoutError("the test's own deadline")


def test_a_run_that_its_test_gives_up_is_killed_and_the_next_one_has_its_own_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server_of()  # it takes seconds to start
    before = signal.signal(signal.SIGALRM, late)
    left = signal.setitimer(signal.ITIMER_REAL, 2)  # pytest's deadline of this test uses the same clock
    try:
        with pytest.raises(TimeoutError, match="own deadline"):
            run_forked(environment=environment(), source="import time; print('begun', flush=True); time.sleep(600)")
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)
    assert "begun" in capsys.readouterr().out, "what it had said, for the reader of the failure"
    for code in (3, 0):
        found = run_forked(environment=environment(), source=f"print('here'); raise SystemExit({code})")
        assert (found.returncode, found.stdout) == (code, "here\n")
