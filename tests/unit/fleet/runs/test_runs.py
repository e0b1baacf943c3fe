"""Runs on a host with a fake engine: start, stop, resume; every action is in the audit log."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import run_engine
from eventually import eventually
from fake_ssh_host import FakeHost
from fleet_doubles import uuid
from local_session import LocalSession
from run_engine import write_release
from run_requests import RELEASE, REQUEST

from fleet.errors import FleetError, HostFailedError
from fleet.rollout.commands import sums
from fleet.rollout.health_gate import Clock
from fleet.runs import report, runs
from fleet.runs.files import render
from fleet.runs.state import TrainingRun
from fleet.ssh.command_batch import host_verb


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host with three GPUs and a release."""
    made = run_engine.make(tmp_path / "host")
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def session(there: FakeHost) -> LocalSession:
    return there.session()


def audit(there: FakeHost) -> list[tuple[str, str, str, str]]:
    lines = (there.place / "audit.jsonl").read_text().splitlines()
    return [(each["what"], each["from"], each["to"], each["result"]) for each in map(json.loads, lines)]


def train(session: LocalSession, run: str = "demo-1", device: str = "auto") -> TrainingRun:
    file = f"training: {{device: {device}}}\n".encode()
    wanted = replace(REQUEST, run=run, settings=replace(REQUEST.settings, file=file))
    runs.start_new_run(session, "gpu-01", wanted, runs.read_release(session, "gpu-01"))
    eventually(lambda: runs.find_run(session, "gpu-01", run).train is not None, "the run has begun", every=0.05)
    return runs.find_run(session, "gpu-01", run)


def test_what_a_host_gives_to_runs_is_read_from_its_release(session: LocalSession) -> None:
    assert runs.read_release(session, "gpu-01") == RELEASE


def test_a_host_without_a_release_is_told_to_deploy_first(there: FakeHost, session: LocalSession) -> None:
    (there.place / "current").unlink()
    with pytest.raises(HostFailedError, match="fab deploy --host gpu-01 first"):
        runs.read_release(session, "gpu-01")


def test_a_driver_that_does_not_answer_stops_a_run_that_needs_it(there: FakeHost, session: LocalSession) -> None:
    (there.folder / "bin/nvidia-smi").write_text("#!/bin/sh\necho no driver >&2; exit 9\n")
    with pytest.raises(HostFailedError, match="nvidia-smi fails: no driver"):
        runs.read_release(session, "gpu-01")


def test_a_run_is_written_for_its_owner_alone_and_started_by_exactly_this(
    there: FakeHost, session: LocalSession
) -> None:
    run = train(session)
    folder = there.place / "runs/demo-1"
    assert folder.stat().st_mode & 0o777 == 0o700
    modes = {
        path.name: path.stat().st_mode & 0o777 for path in folder.iterdir() if path.name.endswith((".yaml", ".env"))
    }
    assert {name for name, mode in modes.items() if mode != 0o600} == {"train.yaml", "plan.yaml"}
    handed = [line for line in there.asked("docker") if "chown" in line]
    assert [line.split("--volume ")[1] for line in handed] == [
        f"{folder}/checkpoints:/handed/0 --entrypoint chown {RELEASE.image} -hR 1000:1001 /handed/0"
    ]
    assert (folder / "checkpoints").stat().st_mode & 0o777 == 0o755
    assert (run.state, run.gpus, run.release) == ("starting", (uuid(0), uuid(1)), RELEASE.release)
    up = [line for line in there.asked("docker") if " up " in line]
    assert up == [
        "compose --project-name voxyard-run-demo-1 --env-file run.env --file trainer.yaml --file run.yaml "
        "up --detach --force-recreate --no-build --quiet-pull train"
    ]
    assert audit(there) == [("train", "", RELEASE.release, "ok")]


def test_a_corpus_that_is_prepared_is_not_prepared_again(there: FakeHost, session: LocalSession) -> None:
    files = render(REQUEST, RELEASE)
    (there.place / "corpora" / REQUEST.inputs["train"].place / (files.shards or "")).mkdir(parents=True)
    train(session)
    assert any("--no-build --no-deps --quiet-pull train" in line for line in there.asked("docker"))


def test_a_second_run_on_the_same_gpus_is_refused_and_told_which(there: FakeHost, session: LocalSession) -> None:
    train(session)
    with pytest.raises(HostFailedError, match=rf"demo-1 .*uses GPU {uuid(0)}, {uuid(1)}.*fab stop .* --run demo-1"):
        train(session, "demo-2")
    assert not (there.place / "runs/demo-2").exists()


