"""Fetched runs: complete, verified by checksum, never mixed with other files."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import fake_ssh_host
import pytest
from fake_ssh_host import FakeHost
from fleet_doubles import host
from run_requests import RELEASE, REQUEST

from fleet.errors import FleetError, HostFailedError
from fleet.runs.fetch import FetchedRun, fetch_run
from fleet.runs.files import render
from fleet.runs.runs import find_run
from fleet.ssh import rsync

pytestmark = pytest.mark.needs("rsync", "ssh")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host with a run that has ended, and whose container is still there."""
    made = fake_ssh_host.make(tmp_path / "host")
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    folder = made.place / "runs/demo-1"
    folder.mkdir(parents=True)
    for name, content in render(REQUEST, RELEASE).files:
        (folder / name).write_bytes(content)
    for step in (4, 8):
        checkpoint(folder / "checkpoints", step)
    (folder / "checkpoints/best").symlink_to("step-00000004")
    (folder / "checkpoints/.lock").write_text("7")
    (folder / "checkpoints/.step-00000012.unfinished").mkdir()
    (folder / "checkpoints/samples").mkdir()
    (folder / "checkpoints/samples/step-00000008.wav").write_bytes(b"RIFF")
    (folder / "checkpoints/report.json").write_text("{}")
    (folder / "start.log").touch()
    made.answers("ps", "echo id")
    made.answers("inspect", 'case "$*" in *format*) echo trainer-2026-01-05T08:00:00.5Z;; *) echo "[]";; esac')
    made.answers("logs", "echo step 8; echo a warning >&2")
    return made


def checkpoint(folder: Path, step: int, *, damaged: bool = False) -> None:
    path = folder / f"step-{step:08d}"
    path.mkdir(parents=True)
    state = bytes([step]) * 1000
    (path / "state.safetensors").write_bytes(b"damaged" if damaged else state)
    (path / "meta.json").write_text(json.dumps({"step": step, "sha256": hashlib.sha256(state).hexdigest()}))


def fetched(there: FakeHost, out: Path) -> FetchedRun:
    session = there.session()
    return fetch_run(session, host(), find_run(session, "gpu-01", "demo-1"), out)


def test_checkpoints_samples_report_and_logs_come_here(there: FakeHost, tmp_path: Path) -> None:
    found = fetched(there, tmp_path / "out")
    assert found == FetchedRun(tmp_path / "out", (4, 8), samples=1, report=True, logs=1)
    assert (tmp_path / "out/checkpoints/best").readlink() == Path("step-00000004")
    (log,) = (tmp_path / "out/logs").iterdir()
    assert log.name == "trainer-2026-01-05T08_00_00_5Z.log"
    assert log.read_text() == "step 8\na warning\n"
    names = {path.name for path in (tmp_path / "out").rglob("*")}
    assert not {".lock", ".step-00000012.unfinished", "start.log", "run.env"} & names
    line = json.loads((there.place / "audit.jsonl").read_text())
    assert (line["what"], line["note"]) == ("fetch", "run demo-1: checkpoints 4, 8")


def test_checkpoints_that_only_their_container_can_read_are_made_readable_as_their_owner(
    there: FakeHost, tmp_path: Path
) -> None:
    fetched(there, tmp_path / "out")
    assert "chmod" not in "".join(there.asked("docker"))
    (there.folder / "bin/find").write_text("#!/bin/sh\necho ./step-00000008/state.safetensors\n")
    (there.folder / "bin/find").chmod(0o755)
    fetched(there, tmp_path / "out")
    (ran,) = [line for line in there.asked("docker") if "chmod" in line]
    folder = there.place / "runs/demo-1/checkpoints"
    assert f"--cap-drop ALL --security-opt no-new-privileges:true --user {os.getuid()}:{os.getgid()}" in ran
    assert ran.endswith(f"--volume {folder}:/checkpoints --entrypoint chmod {RELEASE.image} -R go+rX /checkpoints")


def test_a_later_state_of_the_run_is_fetched_into_the_same_directory(there: FakeHost, tmp_path: Path) -> None:
    fetched(there, tmp_path / "out")
    checkpoint(there.place / "runs/demo-1/checkpoints", 12)
    assert fetched(there, tmp_path / "out").checkpoints == (4, 8, 12)


@pytest.mark.parametrize("what", ["a file", "another run", "other files"])
def test_nothing_else_is_written_into(there: FakeHost, tmp_path: Path, what: str) -> None:
    out = tmp_path / "out"
    if what == "a file":
        out.touch()
    else:
        out.mkdir()
        (out / ("run.json" if what == "another run" else "thesis.tex")).write_text('{"run": "demo-7"}')
    with pytest.raises(FleetError, match="demo-7" if what == "another run" else what):
        fetched(there, out)


def test_a_checkpoint_that_is_not_what_was_written_is_named(there: FakeHost, tmp_path: Path) -> None:
    checkpoint(there.place / "runs/demo-1/checkpoints", 12, damaged=True)
    with pytest.raises(HostFailedError, match="step-00000012 differs from the checkpoint written on gpu-01"):
        fetched(there, tmp_path / "out")


def test_a_checkpoint_that_the_run_removed_meanwhile_is_left_out(
    there: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = rsync.run, []

    def removing(*arguments: object, **more: object) -> rsync.RsyncResult:
        ended = real(*arguments, **more)  # type: ignore[arg-type]
        tries.append(ended.code)
        (tmp_path / "out/checkpoints/step-00000004/state.safetensors").unlink(missing_ok=True)
        (there.place / "runs/demo-1/checkpoints/step-00000004/state.safetensors").unlink(missing_ok=True)
        return rsync.RsyncResult(rsync.VANISHED if len(tries) == 1 else ended.code, ended.out, ended.err)

    monkeypatch.setattr(rsync, "run", removing)
    assert fetched(there, tmp_path / "out").checkpoints == (8,)
    assert len(tries) == 2
