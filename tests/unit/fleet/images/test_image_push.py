"""Image push, and the image record."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.images.push import push, read_record, write_record

DIGEST = "r:5000/x/voxyard-bark@sha256:" + "1" * 64
IMAGE = LocalImage("sha256:" + "ab" * 32, ("sha256:1", "sha256:2"), 7, "voxyard-bark")


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named docker that notes what it was asked, and answers as the file `script` says."""
    program = tmp_path / "docker"
    note = f"import sys\nopen({str(tmp_path / 'asked')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
    program.write_text(f"#!{sys.executable}\n{note}exec(open({str(tmp_path / 'script')!r}).read())\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path / "script"


def inspected(digests: list[str]) -> str:
    document = {"Id": IMAGE.id, "RootFS": {"Layers": list(IMAGE.layers)}, "Size": 7, "RepoDigests": digests}
    return f"print({json.dumps([document])!r}) if sys.argv[1] == 'image' else None\n"


def test_an_image_is_pushed_under_a_tag_that_says_which_it_is_and_gets_its_digest(docker: Path) -> None:
    docker.write_text(inspected([DIGEST]))
    assert push(IMAGE, "bark", "r:5000/x") == LocalImage(IMAGE.id, IMAGE.layers, 7, "voxyard-bark", DIGEST)
    name = "r:5000/x/voxyard-bark:abababababab"
    asked = (docker.parent / "asked").read_text().splitlines()
    assert asked == [f"tag {IMAGE.id} {name}", f"push {name}", f"image inspect {IMAGE.id}"]


def test_a_push_that_fails_is_an_error_message(docker: Path) -> None:
    docker.write_text("sys.exit(4 if sys.argv[1] == 'push' else 0)")
    with pytest.raises(FleetError, match=r"was not pushed .docker push exited with 4"):
        push(IMAGE, "bark", "r:5000/x")


def test_a_push_without_a_digest_is_not_taken_for_done(docker: Path) -> None:
    docker.write_text(inspected(["elsewhere/voxyard-bark@sha256:1"]))
    with pytest.raises(FleetError, match="reports no digest"):
        push(IMAGE, "bark", "r:5000/x")


@pytest.mark.parametrize("registry", ["https://r:5000", "r:5000/x/"])
def test_a_registry_is_a_host_and_a_path(registry: str) -> None:
    with pytest.raises(FleetError, match="expected a registry as HOST"):
        push(IMAGE, "bark", registry)


def test_the_record_keeps_the_images_of_other_roles(tmp_path: Path) -> None:
    path = tmp_path / "build/images.json"
    pushed = LocalImage(IMAGE.id, IMAGE.layers, 7, "voxyard-bark", DIGEST)
    write_record(path, {"bark": IMAGE, "exporter": IMAGE})
    write_record(path, {"bark": pushed})
    assert read_record(path) == {"bark": pushed, "exporter": IMAGE}
    assert json.loads(path.read_text())["bark"]["reference"] == DIGEST


def test_no_record_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="no such file: build the images with make images"):
        read_record(tmp_path / "images.json")
    (tmp_path / "images.json").write_text("[]")
    with pytest.raises(FleetError, match="not an image record"):
        read_record(tmp_path / "images.json")
