"""The image: how it is built, and what its files promise."""

from __future__ import annotations

import itertools
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from fleet.errors import FleetError
from fleet.image import Build, LocalImage, build_command, build_image, find_image, save

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named docker that does what the file `script` says."""
    program = tmp_path / "docker"
    program.write_text(f"#!{sys.executable}\n" + (f"exec(open({str(tmp_path / 'script')!r}).read())\n"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path / "script"


def test_a_plain_build_names_file_tag_and_what_goes_into_the_labels() -> None:
    assert build_command(Path("/r"), Build(), version="1.2", revision="abc") == [
        "docker", "build", "--file", "/r/images/exporter/Dockerfile", "--tag", "voxyard-exporter:built",
        "--build-arg", "VERSION=1.2", "--build-arg", "REVISION=abc", "/r",
    ]  # fmt: skip


def test_configuration_and_certificates_go_in_as_secrets_never_as_arguments() -> None:
    how = Build("mirror/base:1", Path("/x/pip.conf"), Path("/x/ca.pem"), "host")
    command = build_command(Path("/r"), how, version="1", revision="r")
    assert command[command.index("BASE=mirror/base:1") - 1] == "--build-arg"
    secrets = [value for option, value in itertools.pairwise(command) if option == "--secret"]
    assert secrets == ["id=pip_config,src=/x/pip.conf", "id=ca_bundle,src=/x/ca.pem"]
    assert command[-3:] == ["--network", "host", "/r"]


def test_an_image_is_found_and_its_release_tag_says_which_it_is(docker: Path) -> None:
    docker.write_text(
        "import sys\nassert sys.argv[1:] == ['image', 'inspect', 'x:1']\n"
        'print(\'[{"Id": "sha256:\' + \'ab\' * 32 + \'", "RootFS": {"Layers": ["sha256:1"]}, "Size": 7}]\')'
    )
    found = find_image("x:1")
    assert found == LocalImage("sha256:" + "ab" * 32, ("sha256:1",), 7)
    assert found.release_tag == "voxyard-exporter:abababababab"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Error: No such image: x:1", "no image x:1 here: build it with --build"),
        ("Cannot connect to the Docker daemon", "docker image fails here: Cannot connect to the Docker daemon"),
    ],
)
def test_an_image_that_is_not_there_is_a_sentence(docker: Path, said: str, expected: str) -> None:
    docker.write_text(f"import sys\nsys.exit({said!r})")
    with pytest.raises(FleetError, match=re.escape(expected)):
        find_image("x:1")


def test_without_docker_the_sentence_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FleetError, match="docker is not installed here"):
        find_image("x:1")


def test_a_build_that_fails_is_a_sentence_with_what_helps_behind_a_mirror(docker: Path) -> None:
    docker.write_text("import os, sys\nsys.exit(7 if os.environ['DOCKER_BUILDKIT'] == '1' else 8)")
    with pytest.raises(FleetError, match=r"docker build answered 7.*--pip-config"):
        build_image(ROOT, Build())


def test_an_image_is_saved_in_pieces_under_its_release_tag(docker: Path) -> None:
    docker.write_text(
        "import sys\nif sys.argv[1] == 'save':\n    assert sys.argv[2] == 'voxyard-exporter:abababababab'\n"
        "    sys.stdout.buffer.write(b'x' * 3_000_000)"
    )
    pieces = list(save(LocalImage("sha256:" + "ab" * 32, (), 0)))
    assert sum(map(len, pieces)) == 3_000_000
    assert max(map(len, pieces)) <= 1 << 20


def test_a_save_that_breaks_off_is_an_error_and_no_short_image(docker: Path) -> None:
    docker.write_text("import sys\nsys.stdout.write('x')\nsys.exit(3 if sys.argv[1] == 'save' else 0)")
    with pytest.raises(FleetError, match="docker save answered 3"):
        list(save(LocalImage("sha256:" + "ab" * 32, (), 0)))


def test_the_image_has_no_rights_and_no_foreign_parts() -> None:
    lines = (ROOT / "images/exporter/Dockerfile").read_text().splitlines()
    assert not lines[0].startswith("# syntax=")  # that would fetch a builder from a registry
    final = "\n".join(lines[[number for number, line in enumerate(lines) if line.startswith("FROM")][-1] :])
    assert "USER 65532:65532" in final
    assert 'CMD ["python", "-m", "voxyard.telemetry.probe"]' in final
    assert "pip install" not in final


def test_the_service_runs_hardened() -> None:
    service = yaml.safe_load((ROOT / "deploy/compose/exporter.yaml").read_text())["services"]["exporter"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] == "65532:65532"
    assert service["init"] is True
    assert {"pids_limit", "mem_limit", "healthcheck", "logging"} <= set(service)
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "all", "capabilities": ["utility"]}