def test_a_second_run_without_gpus_is_refused_for_the_port(session: LocalSession) -> None:
    train(session, device="cpu")
    with pytest.raises(HostFailedError, match="uses the metrics port 9411"):
        train(session, "demo-2", device="cpu")


def test_a_name_that_is_taken_is_refused(there: FakeHost, session: LocalSession) -> None:
    runs.stop_run(session, train(session), drained=False)
    with pytest.raises(HostFailedError, match=r"already has a run demo-1.*--resume demo-1"):
        train(session)
    assert audit(there)[-1] == ("train", "", RELEASE.release, "failed")


def test_an_image_that_is_not_there_is_reported_before_anything_is_written(
    there: FakeHost, session: LocalSession
) -> None:
    there.answers("image", "exit 1")
    with pytest.raises(HostFailedError, match=f"no image {RELEASE.image}.*fab deploy"):
        train(session)
    assert not (there.place / "runs").exists()


def test_a_cut_while_a_run_is_written_leaves_no_run(there: FakeHost, session: LocalSession) -> None:
    files = render(REQUEST, RELEASE)
    write = host_verb("run_write", "demo-1", sums(files.checksums))
    assert not session.send(write, [files.archive()[:1500]]).ok
    assert not (there.place / "runs/demo-1").exists()
    assert train(session).id == "demo-1"
    assert not (there.place / "runs/.demo-1.partial").exists()


def test_a_stopped_run_says_its_checkpoint_and_resumes_on_request(there: FakeHost, session: LocalSession) -> None:
    ended = runs.stop_run(session, train(session), drained=False)
    assert (ended.checkpoint, ended.drained, ended.active) == (7, False, False)
    told = "checkpoint at step 7; resume with: fab train --host gpu-01 --resume demo-1"
    assert report.stopped(ended).endswith(told)
    assert "no checkpoint; resume" in report.stopped(replace(ended, checkpoint=None))
    assert any(line.startswith("stop -t 120 ") for line in there.asked("docker"))
    assert runs.resume_drained(session) == ()
    runs.resume_run(session, ended, runs.read_release(session, "gpu-01"))
    assert [what for what, *_ in audit(there)] == ["train", "stop run", "resume"]


def test_a_drained_run_resumes_after_the_deployment_with_the_new_release(
    there: FakeHost, session: LocalSession
) -> None:
    runs.stop_run(session, train(session), drained=True)
    assert runs.find_run(session, "gpu-01", "demo-1").state == "drained"
    assert runs.active_runs(session) == ()
    write_release(there, replace(RELEASE, release="ba9876543210", image="voxyard-trainer:fedcbafedcba"))
    (resumed,) = runs.resume_drained(session)
    assert resumed.id == "demo-1"
    now = runs.find_run(session, "gpu-01", "demo-1")
    assert (now.release, now.image, now.drained) == ("ba9876543210", "voxyard-trainer:fedcbafedcba", False)
    assert audit(there)[-1] == ("resume", RELEASE.release, "ba9876543210", "ok")
    last = json.loads((there.place / "audit.jsonl").read_text().splitlines()[-1])
    assert "step 7, new image voxyard-trainer:fedcbafedcba" in last["note"]
    assert runs.resume_drained(session) == ()


def test_a_release_that_is_not_the_current_one_yet_can_be_named(there: FakeHost, session: LocalSession) -> None:
    runs.stop_run(session, train(session), drained=True)
    write_release(there, replace(RELEASE, release="ba9876543210"))
    runs.resume_drained(session, RELEASE.release)
    assert runs.find_run(session, "gpu-01", "demo-1").release == RELEASE.release


def test_a_drain_that_was_cut_before_the_stop_leaves_a_run_that_only_loses_its_mark(
    there: FakeHost, session: LocalSession
) -> None:
    train(session)
    (there.place / "runs/demo-1/drained").touch()
    ups = sum(" up " in line for line in there.asked("docker"))
    assert runs.resume_drained(session) == ()
    assert not (there.place / "runs/demo-1/drained").exists()
    assert sum(" up " in line for line in there.asked("docker")) == ups


def test_a_run_that_had_to_be_killed_is_a_failure_that_names_its_last_checkpoint(
    there: FakeHost, session: LocalSession
) -> None:
    run = train(session)
    (there.folder / "code").write_text("137")
    with pytest.raises(HostFailedError, match=r"did not stop within 120 s and was killed.*checkpoint at step 7"):
        runs.stop_run(session, run, drained=True)
    assert audit(there)[-1][0] == "drain run"
    assert audit(there)[-1][3] != "ok"


