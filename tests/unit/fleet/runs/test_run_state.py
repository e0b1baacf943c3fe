"""State of a run, from its files, containers and logs."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from fleet_doubles import RecordingSession, uuid

from fleet.errors import HostFailedError
from fleet.runs.state import TrainingRun, read_runs
from fleet.ssh.command_batch import Answer

MANIFEST = {
    "run": "demo-1", "host": "gpu-01", "by": "me@here", "release": "0123456789ab", "image": "voxyard-trainer:abc",
    "config": "c" * 12, "gpus": [uuid(0), uuid(1)], "limits": {uuid(0): 16384}, "device": "auto",
    "address": "192.0.2.11", "port": 9411, "stop_seconds": 120, "inputs": {"train": {"name": "demo", "id": "1" * 12}},
}  # fmt: skip
REPORT = {"ended": "the end is reached", "last_step": 20, "losses": {"total": 3.25}}
LOG = (
    "Model: 1.0 M parameters\nstep 4/20: 0.9 steps/s, loss –, data wait 0%\n"
    "step 8/20: 1.1 steps/s, loss 5.5 at step 6, data\n"
)
AGAIN = "WARNING: Starting again: 1 of 3 times an hour\n"


def encoded(value: object) -> str:
    return base64.b64encode((value if isinstance(value, str) else json.dumps(value)).encode()).decode()


def listing(*, report: Any = None, newest: str = "", start: str = "0", drained: str = "no") -> Answer:
    said = "-" if report is None else encoded(report)
    return Answer(f"demo-1 {encoded(MANIFEST)} {said} {newest}- {start} {drained} 1767600000\n")


def container(role: str = "trainer", state: str = "running", *, code: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "Id": f"id-{role}",
        "Image": "sha256:1",
        "Config": {"Image": "trainer:1", "Labels": {"voxyard.run": "demo-1", "voxyard.role": role}},
        "State": {
            "Status": state,
            "ExitCode": code,
            "StartedAt": "2026-01-05T08:00:00.123456789Z",
            "FinishedAt": "2026-01-05T09:00:00.123456789Z",
            **more,
        },
    }


def read(listed: Answer, *containers: dict[str, Any], log: str = "") -> TrainingRun:
    answers = {
        "runs": listed,
        "run-containers": Answer(json.dumps(containers)),
        "run-logs": Answer(f"id-trainer {encoded(log)}\n" if log else ""),
    }
    (run,) = read_runs(RecordingSession(answers))
    return run


@pytest.mark.parametrize(
    ("listed", "containers", "log", "state", "active"),
    [
        (listing(start="begun"), [], "", "starting", True),
        (listing(start="begun"), [container("prepare"), container(state="created")], "", "preparing", True),
        (listing(), [container()], "Creating model\n", "starting", True),
        (listing(), [container()], LOG, "running", True),
        (listing(), [container(Health={"Status": "healthy"})], "", "running", True),
        (listing(), [container(state="restarting", code=137)], LOG, "restarting", True),
        (listing(), [container(Health={"Status": "healthy"})], f"{LOG}{AGAIN}", "restarting", True),
        (listing(), [container()], f"{LOG}{AGAIN}{LOG}", "running", True),
        (listing(), [container(state="exited", code=75)], f"{LOG}{AGAIN}", "failed (exit code 75)", False),
        (listing(report=REPORT), [container(state="exited")], LOG, "finished", False),
        (listing(), [container(state="exited")], "Nothing to do\n", "finished", False),
        (listing(report=REPORT | {"ended": "SIGTERM: saved"}), [container(state="exited")], LOG, "stopped", False),
        (
            listing(report=REPORT | {"ended": "host 1 (10.0.0.2:2222) was asked to stop: saved and stopped"}),
            [container(state="exited")], LOG, "stopped", False,
        ),
        (listing(drained="yes"), [container(state="exited", code=0)], LOG, "drained", False),
        (listing(drained="yes"), [container()], LOG, "running", True),
        (listing(), [container(state="exited", code=143)], "", "stopped", False),
        (listing(), [container(state="exited", code=1)], LOG, "failed (exit code 1)", False),
        (listing(), [container(state="exited", code=137)], LOG, "failed (exit code 137, killed)", False),
        (
            listing(), [container(state="exited", code=137, OOMKilled=True)], LOG,
            "failed (exit code 137, out of memory)", False,
        ),
        (
            listing(start="1"), [container("prepare", "exited", code=2), container(state="created")], "",
            "failed: the corpus was not prepared (exit code 2)", False,
        ),
        (
            listing(start="1"), [container("prepare", "exited", code=143), container(state="created")], "",
            "stopped", False,
        ),
        (listing(start="14"), [], "", "failed to start (exit code 14)", False),
        (listing(start="-"), [], "", "not started", False),
        (listing(start="-"), [container("prepare", "exited"), container(state="created")], "", "not started", False),
        (listing(report=REPORT), [], "", "finished", False),
    ],
)  # fmt: skip
def test_the_state_follows_from_what_is_there(
    listed: Answer, containers: list[dict[str, Any]], log: str, state: str, active: bool
) -> None:
    run = read(listed, *containers, log=log)
    assert (run.state, run.active) == (state, active)


def test_step_and_loss_of_a_resumed_run_are_its_logs() -> None:
    run = read(listing(newest="step-00000006", report=REPORT), container(), log=LOG)
    assert (run.step, run.last_step, run.loss, run.checkpoint) == (8, 20, 5.5, 6)


def test_a_loss_that_nobody_looked_at_is_none() -> None:
    assert read(listing(), container(), log=LOG.splitlines(keepends=True)[1]).loss is None


def test_step_and_loss_of_a_run_that_has_ended_are_its_reports() -> None:
    run = read(listing(newest="step-00000020", report=REPORT), container(state="exited"), log=LOG)
    assert (run.step, run.loss) == (20, 3.25)


def test_a_resumed_run_begins_at_its_checkpoint() -> None:
    run = read(listing(newest="step-00000006"), container(), log="Resuming from /x/step-00000006 at step 6\n")
    assert run.step == 6


def test_since_is_the_start_while_it_works_and_the_end_after_that() -> None:
    assert read(listing(), container()).since == "2026-01-05T08:00:00Z"
    assert read(listing(), container(state="exited")).since == "2026-01-05T09:00:00Z"
    assert read(listing(start="begun")).since == "2026-01-05T08:00:00Z"


def test_what_cannot_be_read_is_reported() -> None:
    with pytest.raises(HostFailedError, match="Cannot connect to the Docker daemon"):
        read_runs(RecordingSession({"run-containers": Answer("", "Cannot connect to the Docker daemon", 1)}))
    with pytest.raises(HostFailedError, match="runs: unexpected output"):
        read_runs(RecordingSession({"runs": Answer("demo-1 e30= -\n"), "run-containers": Answer("[]")}))


def test_for_programs_a_run_is_plain_data() -> None:
    found = json.loads(json.dumps(read(listing(newest="step-00000006"), container(), log=LOG).to_json()))
    assert (found["run"], found["state"], found["step"]) == ("demo-1", "running", 8)
    assert found["metrics"] == "http://192.0.2.11:9411/metrics"
    assert read(listing(), container()).tls is None
