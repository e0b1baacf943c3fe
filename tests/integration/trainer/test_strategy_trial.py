"""One trial of `--strategy auto` that is interrupted."""

from __future__ import annotations

import threading

import pytest

from voxyard.trainer.autotune import trial_process


def test_sigterm_as_a_trial_begins_leaves_no_thread_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM may come while the thread of the time limit starts: the program would end half an hour later."""
    started: list[threading.Timer] = []
    start = threading.Timer.start

    def interrupted(timer: threading.Timer) -> None:
        start(timer)
        started.append(timer)
        raise SystemExit(0)

    monkeypatch.setattr(threading.Timer, "start", interrupted)
    with pytest.raises(SystemExit):
        trial_process.ask({"config": {}})
    (timer,) = started
    timer.join(10)
    assert not timer.is_alive()
