"""Image push, and the image record."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from programs import python_program

from fleet.errors import FleetError
from fleet.images.image import REVISION_LABEL, LocalImage
from fleet.images.push import push, read_record, write_record
from fleet.images.registry import NoSuchImageError

DIGEST = "r:5000/x/voxyard-bark@sha256:" + "1" * 64
IMAGE = LocalImage("sha256:" + "ab" * 32, ("sha256:1", "sha256:2"), 7, "voxyard-bark", labels=(("a", "b"),))
PUSHED = replace(IMAGE, size_bytes=9, digest=DIGEST)


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named docker that notes what it was asked, and answers as the file `script` says."""
    program = tmp_path / "docker"
    note = f"import sys\nopen({str(tmp_path / 'asked')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
    program.write_text(python_program(f"{note}exec(open({str(tmp_path / 'script')!r}).read())\n"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path / "script"


class Registry:
    """Answers of a registry, one after the other; None: no such image."""

    def __init__(self, *answers: LocalImage | None) -> None:
        self.answers, self.names = list(answers), list[str]()

    def __call__(self, name: str, role: str) -> LocalImage:
        self.names.append(name)
        found = self.answers.pop(0)
        if found is None:
            raise NoSuchImageError(f"no image {name}")
        return found


def asked(docker: Path) -> list[str]:
    note = docker.parent / "asked"
    return note.read_text().splitlines() if note.exists() else []


@pytest.mark.parametrize(("version", "tag"), [(None, "abababababab"), ("c" * 40, "c" * 40)])
def test_an_image_is_pushed_under_its_commit_or_its_id_and_gets_its_digest(
    docker: Path, version: str | None, tag: str
) -> None:
    docker.touch()
    found = Registry(None, PUSHED)
    assert push(IMAGE, "bark", "r:5000/x", version, find=found) == PUSHED
    name = f"r:5000/x/voxyard-bark:{tag}"
    assert asked(docker) == [f"tag {IMAGE.id} {name}", f"push {name}"]
    assert found.names == [name, name]


def test_an_image_that_is_there_is_not_pushed_again_also_where_an_engine_names_it_otherwise(docker: Path) -> None:
    docker.touch()
    assert push(replace(IMAGE, id="sha256:manifest"), "bark", "r:5000/x", "c" * 40, find=Registry(PUSHED)) == PUSHED
    assert asked(docker) == []


def test_another_image_of_the_commit_is_kept_unless_it_shall_be_replaced(docker: Path) -> None:
    docker.touch()
    other = replace(PUSHED, layers=("sha256:3",))
    with pytest.raises(FleetError, match=r"is another image .*--replace replaces it"):
        push(IMAGE, "bark", "r:5000/x", "c" * 40, find=Registry(other))
    assert asked(docker) == []
    assert push(IMAGE, "bark", "r:5000/x", "c" * 40, replace=True, find=Registry(other, PUSHED)) == PUSHED
    with pytest.raises(FleetError, match="somebody else pushed it, too"):
        push(IMAGE, "bark", "r:5000/x", "c" * 40, find=Registry(None, other))


def test_a_push_that_fails_is_an_error_message(docker: Path) -> None:
    docker.write_text("sys.exit(4 if sys.argv[1] == 'push' else 0)")
    with pytest.raises(FleetError, match=r"was not pushed .docker push exited with 4"):
        push(IMAGE, "bark", "r:5000/x", find=Registry(None))


@pytest.mark.parametrize("registry", ["https://r:5000", "r:5000/x/", "ghcr.io/MyOrg", "myorg", "r:5000/x:1"])
def test_a_registry_is_a_host_and_a_path(registry: str) -> None:
    with pytest.raises(FleetError, match="expected a registry as HOST"):
        push(IMAGE, "bark", registry, find=Registry())


def test_the_record_keeps_the_images_of_other_roles(tmp_path: Path) -> None:
    path = tmp_path / "build/images.json"
    image = LocalImage(IMAGE.id, IMAGE.layers, 7, "voxyard-bark")
    pushed = replace(image, digest=DIGEST, labels=((REVISION_LABEL, "c" * 40),))
    write_record(path, {"bark": IMAGE, "exporter": IMAGE})
    write_record(path, {"bark": pushed})
    assert read_record(path) == {"bark": pushed, "exporter": image}
    assert json.loads(path.read_text())["bark"]["reference"] == DIGEST


def test_no_record_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="no such file: build the images with make images"):
        read_record(tmp_path / "images.json")
    (tmp_path / "images.json").write_text("[]")
    with pytest.raises(FleetError, match="not an image record"):
        read_record(tmp_path / "images.json")
