"""The archive of a diagnosis: no secret in it, whole or not there at all, and each part or why it is missing."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eventually import PATIENCE, eventually
from syncs import watch_syncs

from voxyard.diagnose.bundle import collect as bundles
from voxyard.diagnose.bundle import subprocess_run
from voxyard.diagnose.bundle.archive import Archive, PartError, whole_file
from voxyard.diagnose.bundle.collect import Bundle, BundleRequest, bundle, collectors, redactor_for
from voxyard.diagnose.bundle.redact import Redactor
from voxyard.diagnose.bundle.subprocess_run import CompletedCommand, ended_by_sigterm, voxyard
from voxyard.diagnose.bundle.summary import page
from voxyard.diagnose.dry_run import scratch
from voxyard.diagnose.errors import DiagnoseError
from voxyard.trainer import TrainConfig, TrainingConfig

PLANTED = {
    "in YAML": "plantedYaml0000",
    "in a comment": "plantedComment1111",
    "in a nested mapping": "plantedNested2222",
    "in the environment": "plantedEnviron3333",
    "in a URL of the environment": "plantedProxy4444",
    "in a query": "plantedQuery5555",
    "in a log": "plantedLogged6666",
    "in an Authorization header": "plantedBearer7777",
    "on the command line": "plantedArgument8888",
    "in a variable that is not collected": "plantedElsewhere9999",
}

YAML = f"""
# password: {PLANTED["in a comment"]}
data:
  train_data: s3://me:{PLANTED["in YAML"]}@bucket.example.org/corpus?token={PLANTED["in a query"]}
store:
  credentials:
    user: me
    keys: [{PLANTED["in a nested mapping"]}]
"""

LOG = f"""
request https://api.example.org/v1?sig={PLANTED["in a query"]}
Authorization: Bearer {PLANTED["in an Authorization header"]}
password={PLANTED["in a log"]}
the store answered: {PLANTED["in a nested mapping"]} is not allowed
could not log in with {PLANTED["in a variable that is not collected"]}
"""

PROFILE = {
    "verdict": {
        "bottleneck": "load", "bound_by": "load", "data_wait_share": 0.62, "explanation": "",
        "sentence": "bottleneck: load (data loading)", "annotations": [{"sentence": "data <loading>"}],
    },
    "overlapped": {"seconds_per_step": 0.1, "samples_per_second": 80.0},
    "stages": [{"stage": "load", "share": 1.0, **dict.fromkeys(("mean", "std", "min", "p50", "p95", "max"), 0.1)}],
    "reads": {"state": "warm", "share_cached": 1.0, "why": ["tmpfs <keeps> its files in memory"]},
    "recommendations": [
        {"title": "shards", "why": "once", "gain": 1.7, "bound": False, "command": ["voxyard corpus prepare a b"]},
    ],
    "setup": {
        "strategy": "split", "model": "tiny", "corpus": f"https://u:{PLANTED['in YAML']}@h/c", "batch": 8, "workers": 2,
        "slots": 3, "buffer": 50, "precision": "float32", "xla": False, "buckets": 4, "devices": ["CPU 0", "CPU 1"],
    },
    "gpus": {"missing": "not measured: no GPU"},
}  # fmt: skip
REPORT = {
    "first_step": 0, "last_step": 8, "steps_per_second": 2.0, "data_wait_share": 0.5, "ended": "the end is reached",
    "targets": {
        "step-time variation": {"value": 0.5, "verdict": "missed"},
        "model device use": {"value": None, "verdict": "not measured"},
    },
}  # fmt: skip


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Profile and training answer at once; what was asked of them."""
    asked: list[list[str]] = []

    def run(arguments: list[str], directory: Path, *, timeout: float, environ: dict[str, str]) -> CompletedCommand:
        asked.append(list(arguments))
        if "--html" in arguments:
            Path(arguments[arguments.index("--html") + 1]).write_text(f"<p>{PLANTED['in YAML']}</p>")
        return CompletedCommand(0, json.dumps(PROFILE if arguments[0] == "profile" else REPORT), LOG)

    monkeypatch.setattr(bundles, "voxyard", run)
    return asked


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BundleRequest:
    """A configuration full of secrets, in an environment full of them."""
    monkeypatch.setenv("VOXYARD_API_KEY", PLANTED["in the environment"])
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PLANTED['in a URL of the environment']}@proxy.example.org:3128")
    monkeypatch.setenv("SOME_VENDORS_SECRET", PLANTED["in a variable that is not collected"])
    file = tmp_path / "train.yaml"
    file.write_text(YAML)
    config = TrainConfig.model_validate(
        {"data": {"train_data": f"https://me:{PLANTED['in YAML']}@h.example.org/c"}, "training": {"device": "cpu"}}
    )
    arguments = ("diagnose", "--api-token", PLANTED["on the command line"], "--out", "d.tar.gz")
    return BundleRequest(config, {"training.device": "--device", "training.seed": "default"}, file, 8, 60.0, arguments)


