"""Shell commands of runs on a real shell: output and effects."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path

import fake_ssh_host
import pytest
from eventually import PATIENCE, eventually
from fake_ssh_host import FakeHost

from fleet.runs import runs
from fleet.runs.logs import logs_of
from fleet.ssh.command_batch import Command, host_verb

LIST = host_verb("run_list", "run.json")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    made = fake_ssh_host.make(tmp_path / "host")
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


def printed(there: FakeHost, command: Command) -> str:
    answer = there.session().run([command])[command.name]
    assert answer.ok, answer
    return answer.out


def run_folder(there: FakeHost, name: str = "demo-1") -> Path:
    folder = there.place / "runs" / name
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "run.json").write_text('{"run": "x"}')
    (folder / "run.env").write_text("VOXYARD_TRAINER_IMAGE=trainer:1\nVOXYARD_UID=65532\nVOXYARD_GID=65532\n")
    (there.place / "corpora/demo/1/source").mkdir(parents=True)
    return folder


def row(there: FakeHost) -> list[str]:
    (line,) = printed(there, LIST).splitlines()
    return line.split(" ")


def test_a_host_without_runs_lists_none(there: FakeHost) -> None:
    assert printed(there, LIST) == ""
    there.place.mkdir()
    (there.place / "runs").mkdir()
    assert printed(there, LIST) == ""


def test_a_run_is_listed_with_what_its_files_say(there: FakeHost) -> None:
    folder = run_folder(there)
    assert row(there)[2:6] == ["-", "-", "-", "no"]
    for step in (4, 12, 8):
        (folder / f"checkpoints/step-{step:08d}").mkdir()
    (folder / "start.code").write_text("0\n")
    (folder / "drained").touch()
    name, manifest, _, newest, start, drained, written = row(there)
    assert (name, json.loads(base64.b64decode(manifest))) == ("demo-1", {"run": "x"})
    assert (newest, start, drained) == ("step-00000012-", "0", "yes")
    assert abs(int(written) - time.time()) < 3600


def test_a_report_of_before_the_last_start_is_not_told(there: FakeHost) -> None:
    folder = run_folder(there)
    report = folder / "checkpoints/report.json"
    report.write_text("{}")
    os.utime(folder / "run.json", (1000, 1000))
    os.utime(report, (2000, 2000))
    assert row(there)[2] == base64.b64encode(b"{}").decode()
    os.utime(folder / "run.json", (3000, 3000))
    assert row(there)[2] == "-"


def test_the_report_of_another_host_of_a_run_is_told_where_the_run_has_none(there: FakeHost) -> None:
    checkpoints = run_folder(there) / "checkpoints"
    (checkpoints / "host-1").mkdir()
    (checkpoints / "host-1/report.json").write_text('{"host": 1}')
    os.utime(checkpoints / "../run.json", (1000, 1000))
    assert row(there)[2] == base64.b64encode(b'{"host": 1}').decode()
    (checkpoints / "report.json").write_text("{}")
    assert row(there)[2] == base64.b64encode(b"{}").decode()


def test_a_start_is_told_only_while_somebody_works_at_it(there: FakeHost) -> None:
    folder = run_folder(there)
    (folder / "start.pid").write_text(f"{os.getpid()}\n")  # the number is somebody else's by now
    assert row(there)[4] == "-"
    (folder / "start.code").write_text("3\n")
    assert row(there)[4] == "3"


def test_a_start_that_waits_for_the_corpus_is_ended_by_a_stop(there: FakeHost) -> None:
    run_folder(there)
    there.answers("up", "sleep 600; echo started > $FAKE_HOST/started")
    printed(there, runs.start("demo-1", ("trainer.yaml",), ["demo/1"], prepare=True))
    assert row(there)[4] == "begun"
    began = time.monotonic()
    printed(there, runs.stop("demo-1", 10))
    assert row(there)[4] == "-"
    assert time.monotonic() - began < PATIENCE
    assert not (there.folder / "started").exists()


def test_a_container_that_is_replaced_meanwhile_is_no_error(there: FakeHost) -> None:
    there.answers("ps", "echo id")
    there.answers("inspect", '[ -e "$FAKE_HOST/once" ] || { touch "$FAKE_HOST/once"; echo "[]"; exit 1; }; echo "[]"')
    assert printed(there, host_verb("container_inspect", "voxyard.run")).strip() == "[]"


def test_a_start_continues_by_itself_and_leaves_output_and_code(there: FakeHost) -> None:
    folder = run_folder(there)
    there.answers(
        "up", "until [ -e $FAKE_HOST/go ]; do sleep 0.05; done; echo pulling; echo no such image >&2; exit 14"
    )
    printed(there, runs.start("demo-1", ("trainer.yaml", "run.yaml"), ["demo/1"], prepare=True))
    assert row(there)[4] == "begun"
    (there.folder / "go").touch()
    eventually(lambda: row(there)[4] != "begun", "the start has ended", every=0.1)
    assert row(there)[4] == "14"
    assert printed(there, host_verb("run_start_log", "demo-1")) == "pulling\nno such image\n"
    assert (folder / "logs").is_dir()


def test_names_cannot_break_out_of_a_command() -> None:
    evil = "x'; rm -rf ~; '"
    for command in (
        runs.stop(evil, 1),
        runs.start(evil, [evil], [evil], prepare=True),
        runs.has_image(evil),
        logs_of({"voxyard.run": evil}, lines=3, since=evil),
    ):
        assert "'\"'\"'; rm -rf ~; '\"'\"'" in command.text, command.name
