"""What messages tell to type: it works from the folder where the user is, with and without `fab` on the PATH."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.command_line import typed

ROOT = Path(__file__).resolve().parents[3]
FAB = Path(sys.executable).with_name("fab")
WITHOUT = ":".join(each for each in os.defpath.split(":") if not (Path(each) / "fab").exists())


@pytest.mark.parametrize("activated", [True, False], ids=["activated", "not activated"])
@pytest.mark.parametrize(
    "folder", [".", *(pytest.param(each, marks=pytest.mark.slow) for each in ("deploy/prometheus", "/"))]
)
def test_the_command_that_a_message_shows_runs_where_the_user_is(tmp_path: Path, folder: str, activated: bool) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {address: 192.0.2.1, user: u, roles: [trainer]}}\n")
    environment = {**os.environ, "PATH": f"{FAB.parent}:{WITHOUT}" if activated else WITHOUT}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=ROOT / folder, env=environment, capture_output=True, text=True, check=False)

    told = run(str(FAB), "--search-root", str(ROOT), "stop").stderr
    shown = re.search(r"for example: (.*fab .*)", told)
    assert shown, told
    done = run("bash", "-c", f"{shown[1]} --inventory '{tmp_path}/hosts.yaml'")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no host gpu-01 in" in done.stderr


@pytest.mark.parametrize(
    ("search", "folder", "expected"),
    [
        ("bin", "checkout", "fab"),
        ("nowhere", "checkout", ".venv/bin/fab"),
        ("other", "checkout/deploy", "../.venv/bin/fab"),
        ("bin", "home", "fab --search-root '{checkout}'"),
        ("nowhere", "home", "'{checkout}/.venv/bin/fab' --search-root '{checkout}'"),
    ],
)
def test_a_path_with_blanks_is_quoted_and_another_fab_is_not_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: str, folder: str, expected: str
) -> None:
    checkout = tmp_path / "my files"
    monkeypatch.setattr("fleet.command_line.CHECKOUT", checkout)
    for program in (checkout / ".venv/bin/fab", tmp_path / "other/fab"):
        program.parent.mkdir(parents=True)
        program.touch(0o755)
    (tmp_path / "bin").symlink_to(checkout / ".venv/bin")
    place = Path(folder.replace("checkout", str(checkout), 1)) if folder != "home" else tmp_path
    found = typed(checkout / ".venv/bin/fab", str(tmp_path / search), place)
    assert found == expected.format(checkout=checkout)


def test_an_installation_without_the_program_is_told_its_name(tmp_path: Path) -> None:
    assert typed(tmp_path / "fab", str(tmp_path), ROOT) == "fab"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "--no-such-option"], "No idea what '--no-such-option' is!"),
        (["chekc"], "No idea what 'chekc' is!"),
        pytest.param(["check", "--inventory", "/no/such/file"], "no such inventory", marks=pytest.mark.slow),
        pytest.param(["status", "--inventory"], "needed value", marks=pytest.mark.slow),
        (["status", "--inventory", "deploy/hosts.example.yaml", "--host", "gpu-01,nobody"], "no host nobody"),
    ],
)
def test_wrong_use_is_exit_code_2_and_a_sentence(arguments: list[str], said: str) -> None:
    done = subprocess.run([FAB, *arguments], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