def collect(wanted: BundleRequest, out: Path, tmp_path: Path) -> Bundle:
    folder = tmp_path / "work"
    folder.mkdir()
    with whole_file(out) as write:
        return bundle(Archive(redactor_for(wanted)), collectors(wanted, folder), out, write)


def unpacked(out: Path) -> dict[str, bytes]:
    with tarfile.open(out) as tar:
        opened = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read() for name, file in opened.items() if file is not None}


def test_no_planted_secret_is_anywhere_in_the_archive(wanted: BundleRequest, measured: Any, tmp_path: Path) -> None:
    """The whole of it, unpacked."""
    out = tmp_path / "d.tar.gz"
    made = collect(wanted, out, tmp_path)
    files = unpacked(out)
    assert len(files) >= 11
    found = {where for where, secret in PLANTED.items() for data in files.values() if secret.encode() in data}
    assert found == set()
    text = json.dumps(made.document()) + made.text()
    assert [where for where, secret in PLANTED.items() if secret in text] == []


def test_every_planted_secret_would_be_in_the_archive_without_the_redactor(
    wanted: BundleRequest, measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proof that the test above can fail."""
    for way in ("text", "data", "arguments"):
        monkeypatch.setattr(Redactor, way, lambda _, given, *__: given)
    collect(wanted, tmp_path / "d.tar.gz", tmp_path)
    files = unpacked(tmp_path / "d.tar.gz")
    found = {where for where, secret in PLANTED.items() for data in files.values() if secret.encode() in data}
    assert found == set(PLANTED) - {"in a comment"}  # which goes no way at all


def test_the_verdict_can_be_read_in_the_archive(wanted: BundleRequest, measured: Any, tmp_path: Path) -> None:
    out = tmp_path / "d.tar.gz"
    assert collect(wanted, out, tmp_path).verdict == "bottleneck: load (data loading)"
    files = unpacked(out)
    summary = files["d/summary.html"].decode()
    assert "bottleneck: load (data loading)" in summary
    assert "data &lt;loading&gt;" in summary
    assert "voxyard corpus prepare a b" in summary
    for outside in ("<script", "src=", "href=", "@import", "url("):
        assert outside not in summary
    manifest = json.loads(files["d/manifest.json"])
    assert manifest["verdict"] == "bottleneck: load (data loading)"
    assert {f"d/{name}" for name in manifest["files"]} | {"d/manifest.json"} == set(files)


def test_a_file_that_is_no_plain_yaml_is_left_out(wanted: BundleRequest, measured: Any, tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(f"data:\n  since: 2024-13-45\n  password: {PLANTED['in YAML']}\n")
    made = collect(dataclasses.replace(wanted, file=file), tmp_path / "d.tar.gz", tmp_path)
    part = next(part for part in made.parts if part.name == "configuration")
    assert "cannot be read as YAML" in (part.missing or "")
    assert part.files == ("configuration.json",)


def test_the_measured_runs_touch_nothing_of_the_users_run(
    wanted: BundleRequest, measured: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: list[str] = []
    run = vars(bundles)["voxyard"]

    def kept(arguments: list[str], directory: Path, **more: Any) -> CompletedCommand:
        settings.append(Path(arguments[-1]).read_text())
        ended: CompletedCommand = run(arguments, directory, **more)
        return ended

    monkeypatch.setattr(bundles, "voxyard", kept)
    training = TrainingConfig(checkpoint_dir=Path("/precious"), max_steps=7, epochs=1, seed=5)
    config = wanted.config.model_copy(update={"training": training})
    collect(BundleRequest(config, {}, None, 8, 60.0), tmp_path / "d.tar.gz", tmp_path)
    assert "--max-steps" in measured[1]
    assert measured[1][measured[1].index("--max-steps") + 1] == "8"
    assert len(settings) == 2
    for text in settings:
        assert "seed: 5" in text
        assert "precious" not in text
        assert "max_steps" not in text
        assert "epochs" not in text


def test_a_part_that_cannot_be_collected_has_the_reason_and_stops_nothing(tmp_path: Path) -> None:
    def broken() -> dict[str, str]:
        raise PartError("no GPU", {"half.txt": "so far"})

    def surprise() -> dict[str, str]:
        raise ZeroDivisionError(f"token={PLANTED['in a log']}")

    archive = Archive(Redactor())
    with whole_file(tmp_path / "d.tgz") as write:
        made = bundle(
            archive, [("a", broken), ("b", surprise), ("c", lambda: {"c.txt": "there"})], tmp_path / "d.tgz", write
        )
    said = {part.name: (part.files, part.missing) for part in made.parts}
    assert said["a"] == (("half.txt",), "no GPU")
    assert said["b"] == ((), "ZeroDivisionError: token=[removed]")
    assert said["c"] == (("c.txt",), None)
    files = unpacked(tmp_path / "d.tgz")
    assert files["d/half.txt"] == b"so far"
    assert b"missing: no GPU" in files["d/summary.html"]
    assert made.verdict.startswith("none: the profile is missing")


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (CompletedCommand(None, "", "line\nlast line\n"), "not finished after 60 s and stopped; line\nlast line"),
        (CompletedCommand(2, "", "voxyard profile: no corpus\n"), "ended with code 2: voxyard profile: no corpus"),
    ],
)
def test_a_measurement_that_fails_leaves_its_log(
    wanted: BundleRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: CompletedCommand, why: str
) -> None:
    monkeypatch.setattr(bundles, "voxyard", lambda *_, **__: ended)
    made = collect(wanted, tmp_path / "d.tar.gz", tmp_path)
    profile = next(part for part in made.parts if part.name == "profile")
    assert why in (profile.missing or "")
    assert profile.files == ("profile.log",)


def test_a_machine_without_gpus_reports_it(
    wanted: BundleRequest, measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "every_gpu", lambda: ())
    monkeypatch.setenv("PATH", str(tmp_path))
    made = collect(wanted, tmp_path / "d.tar.gz", tmp_path)
    said = {part.name: part.missing or "" for part in made.parts}
    for name in ("GPUs", "nvidia-smi", "topology"):
        assert said[name].startswith("not measured: no GPU")


def test_what_nvidia_smi_reports_is_kept_even_when_it_fails(
    wanted: BundleRequest, measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho driver and library differ\nexit 18\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    made = collect(wanted, tmp_path / "d.tar.gz", tmp_path)
    part = next(part for part in made.parts if part.name == "nvidia-smi")
    assert part.missing == "nvidia-smi ended with code 18"
    assert b"driver and library differ" in unpacked(tmp_path / "d.tar.gz")["d/nvidia-smi.txt"]


# -- whole or not at all ------------------------------------------------------------------------------------------


def test_the_archive_is_for_its_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = watch_syncs(monkeypatch)
    with whole_file(tmp_path / "d.tar.gz") as write:
        size = write({"a.txt": b"a"})
    assert [path.name.startswith(".d.tar.gz.") for path in synced] == [True, False]  # before it got its name
    assert synced[-1] == tmp_path
    with tarfile.open(tmp_path / "d.tar.gz") as tar:
        assert [(entry.name, entry.mode) for entry in tar.getmembers()] == [("d/a.txt", 0o600)]
    assert ((tmp_path / "d.tar.gz").stat().st_mode & 0o777, size > 0) == (0o600, True)
    assert [path.name for path in tmp_path.iterdir()] == ["d.tar.gz"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143), ValueError("a bug")])
def test_an_interruption_leaves_nothing_and_the_archive_before_as_it_was(tmp_path: Path, error: BaseException) -> None:
    out = tmp_path / "d.tar.gz"
    out.write_bytes(b"the archive before")
    with pytest.raises(type(error)), whole_file(out):
        raise error
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("d.tar.gz", b"the archive before")]


@pytest.mark.parametrize("name", ["d.zip", "d", "missing/d.tar.gz", "folder.tar.gz"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.tar.gz").mkdir()
    with pytest.raises(DiagnoseError, match="--out") as caught, whole_file(tmp_path / name):
        pytest.fail("the block must not run")
    assert caught.value.exit_code == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """256 KiB; root is needed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted, root is needed: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_a_sentence_and_leaves_nothing_half(small_disk: Path) -> None:
    out = small_disk / "d.tar.gz"
    out.write_bytes(b"the archive before")
    with pytest.raises(DiagnoseError, match=r"the disk is full; up to 2\.0 MiB") as caught, whole_file(out) as write:
        write({"random": os.urandom(2 << 20)})
    assert caught.value.exit_code == 1
    assert [(path.name, path.read_bytes()) for path in small_disk.iterdir()] == [("d.tar.gz", b"the archive before")]


# -- the processes ------------------------------------------------------------------------------------------------


def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`voxyard` as a program that hangs, and whose child does; the file that will hold both their numbers."""
    numbers = tmp_path / "numbers"
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nsleep 600 &\necho half said >&2\necho $$ $! > {numbers}\nwait\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return numbers


def gone(number: int) -> bool:
    """A process that has ended and is not yet collected is gone too."""

    def state() -> str:
        try:
            return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "Z"

    return eventually(lambda: state() == "Z", f"process {number} has ended")


@pytest.mark.slow
def test_a_command_that_hangs_is_stopped_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = hanging(tmp_path, monkeypatch)
    ended = voxyard(["train"], tmp_path, timeout=15, environ=dict(os.environ))
    assert (ended.code, ended.log_tail) == (None, "half said")
    assert all(gone(int(number)) for number in numbers.read_text().split())


def test_ctrl_c_while_a_process_is_being_started_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, started = hanging(tmp_path, monkeypatch), subprocess.Popen

    def interrupted(*arguments: Any, **more: Any) -> Any:
        process = started(*arguments, **more)
        while not (numbers.exists() and numbers.read_text().count(" ")):
            time.sleep(0.02)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            voxyard(["train"], tmp_path, timeout=60, environ=dict(os.environ))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert all(gone(int(number)) for number in numbers.read_text().split())


def test_the_end_of_a_commands_output_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_run, "MOST_BYTES", 100)
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho out "$@"\nseq 1000 >&2\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    ended = voxyard(["profile", "--json"], tmp_path, timeout=60, environ=dict(os.environ))
    assert (ended.code, ended.out) == (3, "out -m voxyard profile --json\n")
    assert ended.log.startswith("[the first ")
    assert ended.log_tail.endswith("999\n1000")


INTERRUPTED = """
import sys
from pathlib import Path
from voxyard.diagnose.bundle import subprocess_run as child
from voxyard.diagnose.bundle.archive import whole_file
child.sys.executable = sys.argv[1]
from voxyard import cli
sys.argv = ["voxyard", "diagnose", "--device", "cpu", "--train-data", "/nowhere", "--out", sys.argv[2]]
cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_leaves_no_archive_and_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    numbers = hanging(tmp_path, monkeypatch)
    out = tmp_path / "place/d.tar.gz"
    out.parent.mkdir()
    monkeypatch.undo()
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "python"), str(out)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    eventually(lambda: numbers.exists() and numbers.read_text().count(" "), "it has begun")
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, said
    assert "Traceback" not in said
    assert list(out.parent.iterdir()) == []
    assert list(tmp_path.glob("voxyard-*")) == []
    assert all(gone(int(each)) for each in numbers.read_text().split())


def test_a_machine_without_room_for_temporary_files_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    with pytest.raises(DiagnoseError, match="No space left on device; TMPDIR") as caught, scratch():
        pytest.fail("the block must not run")
    assert caught.value.exit_code == 1


def test_the_page_of_an_archive_without_measurements_is_still_a_page() -> None:
    head = {"host": "h<1>", "voxyard": "0.1", "made": "today", "corpus": "none"}
    text = page("none: the profile is missing", head, {}, [])
    assert "h&lt;1&gt;" in text
    assert "none: the profile is missing" in text


def test_sigterm_ends_a_program_only_within_its_block() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, ended_by_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_training_of_too_few_steps_has_no_rate() -> None:
    few = {"steps_per_second": None, "data_wait_share": None, "too_few": {"M": "too few steps to measure (3 of 10)"}}
    head = {"host": "h", "voxyard": "0.1", "made": "today", "corpus": "none"}
    text = page("none", head, {"training.json": REPORT | few}, [])
    assert "8 steps, rate: too few steps to measure (3 of 10); the end is reached" in text
    assert "8 steps, 2 steps/s, waiting for data 50.0%" in page("none", head, {"training.json": REPORT}, [])
