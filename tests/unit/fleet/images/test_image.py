"""Images: build command lines, errors, revisions."""

from __future__ import annotations

import itertools
import json
import os
import re
from pathlib import Path

import pytest
import yaml
from programs import python_program

from fleet.errors import FleetError
from fleet.images.build import Build, build_command, build_image, stage_wheels
from fleet.images.image import LocalImage, find_image, load, save

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named docker that does what the file `script` says."""
    program = tmp_path / "docker"
    program.write_text(python_program(f"exec(open({str(tmp_path / 'script')!r}).read())\n"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path / "script"


def test_a_plain_build_names_file_tag_and_what_goes_into_the_labels() -> None:
    assert build_command(Path("/r"), Build(), version="1.2", revision="abc") == [
        "docker", "build", "--file", "/r/images/exporter/Dockerfile", "--tag", "voxyard-exporter:build-cache",
        "--build-arg", "VERSION=1.2", "--build-arg", "REVISION=abc", "--build-arg", "BUILDKIT_INLINE_CACHE=1", "/r",
    ]  # fmt: skip


def test_configuration_and_certificates_go_in_as_secrets_never_as_arguments() -> None:
    how = Build("mirror/base:1", Path("/x/pip.conf"), Path("/x/ca.pem"), "host", apt_config=Path("/x/apt.conf"))
    command = build_command(Path("/r"), how, version="1", revision="r")
    assert command[command.index("BASE=mirror/base:1") - 1] == "--build-arg"
    assert values(command, "--secret") == [
        "id=pip_config,src=/x/pip.conf",
        "id=ca_bundle,src=/x/ca.pem",
        "id=apt_config,src=/x/apt.conf",
    ]
    assert command[-3:] == ["--network", "host", "/r"]


@pytest.mark.parametrize(("role", "argument"), [("trainer", "TENSORFLOW=gpu"), ("bark", "TORCH=gpu")])
def test_a_role_has_its_own_file_tag_and_framework(role: str, argument: str) -> None:
    how = Build(role=role, framework="gpu", wheels=Path("/w"), cache_from="earlier:1")
    command = build_command(Path("/r"), how, version="1", revision="r")
    assert values(command, "--file") == [f"/r/images/{role}/Dockerfile"]
    assert values(command, "--tag") == [f"voxyard-{role}:build-cache"]
    assert {argument, "WHEELS=build/images/wheels"} <= set(values(command, "--build-arg"))
    assert values(command, "--cache-from") == ["earlier:1"]


def values(command: list[str], option: str) -> list[str]:
    return [value for name, value in itertools.pairwise(command) if name == option]


def test_a_framework_for_an_image_that_has_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="image exporter has no framework"):
        build_image(tmp_path, Build(framework="cpu"))


@pytest.mark.parametrize("how", [Build(pip_config=Path("/no/file")), Build(apt_config=Path("/no/file"))])
def test_a_file_that_is_not_there_is_reported_before_anything_is_built(how: Build, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="/no/file: no such file"):
        build_image(tmp_path, how)


def test_the_wheels_of_a_build_are_those_of_the_folder_and_no_others(tmp_path: Path) -> None:
    folder, staged = tmp_path / "given", tmp_path / "build/wheels"
    folder.mkdir()
    for name in ("torch-2-py3.whl", "notes.txt"):
        (folder / name).write_text(name)
    staged.mkdir(parents=True)
    (staged / "old-1-py3.whl").touch()

    stage_wheels(folder, staged)

    assert [path.name for path in staged.iterdir()] == ["torch-2-py3.whl"]
    assert (staged / "torch-2-py3.whl").read_text() == "torch-2-py3.whl"
    (folder / "torch-2-py3.whl").unlink()
    with pytest.raises(FleetError, match="no wheels"):
        stage_wheels(folder, staged)


def test_an_image_is_found_and_its_release_tag_says_which_it_is(docker: Path) -> None:
    docker.write_text(
        "import sys\nassert sys.argv[1:] == ['image', 'inspect', 'x:1']\n"
        'print(\'[{"Id": "sha256:\' + \'ab\' * 32 + \'", "RootFS": {"Layers": ["sha256:1"]}, "Size": 7}]\')'
    )
    found = find_image("x:1", "bark")
    assert found == LocalImage("sha256:" + "ab" * 32, ("sha256:1",), 7, "voxyard-bark")
    assert found.release_tag == found.reference == "voxyard-bark:abababababab"


def test_an_image_that_a_registry_has_is_named_by_its_digest_there(docker: Path) -> None:
    there, elsewhere = f"r:5000/site/voxyard-bark@sha256:{'1' * 64}", f"other/voxyard-bark@sha256:{'2' * 64}"
    document = {"Id": "sha256:1", "RootFS": {"Layers": []}, "Size": 7, "RepoDigests": [elsewhere, there]}
    docker.write_text(f"print({json.dumps([document])!r})")
    assert find_image("x:1", "bark", registry="r:5000/site").reference == there
    assert find_image("x:1", "bark", registry="r:5000").reference == "voxyard-bark:1"
    assert find_image("x:1", "bark").digest is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Error: No such image: x:1", "no image x:1 on this machine: build it with make images"),
        (
            "Cannot connect to the Docker daemon at unix:///x.sock. Is the docker daemon running?",
            "no Docker engine answers on this machine, which stores the images: start it (systemctl start docker), "
            "or set DOCKER_HOST to the engine that has them (docker image: Cannot connect to the Docker daemon at "
            "unix:///x.sock. Is the docker daemon running?)",
        ),
        (
            "failed to connect to the docker API at unix:///x.sock; check if the path is correct and if the daemon is "
            "running",
            "no Docker engine answers on this machine",
        ),
        ("permission denied", "docker image failed on this machine: permission denied"),
    ],
)
def test_an_image_that_is_not_there_is_an_error_message(docker: Path, said: str, expected: str) -> None:
    docker.write_text(f"import sys\nsys.exit({said!r})")
    with pytest.raises(FleetError, match=re.escape(expected)):
        find_image("x:1")


def test_without_docker_the_sentence_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FleetError, match="docker is not installed on this machine"):
        find_image("x:1")


def test_a_build_that_fails_is_an_error_message_with_what_helps_behind_a_mirror(docker: Path) -> None:
    docker.write_text("import os, sys\nsys.exit(7 if os.environ['DOCKER_BUILDKIT'] == '1' else 8)")
    with pytest.raises(FleetError, match=r"docker build exited with 7.*--pip-config"):
        build_image(ROOT, Build())


def test_a_build_without_an_engine_names_it_and_the_remedy(docker: Path) -> None:
    docker.write_text("import sys\nsys.exit('Cannot connect to the Docker daemon.' if 'version' in sys.argv else 1)")
    with pytest.raises(FleetError, match=r"exporter was not built: no Docker engine answers .*start it .*DOCKER_HOST"):
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
    with pytest.raises(FleetError, match="docker save failed with exit code 3"):
        list(save(LocalImage("sha256:" + "ab" * 32, (), 0)))


def test_an_archive_is_loaded_and_a_load_that_fails_is_an_error(docker: Path) -> None:
    loaded = docker.with_name("loaded")
    docker.write_text(f"import sys\nopen({str(loaded)!r}, 'wb').write(sys.stdin.buffer.read())")
    load([b"one", b"two"])
    assert loaded.read_bytes() == b"onetwo"
    docker.write_text("import sys\nsys.exit(5)")
    with pytest.raises(FleetError, match="docker load failed with exit code 5"):
        load(itertools.repeat(b"x" * 100_000, 100))


def test_environment_and_labels_of_an_image_are_known(docker: Path) -> None:
    config = {"Env": ["A=1"], "Labels": {"b": "2", "a": "1"}}
    document = {"Id": "sha256:1", "RootFS": {"Layers": []}, "Size": 7, "Config": config}
    docker.write_text(f"print({json.dumps([document])!r})")
    found = find_image("x:1")
    assert (found.environment, found.label("b"), found.label("c")) == (("A=1",), "2", None)


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
