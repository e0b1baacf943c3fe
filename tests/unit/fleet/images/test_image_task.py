"""`fab images` and `fab images-lock`: rejected options before a build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


def fab(*words: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("fab"))
    return subprocess.run([program, "--search-root", str(ROOT / "scripts"), *words], capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--image", "grafana"], "--image grafana: expected one of exporter, bark, trainer"),
        (["--image", "bark", "--base", "mirror/cuda:12"], "mirror/cuda:12, has no digest"),
        (["--framework", "cpu"], "--framework cpu: expected ROLE="),
        (["--cache-from", "grafana=x"], "--cache-from grafana=x: expected ROLE="),
        (["--image", "exporter", "--framework", "exporter=cpu", "--unpinned"], "has no framework"),
        (["--image", "exporter", "--unpinned", "--wheels", "/no/folder"], "/no/folder: no wheels"),
        (["--image", "exporter", "--unpinned", "--pip-config", "/no/file"], "/no/file: no such file"),
        (["--no-such-option"], "no-such-option"),
    ],
)
def test_wrong_use_is_an_error_message_and_exit_2(words: list[str], said: str) -> None:
    done = fab("images", *words)
    assert done.returncode == 2
    assert said in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_lock_that_is_none_is_left_as_it_is(tmp_path: Path) -> None:
    lock = tmp_path / "digests.lock"
    lock.write_text("nothing: of this kind")
    done = fab("images-lock", "--out", str(lock))
    assert done.returncode == 2
    assert "not an image lock" in done.stderr
    assert lock.read_text() == "nothing: of this kind"
