"""Machines of the tests: what is missing is named, a bare one has no optional program, a hostile one is hostile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from programs import PACKAGES, found, lacking, program, python_program

MACHINES = Path(__file__).resolve().parents[2] / "support/machines"
NAMESPACE = ["unshare", "--mount", "--propagation", "private", "true"]
mounts = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(NAMESPACE, capture_output=True, check=False).returncode != 0,
    reason="programs are hidden by mounts, which only root may make, and not in a chroot",
)


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_is_missing_is_named_with_its_package_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("programs.found", lambda name: None if name in ("ip", "tc", "gcc") else "/usr/bin/x")
    assert lacking(["ip", "curl", "tc", "ip"]) == "ip and tc not installed: apt-get install iproute2"
    assert lacking(["curl"]) is None
    with pytest.raises(pytest.skip.Exception, match=r"^gcc not installed: apt-get install gcc$"):
        program("gcc")


def test_a_program_may_have_debians_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("prometheus-alertmanager", "node_exporter"):
        (tmp_path / name).touch(0o755)
    assert found("alertmanager") == str(tmp_path / "prometheus-alertmanager")
    assert found("node_exporter") in (str(tmp_path / "node_exporter"), "/usr/sbin/prometheus-node-exporter")


def test_a_program_of_python_is_told_its_arguments(tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.write_text(python_program("import sys\nprint(sys.argv[1:], sys.prefix)\n"))
    told.chmod(0o755)
    done = run(told, "a b", "")
    assert (done.returncode, done.stdout.startswith("['a b', ''] /")) == (0, True)


@mounts
def test_a_bare_machine_has_no_optional_program() -> None:
    done = run(MACHINES / "bare.sh", "bash", "-c", 'for each; do command -v "$each"; done; exit 3', "-", *PACKAGES)
    assert (done.returncode, done.stderr) == (3, "")
    assert {Path(line).name for line in done.stdout.splitlines()} <= {"unshare"}  # it is Debian's own
    seen = "make --version; git --version; python3 --version; ls /usr/lib/postgresql"
    done = run(MACHINES / "bare.sh", "sh", "-c", seen)
    assert [word for word in ("GNU Make", "git version", "Python 3") if word not in done.stdout] == []
    assert "initdb" not in done.stdout


@mounts
def test_a_hostile_machine_has_a_path_with_blanks_and_nothing_that_is_usual() -> None:
    script = """
    exec 3<>/dev/tcp/127.0.0.1/2222 || exit 5
    pwd; date +%Z%z; echo "$LC_ALL"; touch "$HOME/x" || echo refused; ls Makefile
    exit 4
    """
    done = run(MACHINES / "hostile.sh", "bash", "-c", script)
    place, *told = done.stdout.splitlines()
    assert (done.returncode, told) == (4, ["+0545+0545", "C", "refused", "Makefile"])
    assert place.endswith("/new/common/utils dir/voxyard")
    assert "Read-only file system" in done.stderr


@pytest.mark.parametrize("name", ["bare.sh", "hostile.sh"])
def test_a_machine_without_a_command_says_what_it_expects(name: str) -> None:
    done = run(MACHINES / name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{name}: no command: expected")