def test_an_active_run_cannot_be_resumed(session: LocalSession) -> None:
    with pytest.raises(HostFailedError, match="demo-1 is already active"):
        runs.resume_run(session, train(session), RELEASE)


def test_a_run_is_not_resumed_on_gpus_that_another_run_uses(session: LocalSession) -> None:
    ended = runs.stop_run(session, train(session), drained=False)
    train(session, "demo-2")
    with pytest.raises(HostFailedError, match=rf"demo-2 .*uses GPU {uuid(0)}"):
        runs.resume_run(session, ended, runs.read_release(session, "gpu-01"))


def test_new_settings_keep_what_they_do_not_name() -> None:
    before = replace(REQUEST, settings=replace(REQUEST.settings, flags=(("epochs", "1"), ("seed", "3"))))
    kept = runs.with_new_settings(before, file=b"", flags=[("epochs", "2")], by="you@there")
    assert kept.settings == replace(REQUEST.settings, flags=(("epochs", "2"), ("seed", "3")))
    assert kept.by == "you@there"
    assert runs.with_new_settings(before, file=b"model: {}", flags=(), by="").settings.file == b"model: {}"


def test_a_run_that_fails_at_its_start_is_reported_with_its_last_log_lines(
    there: FakeHost, session: LocalSession
) -> None:
    train(session)
    (there.folder / "said").write_text("no GPU was found\nvoxyard train: give up\n")
    (there.folder / "state-demo-1").write_text("exited")
    (there.folder / "code").write_text("2")
    with pytest.raises(HostFailedError, match=r"failed \(exit code 2\)(.|\n)*voxyard train: give up"):
        runs.wait_until_training(session, "gpu-01", "demo-1")


def test_a_run_that_never_trains_is_reported_but_continues(session: LocalSession) -> None:
    train(session)
    waits: list[float] = []
    clock = Clock(wait=lambda seconds: waits.append(seconds * 1800), now=lambda: sum(waits))
    with pytest.raises(HostFailedError, match="no step after 30 minutes; it continues: fab logs"):
        runs.wait_until_training(session, "gpu-01", "demo-1", clock)


def test_an_unknown_run_is_reported_with_those_that_there_are(session: LocalSession) -> None:
    train(session)
    with pytest.raises(HostFailedError, match="no run demo-9: expected one of demo-1"):
        runs.find_run(session, "gpu-01", "demo-9")


@pytest.mark.parametrize(("name", "given"), [("../x", "../x"), ("x", "Big"), ("x", "a" * 49), ("x", "a b")])
def test_a_name_that_compose_would_not_take_is_refused(name: str, given: str) -> None:
    with pytest.raises(FleetError, match="lower-case letters"):
        runs.new_run_id(name, given)


def test_a_run_is_called_by_its_settings_and_the_time() -> None:
    now = datetime(2026, 3, 1, 14, 15, 2, tzinfo=UTC)
    assert runs.new_run_id("LJ Speech, small", now=now) == "lj-speech-small-20260301-141502"
    assert runs.new_run_id("x", "demo_1") == "demo_1"


def test_limits_of_a_run_are_verified_by_what_its_processes_hold(there: FakeHost, session: LocalSession) -> None:
    run = train(session)
    there.answers("top", "printf 'PID\\n41\\n42\\n'")
    apps = [(uuid(0), 41, 16000), (uuid(0), 42, 1000), (uuid(0), 99, 9000), (uuid(1), 41, 8000)]
    said = "".join(f"{gpu}, {pid}, {mib}, x\\n" for gpu, pid, mib in apps)
    smi = there.folder / "bin/nvidia-smi"
    smi.write_text(f"#!/bin/sh\nprintf '{said}'\n")
    assert runs.verify_limits(session, run) == (
        f"{uuid(1)}: verified 8000 of 8192 MiB",
        f"{uuid(0)}: verified 17000 of 16384 MiB",
    )
    smi.write_text(f"#!/bin/sh\nprintf '{said.replace('16000', '17000')}'\n")
    with pytest.raises(HostFailedError, match="uses 18000 MiB, allowed 16384"):
        runs.verify_limits(session, run)


def test_on_a_cpu_the_message_of_the_run_is_passed_on(there: FakeHost, session: LocalSession) -> None:
    (there.folder / "said").write_text("Memory limits are not enforceable on a CPU device (TensorFlow refuses them)\n")
    assert runs.verify_limits(session, train(session)) == (
        "limits: not enforceable on the CPU, according to the run's log",
    )
